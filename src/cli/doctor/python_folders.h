/* What is in the folders where Python looks for modules: each is listed only once, however many
 * modules are looked for in it. */
#ifndef POOLCUDA_CLI_DOCTOR_PYTHON_FOLDERS_H
#define POOLCUDA_CLI_DOCTOR_PYTHON_FOLDERS_H

#include <stddef.h>

/* The name of the library in `folder` that is the module `name` of that length: name.so,
 * name.abi3.so, name.cpython-311-x86_64-linux-gnu.so; NULL if there is none. It stays as it is. */
const char *python_folder_library(const char *folder, const char *name, size_t length);

#endif
