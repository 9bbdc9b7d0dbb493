/* Makes the pool's configuration from the options. */
#ifndef POOLCUDA_OPTIONS_POOL_OPTIONS_H
#define POOLCUDA_OPTIONS_POOL_OPTIONS_H

#include "options/options.h"
#include "pool/policy.h"
#include "pool/pool.h"

static inline struct pool_config pool_config_from(const struct options *options) {
    return (struct pool_config){
        .policy = &policies[options->policy],
        .late_frees = options->check != 0,
        .close_fit = options->check != 0, /* what goes beyond a request is to be found */
#define OPTION(field, name, type, fallback, minimum, maximum, when, help)                          \
    OPTION_IF_POOL_##when(.field = options->field, )
#include "options/options.def"
#undef OPTION
    };
}

/* The setting of the pool (a bit of enum pool_setting) that a row of option_table is; 0: none that
 * may change. */
static inline unsigned pool_setting_of(size_t row) {
    static const unsigned settings[] = {
#define OPTION(field, name, type, fallback, minimum, maximum, when, help)                          \
    0 OPTION_IF_LIVE_##when(| POOL_SET_##field),
#include "options/options.def"
#undef OPTION
    };
    return settings[row];
}

#endif
