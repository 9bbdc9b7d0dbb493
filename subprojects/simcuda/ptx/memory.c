/* Where global memory is, and what of it a launch touches: per thread of the host, in sectors of 32
 * bytes, which are a GPU's own. */
#include "allocate.h"
#include "machine.h"

#include <stdlib.h>
#include <string.h>

enum { SLOTS = 64, SLOT_SHIFT = 9 };

/* --- ranges --- */

void memory_forget_gone(struct worker *worker) {
    const uint64_t *counter = worker->launch->asked->memory->changes;
    uint64_t changes = counter == NULL ? 0 : __atomic_load_n(counter, __ATOMIC_ACQUIRE);

    if (changes == worker->changes)
        return;
    worker->changes = changes;
    memset(worker->ranges, 0, sizeof worker->ranges);
    memset(&worker->range, 0, sizeof worker->range);
    worker->has_texture = false;
}

static bool is_within(const struct simt_range *range, uint64_t address) {
    return address >= range->begin && address < range->end;
}

bool memory_range(struct worker *worker, uint64_t address, struct simt_range *range) {
    struct simt_range *slot = &worker->ranges[(address >> SLOT_SHIFT) % SLOTS];
    const struct simt_memory *memory = worker->launch->asked->memory;

    memory_forget_gone(worker);
    if (!is_within(slot, address)) {
        struct simt_range found;

        if (!memory->find(memory->owner, address, &found))
            return false;
        *slot = found;
    }
    *range = *slot;
    return true;
}

unsigned char *memory_slow(struct worker *worker, uint64_t address, unsigned int size) {
    struct simt_range range;

    if (!memory_range(worker, address, &range) || size > range.end - address)
        return NULL;
    worker->range = range;
    return range.memory + (address - range.begin);
}

/* --- records --- */

static size_t hash(uint64_t number, size_t room) {
    return (size_t)(number * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (room - 1);
}

static void insert(struct piece **pieces, size_t room, struct piece *piece) {
    size_t at = hash(piece->number, room);

    while (pieces[at] != NULL)
        at = (at + 1) & (room - 1);
    pieces[at] = piece;
}

static void grow(struct worker *worker) {
    size_t room = worker->piece_room == 0 ? 64 : worker->piece_room * 2;
    struct piece **pieces = allocate_zeroed(room * sizeof(void *));

    for (size_t i = 0; i < worker->piece_room; i++)
        if (worker->pieces[i] != NULL)
            insert(pieces, room, worker->pieces[i]);
    free((void *)worker->pieces);
    worker->pieces = pieces;
    worker->piece_room = room;
}

static struct piece *piece_at(struct worker *worker, uint64_t number) {
    struct piece *piece = worker->piece;
    size_t at;

    if (piece != NULL && piece->number == number)
        return piece;
    if (worker->piece_count * 2 >= worker->piece_room)
        grow(worker);
    for (at = hash(number, worker->piece_room); worker->pieces[at] != NULL;
         at = (at + 1) & (worker->piece_room - 1))
        if (worker->pieces[at]->number == number)
            return worker->piece = worker->pieces[at];
    piece = allocate_zeroed(sizeof *piece);
    piece->number = number;
    worker->pieces[at] = piece;
    worker->piece_count++;
    return worker->piece = piece;
}

void record_slow(struct worker *worker, uint64_t begin, uint64_t end, bool write) {
    uint64_t first = begin >> SECTOR_SHIFT, last = (end - 1) >> SECTOR_SHIFT;

    for (uint64_t sector = first; sector <= last; sector++) {
        struct piece *piece = piece_at(worker, sector >> (PIECE_SHIFT - SECTOR_SHIFT));
        unsigned int bit = sector & ((1u << (PIECE_SHIFT - SECTOR_SHIFT)) - 1);

        (write ? piece->written : piece->read)[bit / 64] |= UINT64_C(1) << bit % 64;
    }
    begin = first << SECTOR_SHIFT;
    end = (last + 1) << SECTOR_SHIFT;
    if (begin <= worker->last_end[write] && end >= worker->last_begin[write]) {
        begin = begin < worker->last_begin[write] ? begin : worker->last_begin[write];
        end = end > worker->last_end[write] ? end : worker->last_end[write];
    }
    worker->last_begin[write] = begin;
    worker->last_end[write] = end;
}

/* --- what the caller gets of them: runs of sectors, in order --- */

/* Invariant: accesses[0..count) have room for `room`. */
struct telling {
    struct simt_access *accesses;
    size_t count, room;
    uint64_t begin, end; /* the run so far */
    bool write;
};

static void tell(struct telling *telling) {
    if (telling->end == telling->begin)
        return;
    if (telling->count == telling->room) {
        telling->room = telling->room == 0 ? 16 : telling->room * 2;
        telling->accesses =
            allocate_again(telling->accesses, telling->room * sizeof *telling->accesses);
    }
    telling->accesses[telling->count++] =
        (struct simt_access){telling->begin, telling->end, telling->write};
    telling->begin = telling->end = 0;
}

static void add_word(struct telling *telling, uint64_t address, uint64_t word) {
    while (word != 0) {
        unsigned int from = (unsigned int)__builtin_ctzll(word);
        uint64_t rest = word >> from;
        unsigned int count = ~rest == 0 ? 64 : (unsigned int)__builtin_ctzll(~rest);
        uint64_t begin = address + ((uint64_t)from << SECTOR_SHIFT);

        if (begin != telling->end) {
            tell(telling);
            telling->begin = begin;
        }
        telling->end = begin + ((uint64_t)count << SECTOR_SHIFT);
        word = count >= 64 - from ? 0 : word >> (from + count) << (from + count);
    }
}

static int compare(const void *a, const void *b) {
    const struct piece *x = *(const struct piece *const *)a, *y = *(const struct piece *const *)b;

    return x->number < y->number ? -1 : x->number > y->number;
}

/* All pieces of all workers, in order, each number once. The caller's. */
static struct piece **collect(struct launch *launch, size_t *count) {
    struct piece **all;
    size_t total = 0, kept = 0;

    for (unsigned int i = 0; i < launch->worker_count; i++)
        total += launch->workers[i].piece_count;
    all = allocate_zeroed((total + 1) * sizeof(void *));
    total = 0;
    for (unsigned int i = 0; i < launch->worker_count; i++)
        for (size_t k = 0; k < launch->workers[i].piece_room; k++)
            if (launch->workers[i].pieces[k] != NULL)
                all[total++] = launch->workers[i].pieces[k];
    qsort((void *)all, total, sizeof(void *), compare);
    for (size_t i = 0; i < total; i++) {
        if (kept != 0 && all[kept - 1]->number == all[i]->number) {
            for (unsigned int k = 0; k < PIECE_WORDS; k++) {
                all[kept - 1]->read[k] |= all[i]->read[k];
                all[kept - 1]->written[k] |= all[i]->written[k];
            }
            free(all[i]);
        } else {
            all[kept++] = all[i];
        }
    }
    *count = kept;
    return all;
}

void record_finish(struct launch *launch) {
    struct telling telling = {0};
    size_t count;
    struct piece **all = collect(launch, &count);

    for (int write = 0; write < 2; write++) {
        telling.write = write != 0;
        for (size_t i = 0; i < count; i++)
            for (unsigned int k = 0; k < PIECE_WORDS; k++)
                add_word(&telling,
                         (all[i]->number << PIECE_SHIFT) + ((uint64_t)k << (SECTOR_SHIFT + 6)),
                         write ? all[i]->written[k] : all[i]->read[k]);
        tell(&telling);
    }
    for (size_t i = 0; i < count; i++)
        free(all[i]);
    free((void *)all);
    for (unsigned int i = 0; i < launch->worker_count; i++)
        free((void *)launch->workers[i].pieces);
    launch->asked->accesses = telling.accesses;
    launch->asked->access_count = telling.count;
}
