/* What the columns of options.def become, for those who make something of its rows. */
#ifndef POOLCUDA_OPTIONS_OPTION_COLUMNS_H
#define POOLCUDA_OPTIONS_OPTION_COLUMNS_H

#include "base/sizes.h"

#include <stdbool.h>
#include <stdint.h>

/* TYPE: of the row's field, in struct options and in the configuration that it goes to. */
#define OPTION_TYPE_BOOL  bool
#define OPTION_TYPE_UINT  uint64_t
#define OPTION_TYPE_RATIO double
#define OPTION_TYPE_LIMIT struct limit
#define OPTION_TYPE_WORD  int          /* the word's place in the row */
#define OPTION_TYPE_NAMES const char * /* as PATH */
#define OPTION_TYPE_PATH  const char * /* points into the environment; "" when unset */

/* OPTION_IF_x_##when(text): the text in rows of that kind, nothing in the others. API has arguments
 * of its own, and so each of these is the name of a macro that takes the text. */
#define OPTION_DROP(...)
#define OPTION_KEEP(...) __VA_ARGS__

/* Options of the pool's configuration. */
#define OPTION_IF_POOL_START            OPTION_DROP
#define OPTION_IF_POOL_CHECK            OPTION_DROP
#define OPTION_IF_POOL_POOL             OPTION_KEEP
#define OPTION_IF_POOL_LIVE             OPTION_KEEP
#define OPTION_IF_POOL_API(limit, unit) OPTION_KEEP

/* Options of the configuration of memory checking. */
#define OPTION_IF_CHECK_START            OPTION_DROP
#define OPTION_IF_CHECK_CHECK            OPTION_KEEP
#define OPTION_IF_CHECK_POOL             OPTION_DROP
#define OPTION_IF_CHECK_LIVE             OPTION_DROP
#define OPTION_IF_CHECK_API(limit, unit) OPTION_DROP

/* May change while the program runs. */
#define OPTION_IF_LIVE_START            OPTION_DROP
#define OPTION_IF_LIVE_CHECK            OPTION_DROP
#define OPTION_IF_LIVE_POOL             OPTION_DROP
#define OPTION_IF_LIVE_LIVE             OPTION_KEEP
#define OPTION_IF_LIVE_API(limit, unit) OPTION_KEEP

/* The program itself may change it. */
#define OPTION_IF_API_START            OPTION_DROP
#define OPTION_IF_API_CHECK            OPTION_DROP
#define OPTION_IF_API_POOL             OPTION_DROP
#define OPTION_IF_API_LIVE             OPTION_DROP
#define OPTION_IF_API_API(limit, unit) OPTION_KEEP

#endif
