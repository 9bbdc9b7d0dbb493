/* The values of all POOLCUDA_* options, parsed from an environment. The table is options.def. */
#ifndef POOLCUDA_OPTIONS_OPTIONS_H
#define POOLCUDA_OPTIONS_OPTIONS_H

#include "options/option_columns.h"

#include <stddef.h>

enum { OPTION_PATH_MAX = 4096 };

struct options {
#define OPTION(field, name, type, fallback, minimum, maximum, when, help) OPTION_TYPE_##type field;
#include "options/options.def"
#undef OPTION
};

/* The place of each field in option_table. */
enum option_index {
#define OPTION(field, name, type, fallback, minimum, maximum, when, help) OPTION_INDEX_##field,
#include "options/options.def"
#undef OPTION
};

/* One row of the table, for --help, the man page and the docs. type and help are NULL in the
 * preloaded object. */
struct option_info {
    char name[32], fallback[16]; /* pointers would cost every program at its start */
    const char *type, *help;
    double minimum, maximum; /* bound UINT and RATIO; both zero elsewhere */
    const char *words;       /* of WORD, separated by |; "" elsewhere */
    bool live;               /* may change while the program runs */
};
extern const struct option_info option_table[];
extern const size_t option_count;

/* One row of the table of presets, in the order of POOLCUDA_PRESET's words. */
struct preset_info {
    const char *name, *settings, *help;
};
extern const struct preset_info preset_table[];
extern const size_t preset_count;

/* Parses every POOLCUDA_* entry of the NULL-terminated `environment` into *options, defaults for
 * what is unset. Each bad value, and each POOLCUDA_ name that no option has, is reported once
 * through say() in one line (without newline) and then ignored. Allocates nothing; cannot fail. */
void options_parse(struct options *options, char *const *environment,
                   void (*say)(const char *line));

/* Whether an entry of an environment sets an option that names a file. */
bool options_names_file(const char *entry);
/* Sets all of these to none. */
void options_forget_files(struct options *options);

/* Sets one option that may change in a running program; *row is its place in the table. `setting`
 * is NAME=VALUE, not empty. False, with *options unchanged and one line in `error`: there is no
 * such option, or the value is bad. */
bool options_set_live(struct options *options, const char *setting, size_t *row, char *error,
                      size_t error_size);

#endif
