/* BY_POINTER stands before a function that is called through a pointer, in files of which most are
 * called by name alone: these are compiled so that only the marked functions begin as the target of
 * an indirect branch (interpose/meson.build). With a mark missing, programs end where the machine
 * watches indirect branches (CET); tests/e2e/test_object.py finds it. */
#ifndef POOLCUDA_BASE_BY_POINTER_H
#define POOLCUDA_BASE_BY_POINTER_H

#ifdef __has_attribute
#if __has_attribute(cf_check)
#define BY_POINTER __attribute__((cf_check))
#endif
#endif
#ifndef BY_POINTER
#define BY_POINTER
#endif

#endif
