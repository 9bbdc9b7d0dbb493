/* Special registers. PTX ISA, "Special Registers". */
#ifndef SIMCUDA_PTX_SPECIAL_H
#define SIMCUDA_PTX_SPECIAL_H

#include "program.h"

int special_named(const char *text, size_t length); /* -1: there is none */

/* d = the special register `number`. */
enum step run_special(struct warp *warp, const struct instruction *instruction);

#endif
