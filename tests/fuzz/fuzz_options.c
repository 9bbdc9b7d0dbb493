/* The option parser on any environment: it ends, and every message is one harmless line. */
#include "options/options.h"

#include <stdlib.h>
#include <string.h>

/* What holds of every option's value, whatever the environment says. */
#define REQUIRE(condition)                                                                         \
    if (!(condition))                                                                              \
        abort();
#define REQUIRE_BETWEEN(value, minimum, maximum) REQUIRE(value >= minimum && value <= maximum)
#define REQUIRE_BOOL(value, minimum, maximum)
#define REQUIRE_UINT(value, minimum, maximum) REQUIRE_BETWEEN((double)value, minimum, maximum)
#define REQUIRE_RATIO                         REQUIRE_BETWEEN
#define REQUIRE_LIMIT(value, minimum, maximum)                                                     \
    REQUIRE(value.kind != LIMIT_PERCENT || value.percent <= 100)
#define REQUIRE_WORD(value, minimum, maximum)  REQUIRE(value >= 0)
#define REQUIRE_NAMES(value, minimum, maximum) REQUIRE(value)
#define REQUIRE_PATH(value, minimum, maximum)  REQUIRE(value)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void say(const char *line) {
    for (; *line; line++)
        if (*line < ' ' || *line > '~')
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum { ENTRIES = 8 };
    static const char prefix[] = "POOLCUDA_";
    char *text = malloc(size + 1), *environment[2 * ENTRIES + 1], *cursor = text;
    char prefixed[ENTRIES][512];
    size_t count = 0;
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    /* The entries as they come, and each with the prefix that makes it ours. */
    for (int i = 0; i < ENTRIES && cursor < text + size; i++) {
        size_t length = strlen(cursor);
        environment[count++] = cursor;
        if (length + sizeof prefix <= sizeof prefixed[i]) {
            memcpy(prefixed[i], prefix, sizeof prefix - 1);
            memcpy(prefixed[i] + sizeof prefix - 1, cursor, length + 1);
            environment[count++] = prefixed[i];
        }
        cursor += length + 1;
    }
    environment[count] = NULL;
    struct options options;
    options_parse(&options, environment, say);
#define OPTION(field, name, type, fallback, minimum, maximum, when, help)                          \
    REQUIRE_##type(options.field, minimum, maximum)
#include "options/options.def"
#undef OPTION
    free(text);
    return 0;
}
