/* Ranges of addresses that physical memory is mapped into, a chunk at a time. What is mapped at
 * once can only be unmapped at once: so a keeper asks here what of its blocks the driver could have
 * back. */
#ifndef POOLCUDA_BLOCKS_RESERVATION_H
#define POOLCUDA_BLOCKS_RESERVATION_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Why idle memory of a chunk serves no request: the driver keeps state in it for a block that was
 * freed. BAR_ATTRIBUTE: an attribute of the mapping, which is gone with it, and does another block
 * no harm but that of copies that wait; BAR_SHARED: something outside may reach the memory. */
enum chunk_bar { BAR_NONE, BAR_ATTRIBUTE, BAR_SHARED };

/* Physical memory that the driver made at once. In a reservation's tree while it is mapped, else in
 * a list that nobody else sees. */
struct chunk {
    uint64_t base; /* a CUdeviceptr */
    size_t size;
    unsigned long long handle; /* a CUmemGenericAllocationHandle */
    enum chunk_bar bar;        /* BAR_NONE while it is mapped nowhere */
    union {
        RB_ENTRY(chunk) by_base;
        struct chunk *next;
    };
};

RB_HEAD(chunk_tree, chunk);

/* Addresses of a reservation that a thread is about to map something at. */
struct claim {
    uint64_t base;
    size_t bytes;
    LIST_ENTRY(claim) link;
};

/* A range of addresses, reserved at once. Invariant: its chunks and claims do not overlap and lie
 * within [base, end), end <= base + size; a chunk may lie in the claim that it was mapped for.
 * barred: chunks with a bar. */
struct reservation {
    uint64_t base, end;
    size_t size;
    size_t barred;
    bool small; /* for small requests alone: of the keeper's kinds, if it has two */
    struct chunk_tree chunks;
    LIST_HEAD(, claim) claims;
    LIST_ENTRY(reservation) link;
};

/* Some of the whole chunks of a range, side by side; or a hole between chunks. bytes: 0, there are
 * none. */
struct whole {
    uint64_t from;
    size_t bytes;
};

/* All below: guarded by the pool's lock, O(log n) in the chunks unless it says otherwise. */

/* How many bytes there are behind all that is mapped, or about to be. */
size_t reservation_room(const struct reservation *reservation);
/* The smallest hole of at least `bytes` before the last chunk: addresses that nothing is mapped at,
 * or about to be. Of no bytes: there is none. O(n) in the chunks. */
struct whole reservation_hole(struct reservation *reservation, size_t bytes);
/* Claims addresses that nothing is mapped at, or about to be: in a hole, or from the end on. What
 * is mapped there is added before the claim ends. */
void reservation_claim(struct reservation *reservation, struct claim *claim);
void reservation_claim_ends(struct reservation *reservation, struct claim *claim);
/* Whether nothing is mapped, or about to be. */
bool reservation_is_empty(const struct reservation *reservation);
/* A chunk that is mapped now: it is in no list any more. */
void reservation_add(struct reservation *reservation, struct chunk *chunk);
/* Takes one out that begins at the address. NULL: none does. */
struct chunk *reservation_take(struct reservation *reservation, uint64_t base);
/* The one with the lowest address. NULL: there is none. */
struct chunk *reservation_first(struct reservation *reservation);
/* Sets a chunk's bar. */
void reservation_set_bar(struct reservation *reservation, struct chunk *chunk, enum chunk_bar bar);
/* The strictest bar of the chunks of a range that is mapped without a gap. *until: the end of those
 * first ones that have the same bar, or the range's. O(n) in these chunks if there are any bars. */
enum chunk_bar reservation_bar(struct reservation *reservation, uint64_t from, size_t bytes,
                               uint64_t *until);
/* The chunk behind another; NULL: there is none. */
struct chunk *reservation_next(struct chunk *chunk);
/* The chunk around an address that is mapped. */
struct chunk *reservation_at(struct reservation *reservation, uint64_t address);
/* All whole chunks of a range that is mapped without a gap. */
struct whole reservation_whole(struct reservation *reservation, uint64_t from, size_t bytes);
/* The last of them, as many as are at most `most` bytes, but one at least. O(n) in these. */
struct whole reservation_last(struct reservation *reservation, const struct whole *whole,
                              size_t most);
/* Their number. O(n) in these. */
size_t reservation_count(struct reservation *reservation, const struct whole *whole);

#endif
