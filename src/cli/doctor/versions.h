/* Version numbers of NVIDIA's driver and runtime, from text and names of files. */
#ifndef POOLCUDA_CLI_DOCTOR_VERSIONS_H
#define POOLCUDA_CLI_DOCTOR_VERSIONS_H

#include <stdbool.h>
#include <stddef.h>

/* "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19": 535.129.03. False if
 * the line has none that fits. */
bool version_from_proc(const char *line, char *version, size_t size);

/* "libcuda.so.535.129.03": 535.129.03; "libcudart.so.13": 13. False if there is none that fits. */
bool version_from_name(const char *name, char *version, size_t size);

/* The number before the first dot; 0 if there is none. */
int version_major(const char *version);

/* The newest CUDA major version that a driver of this version serves; 0 if unknown. */
int version_cuda_of_driver(const char *driver);

#endif
