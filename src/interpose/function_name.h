/* Names of functions as people write them. */
#ifndef POOLCUDA_INTERPOSE_FUNCTION_NAME_H
#define POOLCUDA_INTERPOSE_FUNCTION_NAME_H

enum { FUNCTION_NAME_SIZE = 128 };

/* Writes the name of the function of that symbol: of C++ what stands before the first arguments of
 * a template and of the function (thrust::detail::temporary_array), else the symbol itself. It is
 * cut to FUNCTION_NAME_SIZE - 1 bytes. */
void function_name_read(const char *symbol, char name[FUNCTION_NAME_SIZE]);

#endif
