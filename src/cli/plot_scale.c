#include "cli/plot_scale.h"

#include <stddef.h>
#include <stdio.h>

struct plot_scale plot_scale(double most, unsigned steps) {
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    static const double rounds[] = {0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000};
    enum { NAMES = sizeof names / sizeof names[0], ROUNDS = sizeof rounds / sizeof rounds[0] };
    struct plot_scale scale = {.unit = 1, .step = 1, .name = names[0]};
    for (size_t i = 1; i < NAMES && most >= 1024 * scale.unit; i++) {
        scale.unit *= 1024;
        scale.name = names[i];
    }
    for (size_t i = 0; i < ROUNDS; i++) {
        scale.step = rounds[i];
        if (most <= scale.unit * scale.step * steps && (scale.step >= 1 || scale.unit > 1))
            break;
    }
    return scale;
}

double plot_scale_bytes(const struct plot_scale *scale, unsigned steps) {
    return scale->unit * scale->step * steps;
}

struct plot_text plot_scale_text(const struct plot_scale *scale, unsigned steps) {
    struct plot_text text;
    snprintf(text.text, sizeof text.text, "%.4g %s", scale->step * steps, scale->name);
    return text;
}

uint64_t plot_next_calls(uint64_t calls, uint64_t most) {
    uint64_t power = 1;
    while (calls / power >= 10)
        power *= 10;
    if (calls < 1 || most >= 100)
        return calls < 1 ? 1 : 10 * power;
    return calls < 2 * power ? 2 * power : calls < 5 * power ? 5 * power : 10 * power;
}

struct plot_text plot_count(uint64_t count) {
    struct plot_text text = {""};
    char digits[24];
    size_t length = (size_t)snprintf(digits, sizeof digits, "%llu", (unsigned long long)count);
    char *to = text.text;
    for (size_t i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0)
            *to++ = ',';
        *to++ = digits[i];
    }
    *to = '\0';
    return text;
}
