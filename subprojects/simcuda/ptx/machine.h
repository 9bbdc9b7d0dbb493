/* A launch that runs: blocks, warps, and the groups of threads that a warp has fallen into. */
#ifndef SIMCUDA_PTX_MACHINE_H
#define SIMCUDA_PTX_MACHINE_H

#include "program.h"
#include "simt.h"

#include <stdatomic.h>

enum { LANES = 32, MOST_WARPS = 32, BARRIERS = 16 };
#define ALL_LANES UINT32_MAX

typedef uint64_t lane_row[LANES];

struct simt_kernel {
    struct function *function;
    struct simt_module *module;
    lane_row *
        *constants; /* by function: NULL where the kernel cannot get to it; NULL: not made yet */
    size_t shared_bytes;
    unsigned int maximum_alignment;
    bool lets_dependents_begin;
    struct simt_kernel *next;
};

struct simt_module {
    struct simt_program *program;
    uint64_t *addresses;    /* of global variables, by index */
    unsigned char **memory; /* where their first values are */
    struct simt_kernel *kernels;
    bool failed;
};

/* One call of a function by threads of a warp. Invariant: lanes != 0; each of them is in a group of
 * this frame or of one that it called. */
struct frame {
    const struct function *function;
    lane_row *rows;
    uint32_t *predicates;
    const lane_row *constants;
    struct frame *caller; /* NULL: it is the kernel's */
    const struct instruction *call;
    uint32_t return_to; /* in the caller */
    uint32_t lanes;
    unsigned int depth;
    size_t local; /* where its local memory begins */
    size_t room;  /* bytes of it as a whole, for the one who keeps spare ones */
    struct frame *next_spare;
};

enum group_state {
    GROUP_RUNS,
    GROUP_AT_WARP,   /* waits for `wanted` lanes to come here */
    GROUP_AT_SYNC,   /* as that, at any bar.warp.sync */
    GROUP_AT_BARRIER /* of the block */
};

/* How a group was when it went backward, and what of global memory it has read since then.
 * Invariant: rows and predicates are those of `frame`, owned, while frame != NULL. */
enum { SPIN_WORDS = 16 };

struct spin {
    const struct frame *frame; /* NULL: nothing is known */
    uint32_t place, mask;
    unsigned char *state; /* the frame's registers and predicates */
    size_t room;
    uint64_t effects, clock_reads; /* of the worker, then */
    struct simt_word words[SPIN_WORDS], seen[SPIN_WORDS];
    unsigned int word_count;
    unsigned int seen_count; /* of the last pass that changed nothing */
};

/* Threads of a warp that are at the same place. Invariant: mask != 0, and groups' masks do not
 * overlap. */
struct group {
    uint32_t mask;
    uint32_t place; /* of the next instruction */
    struct frame *frame;
    enum group_state state;
    uint32_t wanted;
    unsigned int barrier;
    const struct instruction *reduction; /* at whose barrier it waits for a result; or NULL */
};

/* Invariant: groups[0..group_count) have all lanes of `live`. While one runs, what it is in is
 * here and not there, and `current` is its number. */
struct warp {
    uint32_t active; /* lanes for which the instruction is */
    uint32_t place;  /* of the next instruction */
    uint32_t mask;   /* of the group that runs */
    uint32_t stop;   /* where another group waits to go on together */
    lane_row *rows;
    const lane_row *constants;
    uint32_t *predicates;
    struct frame *frame;
    struct block *block;
    struct worker *worker;
    int budget;         /* branches backward until others are to run */
    bool others_before; /* some group stands before this one */
    bool rotates;       /* the next group is to run, whatever its place */
    bool forced;        /* nobody can come any more: it goes on with who is there */
    bool spins;         /* its last turn changed nothing, and no other one will: see spin.c */
    bool reads_clock;   /* its last turn did little but read a clock */
    unsigned int tries; /* branches backward that are still to be compared with `spin` */
    struct spin *spin;  /* owned; NULL: none was made yet */
    uint64_t effects, clock_reads; /* of the worker, when the turn began */
    unsigned int current;
    uint32_t live;
    unsigned int number; /* in its block */
    unsigned int group_count;
    struct group groups[LANES + 1]; /* one more while one divides */
    unsigned char *local;           /* the lanes' local memory, one after another */
    size_t local_room;              /* bytes of a lane */
};

struct barrier {
    uint32_t arrived[MOST_WARPS];
    bool used;
    unsigned int expected; /* threads; 0: all */
    unsigned int yes, no;  /* predicates of bar.red */
};

struct block {
    struct launch *launch;
    uint64_t number;
    unsigned int index[3];
    unsigned int warp_count;
    struct warp *warps;
    unsigned char *shared;
    size_t shared_size;
    struct barrier barriers[BARRIERS];
    unsigned int live_warps;
    struct block *next;
};

/* What has been touched of a piece of memory, by sectors. */
enum { SECTOR_SHIFT = 5, PIECE_SHIFT = 15, PIECE_WORDS = 1 << (PIECE_SHIFT - SECTOR_SHIFT - 6) };

struct piece {
    uint64_t number; /* address >> PIECE_SHIFT */
    uint64_t read[PIECE_WORDS], written[PIECE_WORDS];
};

enum { SPARES = 48 };

/* A thread of the host that runs blocks. */
struct worker {
    struct launch *launch;
    struct simt_range range; /* found last */
    uint64_t changes;        /* when it was found */
    struct simt_range ranges[64];
    struct piece **pieces; /* by hash, open addressing */
    size_t piece_count, piece_room;
    struct piece *piece;                 /* used last */
    uint64_t last_begin[2], last_end[2]; /* whole sectors that are recorded: read, written */
    struct simt_texture texture;         /* used last */
    uint64_t texture_handle;
    bool has_texture, texture_is_surface;
    uint64_t instructions;
    uint64_t writes;  /* instructions that have written to global memory */
    uint64_t effects; /* that have done anything beside computing and reading memory */
    uint64_t clock_reads;
    struct frame *spare[SPARES]; /* by the power of two of their room */
    struct block *blocks;        /* that have begun */
    unsigned int block_count;
};

struct launch {
    struct simt_launch *asked;
    const struct simt_kernel *kernel;
    unsigned int threads; /* of a block */
    uint64_t blocks;
    atomic_ullong next_block;
    atomic_int result; /* enum simt_result */
    uint64_t begun_ns; /* by the launch's clock */
    size_t shared_size;
    uint64_t workspace[8]; /* of a cooperative grid: what grid.sync() counts in */
    struct worker *workers;
    unsigned int worker_count;
};

#define GRID_WORKSPACE ((uint64_t)WINDOW_GRID << WINDOW_SHIFT)

/* --- operands --- */

static inline const uint64_t *source(const struct warp *warp, operand_row operand) {
    return operand >= 0 ? warp->rows[operand] : warp->constants[~operand];
}

static inline uint64_t *destination(struct warp *warp, operand_row operand) {
    return warp->rows[operand];
}

/* Lanes for which it holds. */
static inline uint32_t predicate(const struct warp *warp, operand_row operand) {
    return warp->predicates[operand >> 1] ^ (uint32_t) - (operand & 1);
}

static inline void set_predicate(struct warp *warp, operand_row operand, uint32_t lanes) {
    uint32_t *all = &warp->predicates[operand >> 1];

    *all = (*all & ~warp->active) | (lanes & warp->active);
}

#ifdef __clang__
#define ROWS_ARE_APART _Pragma("clang loop vectorize(assume_safety)")
#else
#define ROWS_ARE_APART _Pragma("GCC ivdep") /* or the same */
#endif

/* The statement for each lane that is active; where all are, in a loop that the compiler knows. */
#define FOR_LANES(warp, lane, ...)                                                                 \
    do {                                                                                           \
        if ((warp)->active == ALL_LANES) {                                                         \
            ROWS_ARE_APART for (unsigned int lane = 0; lane < LANES; lane++) __VA_ARGS__           \
        } else {                                                                                   \
            for (uint32_t lanes_ = (warp)->active; lanes_ != 0; lanes_ &= lanes_ - 1) {            \
                unsigned int lane = (unsigned int)__builtin_ctz(lanes_);                           \
                __VA_ARGS__                                                                        \
            }                                                                                      \
        }                                                                                          \
    } while (0)

/* --- warps: warp.c --- */

/* False: it needs more local memory than there is. */
bool warp_begin(struct warp *warp, struct block *block, struct worker *worker, unsigned int number);
void warp_end(struct warp *warp);
/* Runs until it has ended, waits, or was long enough at it. False: it could not go on. */
bool warp_run(struct warp *warp);

/* Divides the group that runs: `lanes` of it become another one, at `place`. */
void warp_split(struct warp *warp, uint32_t lanes, uint32_t place, enum group_state state);

/* The threads of `lanes`, which are of the frame, end. */
void warp_exit(struct warp *warp, uint32_t lanes);

struct frame *frame_enter(struct warp *warp, const struct function *function, uint32_t lanes,
                          struct frame *caller, const struct instruction *call, uint32_t return_to);
void frame_leave(struct warp *warp, struct frame *frame, uint32_t lanes);

/* The calling thread's own local memory at `offset` of the frame's. */
static inline unsigned char *local_memory(const struct warp *warp, unsigned int lane,
                                          size_t offset) {
    return warp->local + lane * warp->local_room + offset;
}

/* Ends the launch with `result`: at `instruction` by `lane`. STEP_AGAIN. */
enum step fault(struct warp *warp, const struct instruction *instruction, unsigned int lane,
                enum simt_result result, const char *what, uint64_t address, unsigned int size);

/* Which of the active lanes have all that their mask names beside them; the others wait. */
uint32_t lanes_together(struct warp *warp, const uint64_t *wanted);

/* --- waiting: spin.c --- */

void spin_turn_begins(struct warp *warp);
/* The group that runs has gone backward. True: it changes nothing any more. */
bool spin_look(struct warp *warp);
/* The lanes have read `size` bytes each, the values of `read`. */
void spin_read(struct warp *warp, uint32_t lanes, const uint64_t *addresses, const uint64_t *read,
               unsigned int size);
/* Whether the turn has done little but read a clock, and that often. */
bool spin_reads_clock(struct warp *warp);
void spin_end(struct warp *warp);

/* --- barriers: barrier.c --- */

/* Lets those go on for whom everybody is there. */
void barrier_check(struct block *block, unsigned int which);
void barrier_check_all(struct block *block); /* a thread has ended */

/* --- memory: memory.c --- */

/* Forgets all ranges if memory has gone since they were found. */
void memory_forget_gone(struct worker *worker);
bool memory_range(struct worker *worker, uint64_t address, struct simt_range *range);
unsigned char *memory_slow(struct worker *worker, uint64_t address, unsigned int size);
void record_slow(struct worker *worker, uint64_t begin, uint64_t end, bool write);
void record_finish(struct launch *launch);

/* Where the host reaches so many bytes of global memory. NULL: they are nobody's. */
static inline unsigned char *global_memory(struct worker *worker, uint64_t address,
                                           unsigned int size) {
    const struct simt_range *range = &worker->range;
    uint64_t at = address - range->begin;

    return at < range->end - range->begin && size <= range->end - range->begin - at
               ? range->memory + at
               : memory_slow(worker, address, size);
}

/* Notes that [begin, end), which is not empty, was read or written. */
static inline void record_access(struct worker *worker, uint64_t begin, uint64_t end, bool write) {
    if (begin < worker->last_begin[write] || end > worker->last_end[write])
        record_slow(worker, begin, end, write);
}

/* --- blocks: block.c --- */

struct block *block_begin(struct launch *launch, struct worker *worker, uint64_t number);
/* Gives each warp its turn. True: the block has ended. *moved: some warp has gone on. */
bool block_run(struct block *block, bool *moved);
void block_end(struct block *block);

unsigned int block_thread(const struct warp *warp, unsigned int lane); /* its number */

#endif
