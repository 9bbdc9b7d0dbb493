#include "values.h"

#include "context.h"
#include "lock.h"
#include "memory.h"
#include "stream.h"
#include "virtual_memory.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <utlist.h>

static struct value_wait *waits;
static uint64_t changes;

bool value_ends(const struct awaited *awaited, uint64_t there) {
    uint64_t mask = UINT64_MAX >> (64 - 8 * awaited->word.bytes);

    switch (awaited->condition) {
    case CU_STREAM_WAIT_VALUE_EQ:
        return there == (awaited->value & mask);
    case CU_STREAM_WAIT_VALUE_AND:
        return (there & awaited->value) != 0;
    case CU_STREAM_WAIT_VALUE_NOR:
        return (~(there | awaited->value) & mask) != 0;
    case VALUE_NOT_LESS:
        return there >= awaited->value;
    case VALUE_DIFFERS:
        return there != awaited->value;
    default: /* not less, where values are taken to wrap around */
        return ((there - awaited->value) & (mask / 2 + 1)) == 0;
    }
}

/* NULL: there is no memory. */
static void *reach(const struct word *word) {
    return word->outside != NULL ? (void *)word->outside->memory
                                 : memory_reach_locked(word->address, word->bytes);
}

static bool load(const struct word *word, uint64_t *there) {
    const void *memory = reach(word);

    if (memory == NULL)
        return false;
    switch (word->bytes) {
    case 1:
        *there = __atomic_load_n((const uint8_t *)memory, __ATOMIC_ACQUIRE);
        break;
    case 2:
        *there = __atomic_load_n((const uint16_t *)memory, __ATOMIC_ACQUIRE);
        break;
    case 4:
        *there = __atomic_load_n((const uint32_t *)memory, __ATOMIC_ACQUIRE);
        break;
    default:
        *there = __atomic_load_n((const uint64_t *)memory, __ATOMIC_ACQUIRE);
        break;
    }
    return true;
}

const struct value_wait *value_waits(void) {
    sim_check_held();
    return waits;
}

uint64_t value_wait_changes(void) {
    sim_check_held();
    return changes;
}

/* Or will end with an error. */
static bool is_ending(const struct value_wait *wait) {
    uint64_t there;

    for (size_t i = 0; i < wait->count; i++)
        if (!load(&wait->awaited[i].word, &there) || value_ends(&wait->awaited[i], there))
            return true;
    return context_error(wait->context) != CUDA_SUCCESS;
}

/* Whether other processes may write to it: they may share what is the process's own. */
static bool is_shared(const struct word *word) {
    const struct block *block = memory_containing(word->address);

    return word->outside != NULL || block == NULL || block->kind == MEMORY_IMPORTED ||
           block->export_serial != 0 || virtual_memory_handle_types(block->address) != 0;
}

bool value_wait_may_end(const struct value_wait *wait) {
    sim_check_held();
    for (size_t i = 0; i < wait->count; i++)
        if (is_shared(&wait->awaited[i].word))
            return true;
    return is_ending(wait);
}

void value_wait_begin(struct value_wait *wait, const struct awaited *awaited, size_t count) {
    sim_check_held();
    *wait = (struct value_wait){.awaited = awaited,
                                .count = count,
                                .context = work_context(),
                                .thread = (pid_t)syscall(SYS_gettid)};
    DL_APPEND(waits, wait);
    changes++;
}

void value_wait_end(struct value_wait *wait) {
    sim_check_held();
    DL_DELETE(waits, wait);
    changes++;
}

bool value_is_there(const struct awaited *awaited, uint64_t *there) {
    sim_check_held();
    return load(&awaited->word, there) && value_ends(awaited, *there);
}

bool value_waits_are_ending(void) {
    sim_check_held();
    const struct value_wait *wait;

    DL_FOREACH(waits, wait)
    if (is_ending(wait))
        return true;
    return false;
}

/* ILLEGAL_ADDRESS: the memory is gone. */
static CUresult look(const struct awaited *awaited, uint64_t *there) {
    CUresult result = context_error(work_context());

    if (result == CUDA_SUCCESS && !load(&awaited->word, there))
        result = CUDA_ERROR_ILLEGAL_ADDRESS;
    return result;
}

/* Looks again and again: the host tells nobody what it writes. The memory is looked up each time,
 * since it may be unmapped. */
static CUresult poll(const struct awaited *awaited, uint64_t *there) {
    const struct timespec pause = {.tv_nsec = 50000};
    struct value_wait wait;
    CUresult result;

    value_wait_begin(&wait, awaited, 1);
    work_depends_on_host(true);
    while ((result = look(awaited, there)) == CUDA_SUCCESS && !value_ends(awaited, *there)) {
        sim_unlock();
        nanosleep(&pause, NULL);
        sim_lock();
    }
    work_depends_on_host(false);
    value_wait_end(&wait);
    return result;
}

CUresult value_await(const struct awaited *awaited) {
    sim_check_none();
    uint64_t there, before;
    bool waits_for_it;
    CUresult result;

    sim_lock();
    before = value_time_writes();
    result = look(awaited, &there);
    waits_for_it = result == CUDA_SUCCESS && !value_ends(awaited, there);
    if (waits_for_it)
        result = poll(awaited, &there);
    if (result == CUDA_SUCCESS)
        value_time_awaited(awaited, there, waits_for_it ? &before : NULL);
    sim_unlock();
    return result;
}

CUresult value_write(const struct word *word, uint64_t value) {
    sim_check_none();
    void *memory;

    sim_lock();
    memory = reach(word);
    if (memory != NULL && word->bytes == 4)
        __atomic_store_n((uint32_t *)memory, (uint32_t)value, __ATOMIC_RELEASE);
    else if (memory != NULL)
        __atomic_store_n((uint64_t *)memory, value, __ATOMIC_RELEASE);
    if (memory != NULL)
        value_time_written(word, word->bytes == 4 ? (uint32_t)value : value);
    sim_unlock();
    return memory != NULL ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
}
