/* poolcuda's own functions, for programs that want to talk to the pool they run under.
 *
 * No program needs them: pooling works on unmodified programs. One that may run with or without
 * libpoolcuda.so preloaded finds them by dlsym(RTLD_DEFAULT, "poolcuda_trim") and the like. */
#ifndef POOLCUDA_H
#define POOLCUDA_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the loaded library, such as "0.2.0". Owned by the library. */
const char *poolcuda_version(void);

/* Gives idle pooled memory of CUDA device `device` (an ordinal as cudaSetDevice takes) back to the
 * driver, largest blocks first, until at least `bytes` bytes are given back or nothing is idle.
 * Returns the bytes given back: 0 when nothing is pooled there, also when the pool is disabled,
 * CUDA was not used yet, or a stream capture is under way. May wait for the device, as cudaFree
 * does. */
size_t poolcuda_trim(int device, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
