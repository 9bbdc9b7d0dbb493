/* What PTX's scalar instructions compute: one pure function for each, of values to a value.
 *
 * The names are the instructions': ptx_shf_l(), ptx_add_f32(). Registers are what they take and
 * give: bits in an unsigned integer of the type's width, floating point included, so that a NaN
 * passes through unchanged. A predicate is a bool. Modifiers are further arguments, which are
 * constants where the functions are called in a loop over the threads of a warp: what they do not
 * ask for costs nothing then.
 *
 * What the ISA leaves undefined (a division by zero, a bit position beyond the register) has a
 * result all the same, and is no undefined behaviour of C.
 *
 * To be compiled with -ffp-contract=off, and called with the host's rounding to nearest. The fused
 * functions use fmaf() and fma(): a caller compiled for a processor that has such an instruction,
 * as by the attribute target_clones("fma", "default"), calls nothing. */
#ifndef SIMCUDA_PTX_ARITHMETIC_H
#define SIMCUDA_PTX_ARITHMETIC_H

#include "approximate.h"
#include "conversions.h"
#include "doubles.h"
#include "floats.h"
#include "halves.h"
#include "integers.h"
#include "packed.h"
#include "video.h"

#endif
