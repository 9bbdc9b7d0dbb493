/* What bounds of a surface mean. */
#ifndef SIMCUDA_PTX_FETCH_H
#define SIMCUDA_PTX_FETCH_H

enum surface_bound { SURFACE_TRAP, SURFACE_CLAMP, SURFACE_ZERO };

#endif
