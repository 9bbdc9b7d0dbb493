/* What drawings have in common: colours, axes, texts, and a file as SVG and as PNG. What is drawn:
 * plot.c and sweep_plot.c. */
#ifndef POOLCUDA_CLI_PLOT_CANVAS_H
#define POOLCUDA_CLI_PLOT_CANVAS_H

#include "cli/output.h"

#include <stdbool.h>
#include <stddef.h>

/* To be asked before the work: true after one line in `error` if a drawing would take the place of
 * the file `input`, of the other drawing, of what is printed or of a report, which is bad usage. */
bool plot_takes_a_place(const char *base, const char *input, char error[OUTPUT_ERROR]);

/* To be asked before the work: false after one line in `error` if a drawing cannot be written. */
bool plot_check(const char *base, char error[OUTPUT_ERROR]);

/* False after one line in `error`: this poolcuda cannot draw. */
bool plot_cannot(const char *base, char error[OUTPUT_ERROR]);

#ifdef HAVE_CAIRO
#include <cairo.h>

enum { PLOT_DOT = 5 }; /* the radius of a dot */

/* A preset's name and colour: people with any colour vision tell them apart (Okabe and Ito's). */
struct plot_kind {
    const char *preset;
    double red, green, blue;
};
extern const struct plot_kind plot_kinds[];
extern const size_t plot_kind_count;

/* The kind of that name; the first if there is none. */
const struct plot_kind *plot_kind(const char *preset);

void plot_colour(cairo_t *cairo, const struct plot_kind *kind);
void plot_grey(cairo_t *cairo, double level);
void plot_dot(cairo_t *cairo, double x, double y, const struct plot_kind *kind);
void plot_line(cairo_t *cairo, double x1, double y1, double x2, double y2);
/* align: 0 begins at x, 1 ends there, 0.5 is centred. */
void plot_words(cairo_t *cairo, double x, double y, double align, const char *words);

/* Writes BASE.svg and BASE.png, each drawn by draw(cairo, state) on white. False after one line in
 * `error`. */
bool plot_files(const char *base, int width, int height, void (*draw)(cairo_t *cairo, void *state),
                void *state, char error[OUTPUT_ERROR]);
#endif

#endif
