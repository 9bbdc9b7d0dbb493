#include "cli/plot_canvas.h"

#include "cli/kept_file.h"

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
                kept_file_is_lost(paths.of[i], error, OUTPUT_ERROR);
    return taken;
}

bool plot_check(const char *base, char error[OUTPUT_ERROR]) {
    struct paths paths = paths_of(base);
    bool good = true;
    for (size_t i = 0; good && i < DRAWINGS; i++)
        good = output_check(paths.of[i], error);
    return good;
}

bool plot_cannot(const char *base, char error[OUTPUT_ERROR]) {
    snprintf(error, OUTPUT_ERROR, "%.700s: cannot be drawn, this poolcuda was built without cairo",
             base);
    return false;
}

#ifdef HAVE_CAIRO
#include <cairo-svg.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct plot_kind plot_kinds[] = {
    {"default", 0.00, 0.45, 0.70},  {"futhark", 0.90, 0.60, 0.00},
    {"pyopencl", 0.80, 0.47, 0.65}, {"bfc", 0.00, 0.62, 0.45},
    {"pytorch", 0.34, 0.71, 0.91},  {"paddle", 0.94, 0.89, 0.26},
    {"vmm", 0.84, 0.37, 0.00},      {"pytorch-expandable", 0.45, 0.33, 0.14},
};
const size_t plot_kind_count = sizeof plot_kinds / sizeof plot_kinds[0];

const struct plot_kind *plot_kind(const char *preset) {
    for (size_t i = 0; i < plot_kind_count; i++)
        if (strcmp(preset, plot_kinds[i].preset) == 0)
            return &plot_kinds[i];
    return &plot_kinds[0];
}

void plot_colour(cairo_t *cairo, const struct plot_kind *kind) {
    cairo_set_source_rgb(cairo, kind->red, kind->green, kind->blue);
}

void plot_grey(cairo_t *cairo, double level) {
    cairo_set_source_rgb(cairo, level, level, level);
}

void plot_dot(cairo_t *cairo, double x, double y, const struct plot_kind *kind) {
    plot_colour(cairo, kind);
    cairo_arc(cairo, x, y, PLOT_DOT, 0, 2 * M_PI);
    cairo_fill(cairo);
}

void plot_line(cairo_t *cairo, double x1, double y1, double x2, double y2) {
    cairo_new_path(cairo);
    cairo_move_to(cairo, x1, y1);
    cairo_line_to(cairo, x2, y2);
    cairo_stroke(cairo);
}

void plot_words(cairo_t *cairo, double x, double y, double align, const char *words) {
    cairo_text_extents_t extents;
    cairo_text_extents(cairo, words, &extents);
    cairo_move_to(cairo, x - align * extents.x_advance, y);
    cairo_show_text(cairo, words);
    cairo_new_path(cairo);
}

/* --- files --- */

struct canvas {
    int width, height;
    void (*draw)(cairo_t *cairo, void *state);
    void *state;
};

static void draw_on(const struct canvas *canvas, cairo_surface_t *surface) {
    cairo_t *cairo = cairo_create(surface);
    cairo_set_source_rgb(cairo, 1, 1, 1);
    cairo_paint(cairo);
    cairo_select_font_face(cairo, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(cairo, 12);
    canvas->draw(cairo, canvas->state);
    cairo_destroy(cairo);
}

static cairo_status_t take(void *out, const unsigned char *bytes, unsigned size) {
    return fwrite(bytes, 1, size, out) == size ? CAIRO_STATUS_SUCCESS : CAIRO_STATUS_WRITE_ERROR;
}

/* The drawing as an SVG or PNG file in memory; NULL without any. */
static char *drawing(const struct canvas *canvas, bool svg, size_t *size) {
    char *bytes = NULL;
    FILE *out = open_memstream(&bytes, size);
    if (!out)
        return NULL;
    cairo_surface_t *surface =
        svg ? cairo_svg_surface_create_for_stream(take, out, canvas->width, canvas->height)
            : cairo_image_surface_create(CAIRO_FORMAT_RGB24, canvas->width, canvas->height);
    draw_on(canvas, surface);
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

static bool write_drawing(const struct canvas *canvas, const char *base, bool svg, char *error) {
    char path[PATH_MAX];
    size_t size;
    char *bytes = drawing(canvas, svg, &size);
    snprintf(path, sizeof path, "%s%s", base, endings[!svg]);
    bool written = bytes && output_write(path, bytes, size, error);
    if (!bytes)
        snprintf(error, OUTPUT_ERROR, "%.700s: not enough memory, not drawn", path);
    free(bytes);
    return written;
}

bool plot_files(const char *base, int width, int height, void (*draw)(cairo_t *cairo, void *state),
                void *state, char error[OUTPUT_ERROR]) {
    const struct canvas canvas = {width, height, draw, state};
    return write_drawing(&canvas, base, true, error) && write_drawing(&canvas, base, false, error);
}
#endif
