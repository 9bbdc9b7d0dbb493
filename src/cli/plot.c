#include "cli/plot.h"

#include "cli/run_file.h"

#include <limits.h>
#include <stdio.h>

static const char *const endings[] = {".svg", ".png"};

enum { DRAWINGS = sizeof endings / sizeof endings[0] };

struct paths {
    char of[DRAWINGS][PATH_MAX];
};

static struct paths paths_of(const char *base) {
    struct paths paths;
    for (size_t i = 0; i < DRAWINGS; i++)
        snprintf(paths.of[i], sizeof paths.of[i], "%s%s", base, endings[i]);
    return paths;
}

bool plot_takes_a_place(const char *base, const char *input, char error[OUTPUT_ERROR]) {
    struct paths paths = paths_of(base);
    bool taken = output_is_output(paths.of[1], paths.of[0], error);
    for (size_t i = 0; !taken && i < DRAWINGS; i++)
        taken = output_is_input(paths.of[i], input, error) ||
                output_is_output(paths.of[i], "-", error) ||
                run_file_is_lost(paths.of[i], error, OUTPUT_ERROR);
    return taken;
}

bool plot_check(const char *base, char error[OUTPUT_ERROR]) {
    struct paths paths = paths_of(base);
    bool good = true;
    for (size_t i = 0; good && i < DRAWINGS; i++)
        good = output_check(paths.of[i], error);
    return good;
}

#ifndef HAVE_CAIRO
bool plot_write(const char *base, const struct plot_input *input, char error[OUTPUT_ERROR]) {
    (void)input;
    snprintf(error, OUTPUT_ERROR, "%.700s: cannot be drawn, this poolcuda was built without cairo",
             base);
    return false;
}
#else
#include "cli/plot_scale.h"
#include "observe/human.h"

#include <cairo-svg.h>
#include <cairo.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 900, HEIGHT = 560, LEFT = 80, RIGHT = 190, TOP = 70, BOTTOM = 60, DOT = 5 };

/* Colours that people with any colour vision tell apart (Okabe and Ito's). */
static const struct kind {
    const char *preset;
    double red, green, blue;
} kinds[] = {
    {"default", 0.00, 0.45, 0.70}, {"futhark", 0.90, 0.60, 0.00}, {"pyopencl", 0.80, 0.47, 0.65},
    {"bfc", 0.00, 0.62, 0.45},     {"paddle", 0.94, 0.89, 0.26},  {"vmm", 0.84, 0.37, 0.00},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

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

static const struct kind *kind_of(const struct tune_setting *setting) {
    for (size_t i = 0; i < KINDS; i++)
        if (strcmp(setting->preset, kinds[i].preset) == 0)
            return &kinds[i];
    return &kinds[0];
}

static void grey(const struct plot *plot, double level) {
    cairo_set_source_rgb(plot->cairo, level, level, level);
}

static void dot(const struct plot *plot, double x, double y, const struct kind *kind) {
    cairo_set_source_rgb(plot->cairo, kind->red, kind->green, kind->blue);
    cairo_arc(plot->cairo, x, y, DOT, 0, 2 * M_PI);
    cairo_fill(plot->cairo);
}

static void ring(const struct plot *plot, double x, double y) {
    grey(plot, 0);
    cairo_arc(plot->cairo, x, y, DOT + 4, 0, 2 * M_PI);
    cairo_stroke(plot->cairo);
}

static void line(const struct plot *plot, double x1, double y1, double x2, double y2) {
    cairo_new_path(plot->cairo);
    cairo_move_to(plot->cairo, x1, y1);
    cairo_line_to(plot->cairo, x2, y2);
    cairo_stroke(plot->cairo);
}

/* align: 0 begins at x, 1 ends there, 0.5 is centred. */
static void text(const struct plot *plot, double x, double y, double align, const char *words) {
    cairo_text_extents_t extents;
    cairo_text_extents(plot->cairo, words, &extents);
    cairo_move_to(plot->cairo, x - align * extents.x_advance, y);
    cairo_show_text(plot->cairo, words);
    cairo_new_path(plot->cairo);
}

static void draw_axes(const struct plot *plot) {
    enum { STEPS = 6 };
    const struct plot_scale scale = plot_scale(plot->most_bytes, STEPS);
    cairo_set_line_width(plot->cairo, 1);
    for (unsigned i = 0; plot_scale_bytes(&scale, i) <= plot->most_bytes; i++) {
        double x = x_of(plot, plot_scale_bytes(&scale, i));
        grey(plot, 0.85);
        line(plot, x, TOP, x, HEIGHT - BOTTOM);
        grey(plot, 0.2);
        text(plot, x, HEIGHT - BOTTOM + 18, 0.5, plot_scale_text(&scale, i).text);
    }
    for (uint64_t calls = 0; (double)calls <= plot->most_calls;
         calls = plot_next_calls(calls, (uint64_t)plot->most_calls)) {
        grey(plot, 0.85);
        line(plot, LEFT, y_of(plot, calls), WIDTH - RIGHT, y_of(plot, calls));
        grey(plot, 0.2);
        text(plot, LEFT - 8, y_of(plot, calls) + 4, 1, plot_count(calls).text);
    }
    text(plot, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - BOTTOM + 42, 0.5,
         "peak held from the driver");
    text(plot, LEFT, TOP - 12, 0.5, "driver calls");
    text(plot, (LEFT + WIDTH - RIGHT) / 2.0, 44, 0.5, plot->input->subtitle);
    cairo_set_font_size(plot->cairo, 15);
    text(plot, (LEFT + WIDTH - RIGHT) / 2.0, 24, 0.5, plot->input->title);
    cairo_set_font_size(plot->cairo, 12);
}

static void draw_limit(const struct plot *plot) {
    static const double dashes[] = {6, 4};
    double x = x_of(plot, (double)plot->input->live_bytes);
    grey(plot, 0.3);
    cairo_set_dash(plot->cairo, dashes, 2, 0);
    line(plot, x, TOP, x, HEIGHT - BOTTOM);
    cairo_set_dash(plot->cairo, NULL, 0, 0);
    text(plot, x + 6, HEIGHT - BOTTOM - 8, 0, "limit: peak requested");
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
    grey(plot, 0.4);
    cairo_set_line_width(plot->cairo, 1.5);
    for (size_t i = 0; i < count; i++)
        cairo_line_to(plot->cairo, x_of_setting(plot, front[i]), y_of_setting(plot, front[i]));
    cairo_stroke(plot->cairo);
    free(front);
}

/* Draws what lies beyond the axis, as an arrow at its end. */
static void arrow(const struct plot *plot, double x, double y, const struct kind *kind) {
    cairo_set_source_rgb(plot->cairo, kind->red, kind->green, kind->blue);
    cairo_move_to(plot->cairo, x - DOT, y - DOT - 1);
    cairo_line_to(plot->cairo, x + DOT, y);
    cairo_line_to(plot->cairo, x - DOT, y + DOT + 1);
    cairo_close_path(plot->cairo);
    cairo_fill(plot->cairo);
}

static void draw_setting(const struct plot *plot, const struct tune_setting *setting) {
    double x = x_of_setting(plot, setting), y = y_of_setting(plot, setting);
    (is_beyond(plot, setting) ? arrow : dot)(plot, x, y, kind_of(setting));
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
    grey(plot, 0.2);
    for (size_t i = 0; i < count; i++) {
        double y = y_of_setting(plot, beyond[i]) + 4;
        words = human(beyond[i]->result.peak_held_bytes);
        if (y < last + LINE && strcmp(words.text, before.text) == 0)
            continue; /* the same once more */
        last = fmax(y, last + LINE);
        before = words;
        text(plot, WIDTH - RIGHT - DOT - 5, last, 1, words.text);
    }
    free(beyond);
}

/* Draws the run without the pool. */
static void diamond(const struct plot *plot, double x, double y) {
    enum { SIZE = DOT + 2 };
    grey(plot, 0);
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
    text(plot, left ? x - 2 * DOT : x + 2 * DOT, y + 4, left, words);
}

static bool was_tried(const struct plot *plot, const struct kind *kind) {
    for (size_t i = 0; i < plot->tune->count; i++)
        if (plot->tune->settings[i].complete && kind_of(&plot->tune->settings[i]) == kind)
            return true;
    return false;
}

static void draw_legend(const struct plot *plot) {
    const double x = WIDTH - RIGHT + 40, mark = WIDTH - RIGHT + 26;
    double y = TOP + 10;
    bool any_beyond = false;
    for (size_t i = 0; i < KINDS; i++) {
        if (!was_tried(plot, &kinds[i]))
            continue;
        dot(plot, mark, y - 4, &kinds[i]);
        grey(plot, 0.2);
        text(plot, x, y, 0, kinds[i].preset);
        y += 22;
    }
    for (size_t i = 0; i < plot->tune->count; i++)
        any_beyond = any_beyond || is_beyond(plot, &plot->tune->settings[i]);
    if (any_beyond) {
        arrow(plot, mark, y - 4, &(struct kind){"", 0.5, 0.5, 0.5});
        grey(plot, 0.2);
        text(plot, x, y, 0, "beyond the axis");
        y += 22;
    }
    diamond(plot, mark, y - 4);
    text(plot, x, y, 0, "no pool");
    y += 22;
    grey(plot, 0.4);
    line(plot, mark - 8, y - 4, mark + 8, y - 4);
    grey(plot, 0);
    text(plot, x, y, 0, "front");
    y += 22;
    ring(plot, mark, y - 4);
    text(plot, x, y, 0, "recommended");
}

static void draw(struct plot *plot, cairo_surface_t *surface) {
    plot->cairo = cairo_create(surface);
    cairo_set_source_rgb(plot->cairo, 1, 1, 1);
    cairo_paint(plot->cairo);
    cairo_select_font_face(plot->cairo, "sans-serif", CAIRO_FONT_SLANT_NORMAL,
                           CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(plot->cairo, 12);
    draw_axes(plot);
    draw_limit(plot);
    draw_values_beyond(plot);
    draw_front(plot);
    draw_native(plot);
    draw_settings(plot);
    draw_legend(plot);
    cairo_destroy(plot->cairo);
}

static cairo_status_t take(void *out, const unsigned char *bytes, unsigned size) {
    return fwrite(bytes, 1, size, out) == size ? CAIRO_STATUS_SUCCESS : CAIRO_STATUS_WRITE_ERROR;
}

/* The drawing as an SVG or PNG file in memory; NULL without any. */
static char *drawing(struct plot *plot, bool svg, size_t *size) {
    char *bytes = NULL;
    FILE *out = open_memstream(&bytes, size);
    if (!out)
        return NULL;
    cairo_surface_t *surface = svg ? cairo_svg_surface_create_for_stream(take, out, WIDTH, HEIGHT)
                                   : cairo_image_surface_create(CAIRO_FORMAT_RGB24, WIDTH, HEIGHT);
    draw(plot, surface);
    cairo_status_t status = cairo_surface_status(surface);
    if (!svg && status == CAIRO_STATUS_SUCCESS)
        status = cairo_surface_write_to_png_stream(surface, take, out);
    cairo_surface_finish(surface);
    if (status == CAIRO_STATUS_SUCCESS)
        status = cairo_surface_status(surface);
    cairo_surface_destroy(surface);
    if (fclose(out) == 0 && status == CAIRO_STATUS_SUCCESS)
        return bytes;
    free(bytes);
    return NULL;
}

static bool write_drawing(struct plot *plot, const char *base, bool svg, char *error) {
    char path[PATH_MAX];
    size_t size;
    char *bytes = drawing(plot, svg, &size);
    snprintf(path, sizeof path, "%s%s", base, endings[!svg]);
    bool written = bytes && output_write(path, bytes, size, error);
    if (!bytes)
        snprintf(error, OUTPUT_ERROR, "%.700s: not enough memory, not drawn", path);
    free(bytes);
    return written;
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
    return write_drawing(&plot, base, true, error) && write_drawing(&plot, base, false, error);
}
#endif
