/* What instructions do that need more than their operands; decoders name them. */
#ifndef SIMCUDA_PTX_HANDLERS_H
#define SIMCUDA_PTX_HANDLERS_H

#include "program.h"

/* flow.c */
handler run_branch, run_branch_by_index, run_call, run_call_by_address, run_return, run_exit,
    run_trap, run_breakpoint, run_nothing, run_nanosleep, run_fence;

/* barrier.c */
handler run_barrier, run_barrier_arrive, run_barrier_reduce, run_warp_sync;

/* across.c: between the lanes of a warp */
handler run_shuffle, run_vote, run_match, run_activemask, run_reduce, run_elect;

/* access.c: loads and stores; space, size, count and type are the instruction's */
handler run_load, run_load_parameter, run_store, run_load_global_4, run_load_global_8,
    run_load_shared_4, run_load_generic_4, run_store_global_4, run_store_global_8,
    run_store_shared_4, run_store_generic_4;

/* atomic.c */
handler run_atomic, run_atomic_vector;

/* move.c */
handler run_local_address, run_move, run_move_predicate, run_pack, run_unpack, run_move_wide,
    run_to_generic, run_select, run_select_by_sign, run_set_predicate, run_set_predicates, run_set,
    run_set_halves, run_lop3, run_from_generic, run_is_in_space;

/* fetch.c */
handler run_texture, run_gather, run_surface_load, run_surface_store, run_texture_query;

#endif
