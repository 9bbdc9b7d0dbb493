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
handler run_shuffle, run_vote, run_vote_old, run_match, run_activemask, run_reduce, run_elect;

/* access.c: loads and stores; space, size, count and type are the instruction's */
handler run_load, run_load_parameter, run_load_global, run_store_global, run_load_shared,
    run_store_shared, run_store, run_local_address;

/* atomic.c */
handler run_atomic;

/* move.c */
handler run_move, run_move_predicate, run_pack, run_unpack, run_move_wide, run_to_generic,
    run_from_generic, run_is_in_space, run_select_predicate;

/* fetch.c */
handler run_texture, run_surface_load, run_surface_store, run_texture_query;

#endif
