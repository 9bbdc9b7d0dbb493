/* A random program: a list of operations on numbered things (blocks, streams, events, ...). Whether
 * an operation applies is decided when it runs, from what exists then: so any operation can be left
 * out and the rest is still a valid program. */
#ifndef TESTS_DIFFERENTIAL_PROGRAM_H
#define TESTS_DIFFERENTIAL_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* OPERATION(name, weight in the plain profile, what it does) */
#define OPERATIONS(X)                                                                              \
    X(alloc, 22, "allocate a block")                                                               \
    X(alloc_large, 2, "allocate most of what is free")                                             \
    X(alloc_pitch, 2, "allocate a pitched block")                                                  \
    X(release, 18, "free a block")                                                                 \
    X(release_twice, 1, "free a block twice")                                                      \
    X(release_wrong, 1, "free what is no block")                                                   \
    X(release_async, 1, "free a block in stream order")                                            \
    X(temporaries, 0, "fill the device nearly, and let temporary blocks come and go there")        \
    X(alloc_wrong, 1, "ask for nothing, or for too much")                                          \
    X(fill, 14, "fill a block with a kernel")                                                      \
    X(add, 5, "add two blocks with a kernel")                                                      \
    X(set, 4, "fill a block with a memset")                                                        \
    X(copy, 4, "copy a block to another")                                                          \
    X(read, 6, "read a block")                                                                     \
    X(fetch, 4, "copy a block to pinned memory, asynchronously")                                   \
    X(spin, 6, "keep a stream busy")                                                               \
    X(stream_new, 3, "create a stream")                                                            \
    X(stream_end, 2, "destroy a stream, busy or not")                                              \
    X(event, 3, "record an event")                                                                 \
    X(host_call, 2, "have the host called")                                                        \
    X(synchronize, 2, "wait for everything")                                                       \
    X(information, 3, "ask for the free memory")                                                   \
    X(range, 2, "ask what lies at an address")                                                     \
    X(freed_range, 2, "ask what lies where a block was")                                           \
    X(share, 1, "read a block's identity, which ties state to it")                                 \
    X(host_alloc, 2, "allocate pinned memory, which the host writes to at once")                   \
    X(host_fill, 2, "fill pinned memory with a kernel")                                            \
    X(host_copy, 2, "copy between pinned memory and a block, asynchronously")                      \
    X(host_read, 1, "let the host read pinned memory")                                             \
    X(host_release, 2, "free pinned memory, busy or not")                                          \
    X(host_wrong, 1, "misuse pinned memory")                                                       \
    X(managed, 1, "write to managed memory with a kernel")                                         \
    X(managed_alloc, 0, "allocate managed memory, which the host writes to at once")               \
    X(managed_fill, 0, "fill managed memory with a kernel")                                        \
    X(managed_read, 0, "let the host read managed memory")                                         \
    X(managed_advise, 0, "advise about managed memory")                                            \
    X(managed_prefetch, 0, "prefetch managed memory")                                              \
    X(managed_attach, 0, "attach managed memory to a stream")                                      \
    X(managed_ask, 0, "ask what has been said about managed memory")                               \
    X(managed_release, 0, "free managed memory, busy or not")                                      \
    X(managed_wrong, 0, "misuse managed memory")                                                   \
    X(capture, 3, "capture a graph, with allocations, and run it")                                 \
    X(other_context, 2, "go to another context")                                                   \
    X(end_context, 1, "destroy a context with blocks in it")                                       \
    X(threads, 1, "let several threads allocate, work and free")                                   \
    X(capture_beside, 1, "capture in one thread while others allocate")                            \
    X(alloc_ordered, 0, "allocate a block in the order of a stream")                               \
    X(release_ordered, 0, "free a block in the order of a stream")                                 \
    X(alloc_volume, 0, "allocate a pitched block of three dimensions, write and read it")          \
    X(array_new, 0, "make an array, write and read it")                                            \
    X(array_end, 0, "destroy an array")                                                            \
    X(hold, 0, "let a kernel run until the host sets a flag")                                      \
    X(let_go, 0, "set that flag")                                                                  \
    X(ask_held, 0, "ask whether the held stream is done, which it is not")                         \
    X(work_beside, 0, "work and wait in a stream that is not held")                                \
    X(call_beside, 0, "make a call that waits for nothing")                                        \
    X(capture_held, 0, "capture a graph while a stream is held")                                   \
    X(threads_held, 0, "let a thread work while another's stream is held")                         \
    X(host_work, 0, "let the host work by itself")                                                 \
    X(early, 0, "fill a block with a kernel that lets the next one begin")                         \
    X(overlap, 0, "fill a block with a kernel that may begin before the last one ends")            \
    X(ask_inside, 0, "have the host call the driver in a function that a stream calls")            \
    X(churn, 0, "create and destroy contexts with blocks in them")                                 \
    X(reset, 0, "reset the primary context, with blocks in it, and use it again")                  \
    X(forks, 0, "fork while a thread allocates under a lock that fork handlers take")              \
    X(plugin, 0, "load a library whose constructor has a thread allocate and free")                \
    X(fault, 0, "lose the context")

enum operation_kind {
#define OPERATION_KIND(name, weight, text) OP_##name,
    OPERATIONS(OPERATION_KIND)
#undef OPERATION_KIND
        OPERATION_KINDS
};

struct operation {
    enum operation_kind kind;
    uint32_t a, b, c; /* random numbers, of which it takes what it needs */
};

enum { MAX_OPERATIONS = 400 };

struct program {
    struct operation operations[MAX_OPERATIONS];
    int count;
    bool left_out[MAX_OPERATIONS];
    bool let_go[MAX_OPERATIONS]; /* what is held is let go before it */
    /* Whether it counts on a free having waited for all work of its context, as it natively does.
     */
    bool relies;
    bool roomy;   /* it uses an eighth of each device at most */
    bool careful; /* it frees nothing twice and nothing that is no block */
    bool crowds;  /* it may use nearly all of a device */
    bool spreads; /* what it sets for a block may hold for others as well */
};

/* The program that `seed` stands for. profile: a name of generate.c. Returns false if unknown. */
bool program_generate(struct program *program, uint64_t seed, const char *profile);

/* Runs it and writes what it saw. */
void program_run(const struct program *program, FILE *transcript);

const char *operation_name(enum operation_kind kind);

#endif
