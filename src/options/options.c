#include "options/options.h"

#include "base/format.h"
#include "base/written.h"

#include <string.h>

/* Text that only the command prints: in the preloaded object each would cost every program a
 * relocation at its start. */
#ifdef POOLCUDA_PRELOADED
#define FOR_PEOPLE(text) NULL
#else
#define FOR_PEOPLE(text) text
#endif

enum kind { KIND_BOOL, KIND_UINT, KIND_RATIO, KIND_LIMIT, KIND_NAMES, KIND_PATH, KIND_WORD };

#define MAY_CHANGE(when) (false OPTION_IF_LIVE_##when(|| true))
#define OPTION(field, name, type, fallback, minimum, maximum, when, help)                          \
    {name,    fallback, FOR_PEOPLE(#type), FOR_PEOPLE(help),                                       \
     minimum, maximum,  FOR_PEOPLE(""),    MAY_CHANGE(when)},
#define OPTION_WORDS(field, name, words, fallback, when, help)                                     \
    {name, fallback, FOR_PEOPLE("WORD"), FOR_PEOPLE(help), 0, 0, words, MAY_CHANGE(when)},
const struct option_info option_table[] = {
#include "options/options.def"
};
#undef OPTION
const size_t option_count = sizeof option_table / sizeof option_table[0];

/* Where each row's value lies in struct options, and how it is read. */
static const struct {
    size_t offset;
    enum kind kind;
} targets[] = {
#define OPTION(field, name, type, fallback, minimum, maximum, when, help)                          \
    {offsetof(struct options, field), KIND_##type},
#include "options/options.def"
#undef OPTION
};

static bool read_whole(const char *text, double minimum, double maximum, uint64_t *value) {
    double number;
    if (strchr(text, '.') || !written_number(&text, &number) || *text || number < minimum ||
        number > maximum)
        return false;
    *value = (uint64_t)number;
    return true;
}

static bool same_word(const char *text, const char *word) {
    return written_same(text, word, strlen(word));
}

static bool read_bool(const char *text, bool *value) {
    static const char yes[][5] = {"1", "yes", "on", "true"};
    static const char no[][6] = {"0", "no", "off", "false"};
    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++) {
        if (same_word(text, yes[i]) || same_word(text, no[i])) {
            *value = same_word(text, yes[i]);
            return true;
        }
    }
    return false;
}

static bool read_limit(const char *text, struct limit *limit) {
    double number;
    if (same_word(text, "auto")) {
        *limit = (struct limit){.kind = LIMIT_AUTO};
        return true;
    }
    if (!written_number(&text, &number))
        return false;
    if (text[0] == '%' && !text[1] && number <= 100) {
        *limit = (struct limit){.kind = LIMIT_PERCENT, .percent = number};
        return true;
    }
    limit->kind = LIMIT_BYTES;
    return written_size(text, number, &limit->bytes);
}

/* Whether the list has a name, and each part of it that has a ! a function behind it. Empty parts
 * are those of a list that was put together. */
static bool names_something(const char *text) {
    bool named = !*text, marked = false, function = false;
    for (;; text++) {
        bool ends = !*text || *text == ',';
        if (ends && marked && !function)
            return false;
        if (!*text)
            return named;
        named = named || !ends;
        function = !ends && marked; /* whose name may have a ! as well */
        marked = !ends && (marked || *text == '!');
    }
}

/* Finds the place of `text` among words separated by |. */
static bool read_word(const char *text, const char *words, int *value) {
    for (*value = 0; *words; ++*value) {
        const char *end = strchr(words, '|');
        size_t length = end ? (size_t)(end - words) : strlen(words);
        if (written_same(text, words, length))
            return true;
        words += length + (end != NULL);
    }
    return false;
}

static bool read_value(size_t row, const char *text, struct options *options) {
    void *target = (char *)options + targets[row].offset;
    const struct option_info *info = &option_table[row];
    switch (targets[row].kind) {
    case KIND_BOOL:
        return read_bool(text, target);
    case KIND_UINT:
        return read_whole(text, info->minimum, info->maximum, target);
    case KIND_RATIO: {
        double number;
        if (!written_number(&text, &number) || *text || number < info->minimum ||
            number > info->maximum)
            return false;
        *(double *)target = number;
        return true;
    }
    case KIND_LIMIT: {
        struct limit limit;
        if (!read_limit(text, &limit))
            return false;
        *(struct limit *)target = limit;
        return true;
    }
    case KIND_NAMES:
        if (!names_something(text))
            return false;
        /* fall through */
    case KIND_PATH:
        if (strlen(text) >= OPTION_PATH_MAX)
            return false;
        *(const char **)target = text;
        return true;
    case KIND_WORD: {
        int word;
        bool yes;
        if (!read_word(text, info->words, &word)) {
            if (strncmp(info->words, "0|1", 3) != 0 || !read_bool(text, &yes))
                return false;
            word = yes;
        }
        *(int *)target = word;
        return true;
    }
    }
    return false;
}

/* Writes what the row accepts, in words, into at most `size` bytes. */
static void expectation(size_t row, char *words, size_t size) {
    const struct option_info *info = &option_table[row];
    switch (targets[row].kind) {
    case KIND_BOOL:
        format(words, size, "0 or 1");
        break;
    case KIND_UINT:
        format(words, size, "a whole number from %.0f to %.0f", info->minimum, info->maximum);
        break;
    case KIND_RATIO:
        format(words, size, "a number from %.0f to %.0f", info->minimum, info->maximum);
        break;
    case KIND_LIMIT:
        format(words, size, "auto, a size such as 64M or a share such as 5%%");
        break;
    case KIND_NAMES:
        format(words, size, "MODULE, MODULE!FUNCTION or !FUNCTION, ... in less than %d bytes",
               OPTION_PATH_MAX);
        break;
    case KIND_PATH:
        format(words, size, "a path of less than %d bytes", OPTION_PATH_MAX);
        break;
    case KIND_WORD:
        format(words, size, "one of %s", info->words);
        break;
    }
}

/* A part of a value for a message: at most 64 bytes of `text`, with what a terminal might obey made
 * harmless. */
struct quoted {
    char text[72];
};

static struct quoted quote(const char *text, size_t length) {
    enum { SHOWN = 64 };
    struct quoted quoted;
    size_t i = 0;
    for (; i < length && i < SHOWN; i++)
        quoted.text[i] = text[i] >= ' ' && text[i] <= '~' && text[i] != '"' ? text[i] : '?';
    format(quoted.text + i, sizeof quoted.text - i, "%s", i < length ? "..." : "");
    return quoted;
}

/* Writes what is wrong with a value; `instead` is what happens now. */
static void describe_bad_value(size_t row, const char *text, const char *instead, char *line,
                               size_t size) {
    char words[96];
    expectation(row, words, sizeof words);
    format(line, size, "%s=\"%s\": expected %s, %s", option_table[row].name,
           quote(text, strlen(text)).text, words, instead);
}

static void tell_bad_value(size_t row, const char *text, void (*say)(const char *line)) {
    char instead[64], problem[288], line[320];
    const struct option_info *info = &option_table[row];
    format(instead, sizeof instead, "using %s", *info->fallback ? info->fallback : "none");
    describe_bad_value(row, text, instead, problem, sizeof problem);
    format(line, sizeof line, "poolcuda: %s", problem);
    say(line);
}

/* Levenshtein distance of two names, or more than any sensible limit for a very long one. */
static size_t distance(const char *name, size_t length, const char *other) {
    enum { LONGEST = 64 };
    size_t row[LONGEST + 1], width = strlen(other);
    if (length > LONGEST || width > LONGEST)
        return LONGEST;
    for (size_t j = 0; j <= width; j++)
        row[j] = j;
    for (size_t i = 1; i <= length; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= width; j++) {
            size_t replace = diagonal + (name[i - 1] != other[j - 1]);
            size_t shorter = row[j] < row[j - 1] ? row[j] : row[j - 1];
            diagonal = row[j];
            row[j] = replace < shorter + 1 ? replace : shorter + 1;
        }
    }
    return row[width];
}

/* How many letters may be wrong in what is still taken for the option: few in a short name, which
 * otherwise any word would be near. */
static size_t most_slips(const char *name) {
    enum { PREFIX = sizeof "POOLCUDA_" - 1, PER_SLIP = 6, MOST = 3 };
    size_t slips = 1 + (strlen(name) - PREFIX) / PER_SLIP;
    return slips < MOST ? slips : MOST;
}

/* Writes that no option has the name. */
static void describe_unknown(const char *name, size_t length, char *line, size_t size) {
    size_t best = SIZE_MAX, nearest = option_count;
    for (size_t i = 0; i < option_count; i++) {
        size_t d = distance(name, length, option_table[i].name);
        if (d < best && d <= most_slips(option_table[i].name)) {
            best = d;
            nearest = i;
        }
    }
    struct quoted quoted = quote(name, length);
    if (nearest < option_count)
        format(line, size, "%s: unknown option, did you mean %s?", quoted.text,
               option_table[nearest].name);
    else
        format(line, size, "%s: unknown option, `poolcuda options` lists them all", quoted.text);
}

static void tell_unknown(const char *name, size_t length, void (*say)(const char *line)) {
    char problem[256], line[320];
    describe_unknown(name, length, problem, sizeof problem);
    bool asks = problem[strlen(problem) - 1] == '?';
    format(line, sizeof line, "poolcuda: %s%s", problem, asks ? " Ignored" : "; ignored");
    say(line);
}

const struct preset_info preset_table[] = {
#define PRESET(name, settings, help) {name, settings, FOR_PEOPLE(help)},
#include "options/presets.def"
#undef PRESET
};
const size_t preset_count = sizeof preset_table / sizeof preset_table[0];

/* The row of the name that `entry` begins with, option_count if there is none. */
static size_t find_row(const char *entry, size_t length) {
    size_t row = 0;
    while (row < option_count && (strlen(option_table[row].name) != length ||
                                  strncmp(option_table[row].name, entry, length) != 0))
        row++;
    return row;
}

/* Applies a preset: its settings are "NAME=VALUE", separated by spaces. */
static void apply_preset(const char *settings, struct options *options) {
    char value[32];
    while (*settings) {
        const char *equals = strchr(settings, '='), *end = strchr(settings, ' ');
        size_t length = end ? (size_t)(end - equals) - 1 : strlen(equals + 1);
        memcpy(value, equals + 1, length);
        value[length] = 0;
        read_value(find_row(settings, (size_t)(equals - settings)), value, options);
        settings = equals + 1 + length + (end != NULL);
    }
}

/* Reads the preset, which comes before what is set beside it. A bad one is reported with all the
 * others. */
static void parse_preset(struct options *options, char *const *environment) {
    static const char name[] = "POOLCUDA_PRESET=";
    struct options asked = {.preset = 0};
    while (environment && *environment && strncmp(*environment, name, sizeof name - 1) != 0)
        environment++;
    if (environment && *environment &&
        read_value(find_row(name, sizeof name - 2), *environment + sizeof name - 1, &asked))
        apply_preset(preset_table[asked.preset].settings, options);
}

void options_parse(struct options *options, char *const *environment,
                   void (*say)(const char *line)) {
    static const char prefix[] = "POOLCUDA_";
    uint64_t seen = 0; /* the first entry of a name counts, as with getenv */
    _Static_assert(sizeof targets / sizeof targets[0] <= 64, "seen has a bit per option");
    for (size_t i = 0; i < option_count; i++)
        read_value(i, option_table[i].fallback, options);
    parse_preset(options, environment);
    for (; environment && *environment; environment++) {
        const char *entry = *environment, *equals = strchr(entry, '=');
        if (!equals || strncmp(entry, prefix, sizeof prefix - 1) != 0)
            continue;
        size_t length = (size_t)(equals - entry), row = find_row(entry, length);
        if (row == option_count) {
            tell_unknown(entry, length, say);
        } else if (!(seen & (uint64_t)1 << row)) {
            seen |= (uint64_t)1 << row;
            if (equals[1] && !read_value(row, equals + 1, options))
                tell_bad_value(row, equals + 1, say);
        }
    }
}

bool options_names_file(const char *entry) {
    const char *equals = strchr(entry, '=');
    size_t row = equals ? find_row(entry, (size_t)(equals - entry)) : option_count;
    return row < option_count && targets[row].kind == KIND_PATH;
}

void options_forget_files(struct options *options) {
    for (size_t i = 0; i < option_count; i++)
        if (targets[i].kind == KIND_PATH)
            *(const char **)((char *)options + targets[i].offset) = "";
}

bool options_set_live(struct options *options, const char *setting, size_t *row, char *error,
                      size_t error_size) {
    const char *equals = strchr(setting, '=');
    size_t length = equals ? (size_t)(equals - setting) : strlen(setting);
    size_t found = *row = find_row(setting, length);
    if (found == option_count)
        describe_unknown(setting, length, error, error_size);
    else if (!option_table[found].live)
        format(error, error_size, "%s: read when a program starts, cannot change in a running one",
               option_table[found].name);
    else if (!equals)
        format(error, error_size, "%s: expected %s=VALUE", option_table[found].name,
               option_table[found].name);
    else if (!equals[1] || !read_value(found, equals + 1, options))
        describe_bad_value(found, equals + 1, "nothing is changed", error, error_size);
    else
        return true;
    return false;
}
