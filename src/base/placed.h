/* PLACED stands before the definition of a function that hits, frees or misses call from other
 * files: link-time optimisation (interpose/meson.build) puts its code in place of each call, which
 * the compiler's own measure would not do. In builds without it the function is called. */
#ifndef POOLCUDA_BASE_PLACED_H
#define POOLCUDA_BASE_PLACED_H

#define PLACED __attribute__((always_inline)) inline

#endif
