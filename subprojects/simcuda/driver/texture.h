/* Textures and surfaces: references that a module names, and objects. Kernels read through
 * objects; what was set for references is answered again. All below: lock held. */
#ifndef SIMCUDA_TEXTURE_H
#define SIMCUDA_TEXTURE_H

#include "context.h"

struct CUmod_st;

/* Memory that a texture may read as rows of elements. A row: height is 1 and the pitch 0. */
struct texture_memory {
    CUdeviceptr address;
    CUarray_format format;
    unsigned int channels;
    size_t width; /* elements */
    size_t height;
    size_t pitch; /* bytes */
};

/* INVALID_VALUE: it is not all the device's memory, not aligned, or larger than a texture. */
CUresult texture_check_row(const struct texture_memory *memory);
CUresult texture_check_rows(const struct texture_memory *memory);

CUresult texture_check_array(CUarray array);
CUresult texture_check_surface(CUarray array); /* it is one that surfaces may write to */
CUresult texture_check_mipmap(CUmipmappedArray mipmap);

bool texture_is_address_mode(CUaddress_mode mode); /* lock not needed */
bool texture_is_filter_mode(CUfilter_mode mode);   /* lock not needed */

/* Whether it is a texture that the module names. */
bool texture_is_of_module(CUtexref handle, const struct CUmod_st *module);

void texture_module_ending(struct CUmod_st *module);
void texture_context_ending(struct CUctx_st *context);

struct simt_texture;

/* What kernels read through an object. False: it is none, or of mipmaps. texture_object.c */
bool texture_object_bound(unsigned long long handle, bool surface, struct simt_texture *texture);

/* texture_object.c, for texture_context_ending */
void texture_objects_ending(struct CUctx_st *context);

#endif
