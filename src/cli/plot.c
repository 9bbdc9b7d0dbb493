#include "cli/plot.h"

#include <stdio.h>

#ifndef HAVE_CAIRO
bool plot_write(const char *base, const struct plot_input *input, char error[OUTPUT_ERROR]) {
    (void)input;
    return plot_cannot(base, error);
}
#else
#include "cli/plot_scale.h"
#include "report/human.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 900, HEIGHT = 560, LEFT = 80, RIGHT = 190, TOP = 70, BOTTOM = 60, DOT = PLOT_DOT };

/* What is drawn, and its scales: bytes from 0 to what is worth having takes, the logarithm of calls
 * + 1 from 0. */
struct plot {
    const struct plot_input *input;
    const struct tune *tune;
    double most_bytes, most_calls;
    cairo_t *cairo;
};

static double x_of(const struct plot *plot, double bytes) {
    return LEFT + bytes / plot->most_bytes * (WIDTH - LEFT - RIGHT);
}

static double y_of(const struct plot *plot, uint64_t calls) {
    double share = log10((double)calls + 1) / log10(plot->most_calls + 1);
    return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM);
}

static bool is_beyond(const struct plot *plot, const struct tune_setting *setting) {
    return setting->complete && (double)setting->result.peak_held_bytes > plot->most_bytes;
}

static double x_of_setting(const struct plot *plot, const struct tune_setting *setting) {
    return is_beyond(plot, setting) ? WIDTH - RIGHT
                                    : x_of(plot, (double)setting->result.peak_held_bytes);
}

static double y_of_setting(const struct plot *plot, const struct tune_setting *setting) {
    return y_of(plot, tune_calls(&setting->result));
}

static const struct plot_kind *kind_of(const struct tune_setting *setting) {
    return plot_kind(setting->preset);
}

static void ring(const struct plot *plot, double x, double y) {
    plot_grey(plot->cairo, 0);
    cairo_arc(plot->cairo, x, y, DOT + 4, 0, 2 * M_PI);
    cairo_stroke(plot->cairo);
}

static void draw_axes(const struct plot *plot) {
    enum { STEPS = 6 };
    const struct plot_scale scale = plot_scale(plot->most_bytes, STEPS);
    cairo_set_line_width(plot->cairo, 1);
    for (unsigned i = 0; plot_scale_bytes(&scale, i) <= plot->most_bytes; i++) {
        double x = x_of(plot, plot_scale_bytes(&scale, i));
        plot_grey(plot->cairo, 0.85);
        plot_line(plot->cairo, x, TOP, x, HEIGHT - BOTTOM);
        plot_grey(plot->cairo, 0.2);
        plot_words(plot->cairo, x, HEIGHT - BOTTOM + 18, 0.5, plot_scale_text(&scale, i).text);
    }
    for (uint64_t calls = 0; (double)calls <= plot->most_calls;
         calls = plot_next_calls(calls, (uint64_t)plot->most_calls)) {
        plot_grey(plot->cairo, 0.85);
        plot_line(plot->cairo, LEFT, y_of(plot, calls), WIDTH - RIGHT, y_of(plot, calls));
        plot_grey(plot->cairo, 0.2);
        plot_words(plot->cairo, LEFT - 8, y_of(plot, calls) + 4, 1, plot_count(calls).text);
    }
    plot_words(plot->cairo, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - BOTTOM + 42, 0.5,
               "peak held from the driver");
    plot_words(plot->cairo, LEFT, TOP - 12, 0.5, "driver calls");
    plot_words(plot->cairo, (LEFT + WIDTH - RIGHT) / 2.0, 44, 0.5, plot->input->subtitle);
    cairo_set_font_size(plot->cairo, 15);
    plot_words(plot->cairo, (LEFT + WIDTH - RIGHT) / 2.0, 24, 0.5, plot->input->title);
    cairo_set_font_size(plot->cairo, 12);
}

static void draw_limit(const struct plot *plot) {
    static const double dashes[] = {6, 4};
    double x = x_of(plot, (double)plot->input->live_bytes);
    plot_grey(plot->cairo, 0.3);
    cairo_set_dash(plot->cairo, dashes, 2, 0);
    plot_line(plot->cairo, x, TOP, x, HEIGHT - BOTTOM);
    cairo_set_dash(plot->cairo, NULL, 0, 0);
    plot_words(plot->cairo, x + 6, HEIGHT - BOTTOM - 8, 0, "limit: peak requested");
}

static int by_held(const void *one, const void *other) {
    const struct tune_setting *const *a = one, *const *b = other;
    uint64_t held = (*a)->result.peak_held_bytes, others = (*b)->result.peak_held_bytes;
    return (held > others) - (held < others);
}

/* A list with room for all settings and one more, so that it is never empty; NULL if there is no
 * memory. */
static const struct tune_setting **new_list(const struct plot *plot) {
    return calloc(plot->tune->count + 1, sizeof(struct tune_setting *));
}

static void draw_front(const struct plot *plot) {
    const size_t size = sizeof(void *);
    const struct tune_setting **front = new_list(plot);
    size_t count = 0;
    for (size_t i = 0; front && i < plot->tune->count; i++)
        if (plot->tune->settings[i].front)
            front[count++] = &plot->tune->settings[i];
    if (count)
        qsort(front, count, size, by_held);
    plot_grey(plot->cairo, 0.4);
    cairo_set_line_width(plot->cairo, 1.5);
    for (size_t i = 0; i < count; i++)
        cairo_line_to(plot->cairo, x_of_setting(plot, front[i]), y_of_setting(plot, front[i]));
    cairo_stroke(plot->cairo);
    free(front);
}

/* Draws what lies beyond the axis, as an arrow at its end. */
static void arrow(cairo_t *cairo, double x, double y, const struct plot_kind *kind) {
    plot_colour(cairo, kind);
    cairo_move_to(cairo, x - DOT, y - DOT - 1);
    cairo_line_to(cairo, x + DOT, y);
    cairo_line_to(cairo, x - DOT, y + DOT + 1);
    cairo_close_path(cairo);
    cairo_fill(cairo);
}

static void draw_setting(const struct plot *plot, const struct tune_setting *setting) {
    double x = x_of_setting(plot, setting), y = y_of_setting(plot, setting);
    (is_beyond(plot, setting) ? arrow : plot_dot)(plot->cairo, x, y, kind_of(setting));
    if (setting == plot->tune->recommended)
        ring(plot, x, y);
}

static void draw_settings(const struct plot *plot) {
    for (size_t i = 0; i < plot->tune->count; i++)
        if (plot->tune->settings[i].complete)
            draw_setting(plot, &plot->tune->settings[i]);
    draw_setting(plot, plot->tune->recommended); /* over what is at the same place */
}

static int by_height(const void *one, const void *other) {
    const struct tune_setting *const *a = one, *const *b = other;
    uint64_t calls = tune_calls(&(*a)->result), others = tune_calls(&(*b)->result);
    return calls != others ? (calls < others) - (calls > others) : by_held(one, other);
}

/* Writes how far beyond the axis they are, from the top down, none over another. */
static void draw_values_beyond(const struct plot *plot) {
    enum { LINE = 14 };
    const size_t size = sizeof(void *);
    const struct tune_setting **beyond = plot->tune->count ? calloc(plot->tune->count, size) : NULL;
    double last = 0;
    struct human words, before = {""};
    size_t count = 0;
    for (size_t i = 0; beyond && i < plot->tune->count; i++)
        if (is_beyond(plot, &plot->tune->settings[i]))
            beyond[count++] = &plot->tune->settings[i];
    if (count)
        qsort(beyond, count, size, by_height);
    plot_grey(plot->cairo, 0.2);
    for (size_t i = 0; i < count; i++) {
        double y = y_of_setting(plot, beyond[i]) + 4;
        words = human(beyond[i]->result.peak_held_bytes);
        if (y < last + LINE && strcmp(words.text, before.text) == 0)
            continue; /* the same once more */
        last = fmax(y, last + LINE);
        before = words;
        plot_words(plot->cairo, WIDTH - RIGHT - DOT - 5, last, 1, words.text);
    }
    free(beyond);
}

/* Draws the run without the pool. */
static void diamond(const struct plot *plot, double x, double y) {
    enum { SIZE = DOT + 2 };
    plot_grey(plot->cairo, 0);
    cairo_move_to(plot->cairo, x - SIZE, y);
    cairo_line_to(plot->cairo, x, y - SIZE);
    cairo_line_to(plot->cairo, x + SIZE, y);
    cairo_line_to(plot->cairo, x, y + SIZE);
    cairo_close_path(plot->cairo);
    cairo_fill(plot->cairo);
}

static void draw_native(const struct plot *plot) {
    const struct replay_result *native = plot->input->native;
    char words[64];
    double x = x_of(plot, (double)native->peak_held_bytes), y = y_of(plot, tune_calls(native));
    diamond(plot, x, y);
    snprintf(words, sizeof words, "no pool: %s calls", plot_count(tune_calls(native)).text);
    /* Nothing holds less, so that there is room on the left, if any. */
    bool left = x - LEFT > 2 * DOT + 160;
    plot_words(plot->cairo, left ? x - 2 * DOT : x + 2 * DOT, y + 4, left, words);
}

static bool was_tried(const struct plot *plot, const struct plot_kind *kind) {
    for (size_t i = 0; i < plot->tune->count; i++)
        if (plot->tune->settings[i].complete && kind_of(&plot->tune->settings[i]) == kind)
            return true;
    return false;
}

static void draw_legend(const struct plot *plot) {
    const double x = WIDTH - RIGHT + 40, mark = WIDTH - RIGHT + 26;
    double y = TOP + 10;
    bool any_beyond = false;
    for (size_t i = 0; i < plot_kind_count; i++) {
        if (!was_tried(plot, &plot_kinds[i]))
            continue;
        plot_dot(plot->cairo, mark, y - 4, &plot_kinds[i]);
        plot_grey(plot->cairo, 0.2);
        plot_words(plot->cairo, x, y, 0, plot_kinds[i].preset);
        y += 22;
    }
    for (size_t i = 0; i < plot->tune->count; i++)
        any_beyond = any_beyond || is_beyond(plot, &plot->tune->settings[i]);
    if (any_beyond) {
        arrow(plot->cairo, mark, y - 4, &(struct plot_kind){"", 0.5, 0.5, 0.5});
        plot_grey(plot->cairo, 0.2);
        plot_words(plot->cairo, x, y, 0, "beyond the axis");
        y += 22;
    }
    diamond(plot, mark, y - 4);
    plot_words(plot->cairo, x, y, 0, "no pool");
    y += 22;
    plot_grey(plot->cairo, 0.4);
    plot_line(plot->cairo, mark - 8, y - 4, mark + 8, y - 4);
    plot_grey(plot->cairo, 0);
    plot_words(plot->cairo, x, y, 0, "front");
    y += 22;
    ring(plot, mark, y - 4);
    plot_words(plot->cairo, x, y, 0,
               tune_holds_too_much(plot->tune) ? "holds least" : "recommended");
}

static void draw(cairo_t *cairo, void *state) {
    struct plot *plot = state;
    plot->cairo = cairo;
    draw_axes(plot);
    draw_limit(plot);
    draw_values_beyond(plot);
    draw_front(plot);
    draw_native(plot);
    draw_settings(plot);
    draw_legend(plot);
}

bool plot_write(const char *base, const struct plot_input *input, char error[OUTPUT_ERROR]) {
    const struct tune *tune = input->tune;
    struct plot plot = {.input = input, .tune = tune};
    plot.most_bytes = fmax((double)input->live_bytes, (double)input->native->peak_held_bytes);
    plot.most_calls = fmax(10, (double)tune_calls(input->native));
    for (size_t i = 0; i < tune->count; i++) {
        const struct tune_setting *setting = &tune->settings[i];
        if (setting->front || setting == tune->recommended || setting == tune->alternative)
            plot.most_bytes = fmax(plot.most_bytes, (double)setting->result.peak_held_bytes);
        if (setting->complete)
            plot.most_calls = fmax(plot.most_calls, (double)tune_calls(&setting->result));
    }
    plot.most_bytes = fmax(plot.most_bytes * 1.05, 1);
    return plot_files(base, WIDTH, HEIGHT, draw, &plot, error);
}
#endif
