/* The part of dlsym that is C: reached from entry.S for names that begin with "cu". */
#ifndef POOLCUDA_INTERPOSE_LOOKUP_H
#define POOLCUDA_INTERPOSE_LOOKUP_H

void *lookup_dlsym(void *handle, const char *name);

#endif
