#include "cli/option_values.h"

#include <stdio.h>
#include <string.h>

void option_values(const struct option_info *info, void (*put)(const char *text)) {
    char range[64];
    if (strcmp(info->type, "BOOL") == 0) {
        put("0 or 1");
    } else if (strcmp(info->type, "PATH") == 0) {
        put("a path");
    } else if (strcmp(info->type, "NAMES") == 0) {
        put("names, separated by commas");
    } else if (strcmp(info->type, "LIMIT") == 0) {
        put("auto, a size (64M) or a share (5%)");
    } else if (strcmp(info->type, "WORD") == 0) {
        for (const char *word = info->words; *word; word++)
            put(*word == '|' ? ", " : (char[]){*word, '\0'});
    } else {
        snprintf(range, sizeof range, "%.0f to %.0f", info->minimum, info->maximum);
        put(range);
    }
}
