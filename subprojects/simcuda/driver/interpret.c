#include "interpret.h"

#include "allocate.h"
#include "conditional.h"
#include "context.h"
#include "cost.h"
#include "hazard_pending.h"
#include "image.h"
#include "lock.h"
#include "memory.h"
#include "node_attributes.h"
#include "settings.h"
#include "texture.h"
#include "values.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

static __thread struct simt_failure failure;

const struct simt_failure *interpret_failure(void) {
    return &failure;
}

CUresult interpret_image(struct image *image) {
    unsigned int which;

    memset(&failure, 0, sizeof failure);
    if (image->text_count == 0)
        return CUDA_SUCCESS;
    image->program =
        simt_parse((const char *const *)image->texts, image->text_count, &failure, &which);
    if (image->program != NULL || settings()->skips_kernels)
        return CUDA_SUCCESS;
    return CUDA_ERROR_INVALID_PTX;
}

struct kept_name {
    UT_hash_handle hh;
    char text[];
};

const char *interpret_name(const struct CUfunc_st *function) {
    sim_check_held();
    static struct kept_name *names;
    const char *text = function->declared->name;
    struct kept_name *name;

    HASH_FIND_STR(names, text, name);
    if (name == NULL) {
        name = allocate_zeroed(sizeof *name + strlen(text) + 1);
        memcpy(name->text, text, strlen(text));
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it is in the table
        HASH_ADD_STR(names, text, name);
    }
    return name->text;
}

/* --- modules --- */

/* The module's variable that a program's is: by its name, or one that only the program knows. */
static CUresult place(struct CUmod_st *module, const struct simt_variable *variable, bool *named) {
    const struct module_variable *known;
    struct block *block;
    CUresult result;

    if (variable->is_reference || variable->size == 0)
        return CUDA_SUCCESS;
    if (!*named || module_variable(module, variable->name, &known) != CUDA_SUCCESS ||
        known->declared->size < variable->size) {
        result = module_add_hidden(module, variable->size, variable->initial, &known);
        if (result != CUDA_SUCCESS)
            return result;
    }
    block = memory_at(known->address);
    if (variable->initial != NULL) /* with what only the program knows: expressions */
        memcpy(block->shadow, variable->initial, variable->size);
    simt_module_place(module->program, variable->index, known->address, block->shadow);
    return CUDA_SUCCESS;
}

/* Whether a text before this one has a variable of that name: then it is that which the name means.
 */
static bool is_first(const struct simt_program *program, const struct simt_variable *variable) {
    struct simt_variable other = {.state = NULL};

    while (simt_next_variable(program, &other) && other.index != variable->index)
        if (strcmp(other.name, variable->name) == 0 && !other.is_reference)
            return false;
    return true;
}

CUresult interpret_module(struct CUmod_st *module) {
    sim_check_held();
    struct simt_variable variable = {.state = NULL};
    CUresult result = CUDA_SUCCESS;

    if (module->image->program == NULL)
        return CUDA_SUCCESS;
    module->program = simt_module_new(module->image->program);
    while (result == CUDA_SUCCESS && simt_next_variable(module->image->program, &variable)) {
        bool named = is_first(module->image->program, &variable);

        result = place(module, &variable, &named);
    }
    if (result == CUDA_SUCCESS)
        simt_module_placed(module->program);
    return result;
}

/* --- heaps --- */

struct context_heap {
    struct CUctx_st *context;
    struct simt_heap *heap;
    struct context_heap *next;
};

static struct context_heap *heaps;

struct simt_heap *interpret_heap(struct CUctx_st *context) {
    sim_check_held();
    struct context_heap *known;
    struct block *block;
    uint64_t unspent;

    LL_FOREACH(heaps, known)
    if (known->context == context)
        return known->heap;
    if (memory_allocate(context, context->limits[CU_LIMIT_MALLOC_HEAP_SIZE], MEMORY_DEVICE, 0,
                        &block, &unspent) != CUDA_SUCCESS)
        return NULL;
    block->of_object = true;
    known = allocate_zeroed(sizeof *known);
    known->context = context;
    known->heap = simt_heap_new(block->address, block->size);
    LL_PREPEND(heaps, known);
    return known->heap;
}

void interpret_context_ending(struct CUctx_st *context) {
    sim_check_held();
    struct context_heap *known, *next;

    LL_FOREACH_SAFE(heaps, known, next) {
        if (known->context != context)
            continue;
        LL_DELETE(heaps, known);
        simt_heap_end(known->heap);
        free(known);
    }
}

/* --- launches --- */

/* A launch, until it ends. Invariant: awaited has room for awaited_room; `wait` is in the list of
 * waits while wait.thread != 0. */
struct run {
    pthread_mutex_t mutex;
    char *text; /* that it prints */
    size_t length, room;
    bool waits;
    struct value_wait wait;
    struct awaited *awaited; /* what it waits for, certainly */
    size_t awaited_count, awaited_room;
    uint64_t writes_before; /* as value_time_writes() counts, when it began */
    uint64_t begun_ns;      /* in virtual time */
    uint64_t passed_ns;     /* since then, by looks at clocks; atomic */
    bool looked;            /* at a clock; atomic */
};

static void print(void *owner, const char *text, size_t length) {
    struct run *run = owner;

    pthread_mutex_lock(&run->mutex);
    if (run->length + length > run->room) {
        run->room = (run->length + length) * 2;
        run->text = allocate_again(run->text, run->room);
    }
    memcpy(run->text + run->length, text, length);
    run->length += length;
    pthread_mutex_unlock(&run->mutex);
}

static bool find_locked(uint64_t address, struct simt_range *range) {
    const struct block *block = memory_containing(address);
    const uint64_t page = 4096;

    if (block != NULL) {
        *range =
            (struct simt_range){block->address, block->address + block->size, block->shadow, true};
        return true;
    }
    if (memory_reach_locked(address, 1) == NULL)
        return false;
    range->begin = address / page * page; /* the process's own */
    range->end = range->begin + page;
    range->memory = (unsigned char *)(uintptr_t)range->begin;
    range->recorded = false;
    return true;
}

static bool find(void *owner, uint64_t address, struct simt_range *range) {
    bool found;

    (void)owner;
    sim_lock();
    found = find_locked(address, range);
    sim_unlock();
    return found;
}

/* The allocation in front of an address, or else that behind it. */
static void describe(void *owner, uint64_t address, char *text, size_t room) {
    const struct block *block, *before = NULL, *behind = NULL;

    (void)owner;
    sim_lock();
    for (block = memory_next(NULL); block != NULL; block = memory_next((struct block *)block)) {
        if (block->address <= address)
            before = block;
        else if (behind == NULL)
            behind = block;
    }
    if (before != NULL)
        snprintf(text, room, "%llu bytes behind the allocation of %zu bytes at 0x%llx",
                 (unsigned long long)(address - before->address - before->size), before->size,
                 (unsigned long long)before->address);
    else if (behind != NULL)
        snprintf(text, room, "%llu bytes before the allocation of %zu bytes at 0x%llx",
                 (unsigned long long)(behind->address - address), behind->size,
                 (unsigned long long)behind->address);
    else
        snprintf(text, room, "nothing is allocated");
    sim_unlock();
}

static bool texture(void *owner, uint64_t handle, bool surface, struct simt_texture *found) {
    bool is_bound;

    (void)owner;
    sim_lock();
    is_bound = texture_object_bound(handle, surface, found);
    sim_unlock();
    return is_bound;
}

static CUresult result_of(enum simt_result result) {
    switch (result) {
    case SIMT_DONE:
        return CUDA_SUCCESS;
    case SIMT_ILLEGAL_ADDRESS:
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    case SIMT_MISALIGNED:
        return CUDA_ERROR_MISALIGNED_ADDRESS;
    case SIMT_ASSERTED:
        return CUDA_ERROR_ASSERT;
    case SIMT_STACK_OVERFLOW:
        return CUDA_ERROR_HARDWARE_STACK_ERROR;
    case SIMT_INVALID_CALL:
        return CUDA_ERROR_INVALID_PC;
    default:
        return CUDA_ERROR_LAUNCH_FAILED;
    }
}

/* The words have other values than those that the launch waited at: it goes on from the time at
 * which they got them. Lock held. */
static void end_certain_wait(struct run *run) {
    sim_check_held();
    uint64_t there;

    if (run->wait.thread == 0)
        return;
    value_wait_end(&run->wait);
    run->wait.thread = 0;
    for (size_t i = 0; i < run->awaited_count; i++)
        if (value_is_there(&run->awaited[i], &there))
            value_time_awaited(&run->awaited[i], there, &run->writes_before);
}

/* Lock held. */
static bool waits_for_the_same(const struct run *run, const struct simt_wait *wait) {
    sim_check_held();
    if (run->wait.thread == 0 || run->awaited_count != wait->count)
        return false;
    for (size_t i = 0; i < wait->count; i++)
        if (run->awaited[i].word.address != wait->words[i].address ||
            run->awaited[i].word.bytes != wait->words[i].size ||
            run->awaited[i].value != wait->words[i].value)
            return false;
    return true;
}

/* Lock held. */
static void begin_certain_wait(struct run *run, const struct simt_wait *wait) {
    sim_check_held();
    end_certain_wait(run);
    if (run->awaited_room < wait->count) {
        run->awaited = allocate_again(run->awaited, wait->count * sizeof *run->awaited);
        run->awaited_room = wait->count;
    }
    run->awaited_count = wait->count;
    for (size_t i = 0; i < wait->count; i++)
        run->awaited[i] = (struct awaited){
            .word = {.address = wait->words[i].address, .bytes = wait->words[i].size},
            .condition = VALUE_DIFFERS,
            .value = wait->words[i].value};
    value_wait_begin(&run->wait, run->awaited, run->awaited_count);
}

/* In virtual time nobody waits for a kernel that waits for the host. One that waits ends with an
 * error of its context. */
static bool note_waits(void *owner, const struct simt_wait *wait) {
    struct run *run = owner;
    bool goes_on;

    sim_lock();
    goes_on = context_error(work_context()) == CUDA_SUCCESS;
    if (wait == NULL || !wait->is_certain)
        end_certain_wait(run);
    else if (!waits_for_the_same(run, wait))
        begin_certain_wait(run, wait);
    if (run->waits != (wait != NULL))
        work_depends_on_host(wait != NULL);
    run->waits = wait != NULL;
    sim_unlock();
    return goes_on;
}

/* Virtual time goes by as the kernel looks at it, from the first look on. */
static uint64_t look_at_clock(void *owner, uint64_t passes) {
    struct run *run = owner;

    if (passes != 0 && !__atomic_exchange_n(&run->looked, true, __ATOMIC_RELAXED))
        passes = 0;
    return run->begun_ns + __atomic_add_fetch(&run->passed_ns, passes, __ATOMIC_RELAXED);
}

static bool set_conditional(void *owner, uint64_t handle, uint32_t value) {
    (void)owner;
    return conditional_set(handle, value);
}

/* Lets the detector of hazards know what the launch has accessed. */
static void note_accesses(const struct op *op, const struct simt_launch *launch) {
    struct access *accesses = allocate_zeroed((launch->access_count + 1) * sizeof *accesses);

    for (size_t i = 0; i < launch->access_count; i++)
        accesses[i] = (struct access){.address = launch->accesses[i].begin,
                                      .size = launch->accesses[i].end - launch->accesses[i].begin,
                                      .write = launch->accesses[i].write};
    free(launch->accesses);
    found_add(op, accesses, launch->access_count);
}

static uint64_t instructions;

SIM_EXPORT uint64_t simcuda_instructions(void) {
    return __atomic_load_n(&instructions, __ATOMIC_RELAXED);
}

static void begin_run(struct run *run) {
    *run = (struct run){.mutex = PTHREAD_MUTEX_INITIALIZER};
    if (!time_is_virtual())
        return;
    run->begun_ns = time_work_now();
    sim_lock();
    run->writes_before = value_time_writes();
    sim_unlock();
}

/* What it has read that other work wrote while this thread was far behind, it has waited for. */
static void spend_time(const struct run *run, const struct simt_launch *launch) {
    if (!time_is_virtual())
        return;
    cost_keep_busy(run->passed_ns);
    sim_lock();
    for (size_t i = 0; i < launch->access_count; i++)
        if (!launch->accesses[i].write)
            value_time_read(launch->accesses[i].begin,
                            launch->accesses[i].end - launch->accesses[i].begin,
                            run->writes_before);
    sim_unlock();
}

static void end_run(struct run *run, const struct simt_launch *launch) {
    if (run->waits)
        note_waits(run, NULL);
    spend_time(run, launch);
    if (run->length != 0)
        fwrite(run->text, 1, run->length, stdout);
    free(run->text);
    free(run->awaited);
}

static unsigned int processors(void) {
    static int count; /* of every device the same */

    if (__atomic_load_n(&count, __ATOMIC_RELAXED) == 0)
        __atomic_store_n(&count, device_attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0),
                         __ATOMIC_RELAXED);
    return (unsigned int)__atomic_load_n(&count, __ATOMIC_RELAXED);
}

static CUresult interpreted_run(struct op *op) {
    static uint64_t launches;
    const struct kernel_call *call = &op->as.kernel;
    const CUDA_KERNEL_NODE_PARAMS_v2 *told = &call->told;
    struct run run;
    const struct simt_memory memory = {.owner = &run,
                                       .find = find,
                                       .describe = describe,
                                       .texture = texture,
                                       .changes = memory_changes()};
    struct simt_launch launch = {
        .kernel = call->function->runs,
        .grid = {told->gridDimX, told->gridDimY, told->gridDimZ},
        .block = {told->blockDimX, told->blockDimY, told->blockDimZ},
        .dynamic_shared = told->sharedMemBytes,
        .parameters = call->arguments,
        .cooperative =
            call->cooperative ||
            node_attribute(call->attributes, CU_LAUNCH_ATTRIBUTE_COOPERATIVE).cooperative != 0,
        .memcheck = settings()->memcheck != 0,
        .processors = processors(),
        .number = __atomic_add_fetch(&launches, 1, __ATOMIC_RELAXED),
        .memory = &memory,
        .heap = call->heap,
        .waits = note_waits,
        .clock = time_is_virtual() ? look_at_clock : NULL,
        .set_conditional = set_conditional,
        .print = print};
    CUresult result;

    begin_run(&run);
    result = result_of(simt_run(&launch));
    end_run(&run, &launch);
    __atomic_add_fetch(&instructions, launch.instructions, __ATOMIC_RELAXED);
    note_accesses(op, &launch);
    return result;
}

/* What it accesses is known when it has run; what its arguments point to is worth knowing before,
 * since a graph may outlive it. */
static void interpreted_declare(struct op *op) {
    const unsigned char *arguments = op->as.kernel.arguments;
    size_t bytes = arguments == NULL ? 0 : simt_parameter_bytes(op->as.kernel.function->runs);

    op->finds_accesses = true;
    for (size_t at = 0; at + sizeof(CUdeviceptr) <= bytes; at += sizeof(CUdeviceptr)) {
        CUdeviceptr address;

        memcpy(&address, arguments + at, sizeof address);
        if (memory_containing(address) == NULL)
            continue;
        op_access(op, address, 1, false);
        op->accesses[op->access_count - 1].is_hint = true;
    }
}

const struct builtin_kernel kernel_interpreted = {
    "kernel", 0, {0}, interpreted_declare, interpreted_run};
