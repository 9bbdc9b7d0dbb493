/* The drawing of a sweep: three panels over one axis of memory. */
#include "cli/plot_canvas.h"
#include "cli/sweep.h"

#ifndef HAVE_CAIRO
bool sweep_plot(const char *base, const struct sweep *sweep, const char *title,
                char error[OUTPUT_ERROR]) {
    (void)sweep;
    (void)title;
    return plot_cannot(base, error);
}
#else
#include "cli/plot_scale.h"
#include "cli/result_json.h"
#include "report/human.h"

#include <math.h>
#include <stdio.h>

enum { WIDTH = 940, HEIGHT = 820, LEFT = 80, RIGHT = 190, TOP = 60, PANEL = 200, GAP = 40 };

/* The axis of memory ends here: beyond that little happens, and the last sizes would take most of
 * its length. */
static const double last_shown = 1.5;

/* A panel: the least value is 0, and `most` on a scale that is even, or of the logarithm of the
 * value + 1. */
struct panel {
    const char *title;
    double (*value)(const struct replay_result *result);
    double most;
    bool logarithmic;
    double top;
};

struct drawing {
    cairo_t *cairo;
    const struct sweep *sweep;
    const char *title;
    size_t count; /* of the sizes that are shown */
};

static double share_served(const struct replay_result *result) {
    return 100 * result_hit_rate(result);
}

static double calls(const struct replay_result *result) {
    return (double)sweep_calls(result);
}

static double failed(const struct replay_result *result) {
    return (double)result->oom_failures;
}

static double x_of(const struct drawing *drawing, size_t i) {
    double first = (double)drawing->sweep->memory[0];
    double last = (double)drawing->sweep->memory[drawing->count - 1];
    double share = last > first ? ((double)drawing->sweep->memory[i] - first) / (last - first) : 0;
    return LEFT + share * (WIDTH - LEFT - RIGHT);
}

static double y_of(const struct panel *panel, double value) {
    double share =
        panel->logarithmic ? log10(value + 1) / log10(panel->most + 1) : value / panel->most;
    return panel->top + PANEL - share * PANEL;
}

static void draw_line(const struct drawing *drawing, const struct panel *panel, uint64_t value) {
    cairo_t *cairo = drawing->cairo;
    double y = y_of(panel, (double)value);
    char words[48];
    plot_grey(cairo, 0.85);
    plot_line(cairo, LEFT, y, WIDTH - RIGHT, y);
    plot_grey(cairo, 0.2);
    snprintf(words, sizeof words, panel->logarithmic ? "%s" : "%s%%", plot_count(value).text);
    plot_words(cairo, LEFT - 8, y + 4, 1, words);
}

static void draw_scale(const struct drawing *drawing, const struct panel *panel) {
    enum { STEP = 20 }; /* percent */
    const uint64_t most = (uint64_t)panel->most;
    cairo_set_line_width(drawing->cairo, 1);
    for (uint64_t value = 0; value <= most;
         value = panel->logarithmic ? plot_next_calls(value, most) : value + STEP)
        draw_line(drawing, panel, value);
    plot_words(drawing->cairo, LEFT, panel->top - 10, 0, panel->title);
}

static void draw_row(const struct drawing *drawing, const struct panel *panel, size_t row) {
    cairo_t *cairo = drawing->cairo;
    cairo_new_path(cairo);
    for (size_t i = 0; i < drawing->count; i++)
        cairo_line_to(cairo, x_of(drawing, i),
                      y_of(panel, panel->value(&drawing->sweep->results[row][i])));
    if (row + 1 < SWEEP_ROWS)
        plot_colour(cairo, plot_kind(drawing->sweep->names[row]));
    else
        plot_grey(cairo, 0);
    cairo_set_line_width(cairo, 2);
    cairo_stroke(cairo);
}

/* A ring around each point that serves less than one with less memory. */
static void draw_cliffs(const struct drawing *drawing, const struct panel *panel) {
    const struct sweep *sweep = drawing->sweep;
    plot_grey(drawing->cairo, 0);
    cairo_set_line_width(drawing->cairo, 1);
    for (size_t i = 0; i < sweep->cliff_count; i++) {
        const struct sweep_cliff *cliff = &sweep->cliffs[i];
        if (cliff->at >= drawing->count)
            continue;
        cairo_arc(drawing->cairo, x_of(drawing, cliff->at),
                  y_of(panel, share_served(&sweep->results[cliff->row][cliff->at])), PLOT_DOT + 2,
                  0, 2 * M_PI);
        cairo_stroke(drawing->cairo);
    }
}

static void draw_memory(const struct drawing *drawing, double bottom) {
    enum { EVERY = 4 };
    const struct sweep *sweep = drawing->sweep;
    for (size_t i = 0; i < drawing->count; i += EVERY) {
        if (i > 0 && sweep->memory[i] == sweep->memory[i - EVERY])
            continue;
        char words[48];
        double ratio = (double)sweep->memory[i] / (double)sweep->peak_bytes;
        plot_grey(drawing->cairo, 0.2);
        snprintf(words, sizeof words, "%.2f x", ratio);
        plot_words(drawing->cairo, x_of(drawing, i), bottom + 18, 0.5, words);
    }
    char words[64];
    snprintf(words, sizeof words, "device memory / peak requested (%s)",
             human(sweep->peak_bytes).text);
    plot_words(drawing->cairo, (LEFT + WIDTH - RIGHT) / 2.0, bottom + 40, 0.5, words);
}

static void draw_legend(const struct drawing *drawing) {
    const double x = WIDTH - RIGHT + 20;
    double y = TOP + 10;
    cairo_set_line_width(drawing->cairo, 2);
    for (size_t row = 0; row < SWEEP_ROWS; row++, y += 22) {
        if (row + 1 < SWEEP_ROWS)
            plot_colour(drawing->cairo, plot_kind(drawing->sweep->names[row]));
        else
            plot_grey(drawing->cairo, 0);
        plot_line(drawing->cairo, x, y - 4, x + 20, y - 4);
        plot_grey(drawing->cairo, 0.2);
        plot_words(drawing->cairo, x + 28, y, 0, drawing->sweep->names[row]);
    }
    if (!drawing->sweep->cliff_count)
        return;
    cairo_arc(drawing->cairo, x + 10, y - 4, PLOT_DOT + 2, 0, 2 * M_PI);
    cairo_stroke(drawing->cairo);
    plot_words(drawing->cairo, x + 28, y, 0, "a cliff");
}

static double most_of(const struct drawing *drawing, const struct panel *panel) {
    double most = 1;
    for (size_t row = 0; row < SWEEP_ROWS; row++)
        for (size_t i = 0; i < drawing->count; i++)
            most = fmax(most, panel->value(&drawing->sweep->results[row][i]));
    return most;
}

static void draw(cairo_t *cairo, void *state) {
    struct drawing *drawing = state;
    struct panel panels[] = {{"served from idle memory", share_served, 100, false, 0},
                             {"driver calls", calls, 0, true, 0},
                             {"failed allocations", failed, 0, true, 0}};
    enum { PANELS = sizeof panels / sizeof panels[0] };
    drawing->cairo = cairo;
    plot_grey(cairo, 0.2);
    cairo_set_font_size(cairo, 15);
    plot_words(cairo, (LEFT + WIDTH - RIGHT) / 2.0, 24, 0.5, drawing->title);
    cairo_set_font_size(cairo, 12);
    for (size_t i = 0; i < PANELS; i++) {
        panels[i].top = TOP + (double)i * (PANEL + GAP);
        if (panels[i].logarithmic)
            panels[i].most = most_of(drawing, &panels[i]);
        draw_scale(drawing, &panels[i]);
        for (size_t row = SWEEP_ROWS; row-- > 0;)
            draw_row(drawing, &panels[i], row);
    }
    draw_cliffs(drawing, &panels[0]);
    draw_memory(drawing, panels[PANELS - 1].top + PANEL);
    draw_legend(drawing);
}

bool sweep_plot(const char *base, const struct sweep *sweep, const char *title,
                char error[OUTPUT_ERROR]) {
    struct drawing drawing = {.sweep = sweep, .title = title, .count = 1};
    double most = last_shown * (double)sweep->peak_bytes;
    while (drawing.count < SWEEP_SIZES && (double)sweep->memory[drawing.count] <= most + 1)
        drawing.count++;
    return plot_files(base, WIDTH, HEIGHT, draw, &drawing, error);
}
#endif
