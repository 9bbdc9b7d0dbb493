#include "cli/progress.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { WIDTH = 30 };

static bool shown;
static int last = -1;

void progress_show(double share, const char *doing) {
    int thousandth = (int)(share * 1000);
    if (thousandth == last || !isatty(STDERR_FILENO))
        return;
    char bar[WIDTH + 1];
    int filled = (int)(share * WIDTH);
    memset(bar, '.', WIDTH);
    memset(bar, '#', (size_t)(filled < WIDTH ? filled : WIDTH));
    bar[WIDTH] = '\0';
    fprintf(stderr, "\r[%s] %3d%% %.40s\033[K", bar, thousandth / 10, doing);
    last = thousandth;
    shown = true;
}

void progress_end(void) {
    if (shown)
        fputs("\r\033[K", stderr);
    shown = false;
    last = -1;
}
