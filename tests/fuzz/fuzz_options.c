/* The option parser on any environment: it ends, and every message is one harmless line. */
#include "options.h"

#include <stdlib.h>
#include <string.h>

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
    if (!(options.reuse_ratio >= 1 && options.reuse_ratio <= 16) || options.site_depth < 1 ||
        options.site_depth > 4 || !options.stats_file)
        abort();
    free(text);
    return 0;
}
