/* What a program gives the linker, as images. Lock not needed. */
#ifndef SIMCUDA_LINK_INPUT_H
#define SIMCUDA_LINK_INPUT_H

#include "image.h"

struct jit;

/* One unit that is linked as a whole. */
struct link_input {
    struct image *image; /* a reference of its own */
    char *name;
    bool on_demand; /* of a library: it counts where it defines what another one needs */
    bool taken;
    struct link_input *next;
};

/* Puts what `data` holds behind *inputs; where the result is an error, nothing. `size` bytes
 * can be read, and a 0 stands behind them. */
CUresult link_input_read(struct link_input **inputs, CUjitInputType type, const char *name,
                         const unsigned char *data, size_t size);

void link_input_drop(struct link_input *inputs); /* all of them */

#endif
