/* What calls give to the device: each form of call in which an address can be, with one of plain
 * host memory and without. */
#include "given_test.h"

/* A call that gives `address` in the place `which` of its form; *places: how many that has. */
struct call {
    uint64_t words[16];
    struct {
        uint64_t integer, address, by_value[3];
    } arguments;
    void *parameters[3], *extra[5];
    uint64_t buffer[4];
    size_t buffer_bytes;
    CUDA_LAUNCH_PARAMS launches[2];
    CUDA_KERNEL_NODE_PARAMS_v2 kernel;
    uint64_t node[40];
    CUDA_MEMSET_NODE_PARAMS set;
    CUDA_MEMCPY2D copy_2d;
    CUDA_MEMCPY3D copy_3d;
    CUDA_RESOURCE_DESC texture;
    CUstreamBatchMemOpParams operations[4];
    CUDA_BATCH_MEM_OP_NODE_PARAMS batch;
    CUdeviceptr each[3];
    size_t sizes[3];
    uint64_t packed[16];
    uint64_t content[4];
};

static void put_arguments(struct call *call, uint64_t address, unsigned which) {
    uint64_t harmless = (uintptr_t)device;
    call->arguments.integer = 7;
    call->arguments.address = which == 0 ? address : harmless;
    for (int i = 0; i < 3; i++)
        call->arguments.by_value[i] = which == 1 && i == 2 ? address : harmless;
    call->parameters[0] = &call->arguments.integer;
    call->parameters[1] = &call->arguments.address;
    call->parameters[2] = call->arguments.by_value;
    memcpy(call->buffer, (uint64_t[]){7, harmless, 1000, address}, sizeof call->buffer);
    call->buffer_bytes = sizeof call->buffer;
    memcpy(call->extra,
           (void *[]){CU_LAUNCH_PARAM_BUFFER_POINTER, call->buffer, CU_LAUNCH_PARAM_BUFFER_SIZE,
                      &call->buffer_bytes, CU_LAUNCH_PARAM_END},
           sizeof call->extra);
}

static unsigned make_kernel(struct call *call, const uint8_t at[3], uint64_t address,
                            unsigned which) {
    bool buffered = at[2] != 0xff;
    put_arguments(call, address, which);
    call->words[at[0]] = which % 2 ? KERNEL : FUNCTION;
    if (which < 2)
        call->words[at[1]] = (uintptr_t)call->parameters;
    else
        call->words[at[2]] = (uintptr_t)call->extra;
    return buffered ? 3 : 2;
}

static unsigned make_kernel_node(struct call *call, CUDA_KERNEL_NODE_PARAMS_v2 *node,
                                 uint64_t address, unsigned which) {
    put_arguments(call, address, which);
    node->func = (CUfunction)FUNCTION;
    node->kernelParams = which < 2 ? call->parameters : NULL;
    node->extra = which < 2 ? NULL : call->extra;
    return 3;
}

static unsigned make_copy(CUDA_MEMCPY3D *copy, uint64_t address, unsigned which) {
    copy->srcMemoryType = copy->dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy->srcDevice = which == 0 ? address : (uintptr_t)device;
    copy->dstDevice = which == 1 ? address : (uintptr_t)device;
    copy->srcHost = copy->dstHost = copy; /* not used with that type */
    return 2;
}

static unsigned make_operations(CUstreamBatchMemOpParams operations[4], uint64_t address,
                                unsigned which) {
    static const CUstreamBatchMemOpType types[] = {
        CU_STREAM_MEM_OP_WAIT_VALUE_32, CU_STREAM_MEM_OP_WRITE_VALUE_32,
        CU_STREAM_MEM_OP_WAIT_VALUE_64, CU_STREAM_MEM_OP_WRITE_VALUE_64};
    for (unsigned i = 0; i < 4; i++) {
        operations[i].writeValue.operation = types[i];
        operations[i].writeValue.address = i == which ? address : (uintptr_t)device;
        operations[i].writeValue.value64 = i == 3 && which == 4 ? address : 1;
    }
    return 5;
}

static unsigned make_batch(struct call *call, CUDA_BATCH_MEM_OP_NODE_PARAMS *batch,
                           uint64_t address, unsigned which) {
    batch->count = 4;
    batch->paramArray = call->operations;
    return make_operations(call->operations, address, which);
}

static unsigned make_node(struct call *call, uint64_t address, unsigned which) {
    if (which > 5) {
        call->node[0] = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
        make_batch(call, (CUDA_BATCH_MEM_OP_NODE_PARAMS *)(void *)&call->node[2], address,
                   which - 6);
        return 11;
    }
    call->node[0] = which < 3   ? CU_GRAPH_NODE_TYPE_KERNEL
                    : which < 5 ? CU_GRAPH_NODE_TYPE_MEMCPY
                                : CU_GRAPH_NODE_TYPE_MEMSET;
    if (which < 3)
        make_kernel_node(call, (CUDA_KERNEL_NODE_PARAMS_v2 *)(void *)&call->node[2], address,
                         which);
    else if (which < 5) /* behind flags and a context */
        make_copy((CUDA_MEMCPY3D *)(void *)&call->node[4], address, which - 3);
    else
        call->node[2] = address;
    return 11;
}

#define FORM(name)                                                                                 \
    static unsigned make_##name(struct call *call, const uint8_t at[3], uint64_t address,          \
                                unsigned which)

FORM(ADDRESS) {
    call->words[at[0]] = (uintptr_t)device;
    if (at[1] != 0xff)
        call->words[at[1]] = (uintptr_t)device;
    call->words[at[which]] = address;
    return at[1] == 0xff ? 1 : 2;
}

FORM(EACH) {
    for (unsigned i = 0; i < 3; i++)
        call->each[i] = i == which ? address : (uintptr_t)device;
    call->words[at[0]] = (uintptr_t)call->each;
    call->words[at[1]] = 3;
    return 3;
}

FORM(KERNEL) {
    return make_kernel(call, at, address, which);
}

FORM(KERNELS) {
    put_arguments(call, address, which);
    call->launches[1] =
        (CUDA_LAUNCH_PARAMS){.function = (CUfunction)FUNCTION, .kernelParams = call->parameters};
    call->words[at[0]] = (uintptr_t)call->launches;
    call->words[at[1]] = 2;
    return 2;
}

FORM(BYTES) {
    call->content[which] = address;
    call->words[at[0]] = (uintptr_t)call->content;
    call->words[at[1]] = sizeof call->content;
    return 4;
}

FORM(KERNEL_NODE) {
    call->words[at[0]] = (uintptr_t)&call->kernel;
    return make_kernel_node(call, &call->kernel, address, which);
}

FORM(KERNEL_NODE_1) {
    call->kernel.kern = (CUkernel)16; /* is not there to be read */
    return make_KERNEL_NODE(call, at, address, which);
}

FORM(NODE) {
    call->words[at[0]] = (uintptr_t)call->node;
    return make_node(call, address, which);
}

FORM(MEMSET_NODE) {
    (void)which;
    call->set.dst = address;
    call->words[at[0]] = (uintptr_t)&call->set;
    return 1;
}

FORM(COPY_IN) {
    call->words[at[0]] = which == 0 ? address : (uintptr_t)device;
    call->content[3] = which == 1 ? address : 5;
    call->words[at[1]] = (uintptr_t)call->content;
    call->words[at[2]] = sizeof call->content;
    return 2;
}

FORM(CONTENT) {
    call->content[which] = address;
    call->words[at[0]] = (uintptr_t)call->content;
    call->words[at[1]] = sizeof call->content;
    return 4;
}

FORM(CONTENTS) {
    for (unsigned i = 0; i < 3; i++) {
        call->each[i] = (uintptr_t)&call->content[i];
        call->sizes[i] = sizeof call->content[i];
    }
    call->content[which] = address;
    call->words[at[0]] = (uintptr_t)call->each;
    call->words[at[1]] = (uintptr_t)call->sizes;
    call->words[at[2]] = 3;
    return 3;
}

FORM(COPY_2D) {
    call->copy_2d.srcMemoryType = call->copy_2d.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    call->copy_2d.srcDevice = which == 0 ? address : (uintptr_t)device;
    call->copy_2d.dstDevice = which == 1 ? address : (uintptr_t)device;
    call->words[at[0]] = (uintptr_t)&call->copy_2d;
    return 2;
}

FORM(COPY_3D) {
    call->words[at[0]] = (uintptr_t)&call->copy_3d;
    return make_copy(&call->copy_3d, address, which);
}

FORM(COPY_NODE) {
    return make_COPY_3D(call, at, address, which);
}

FORM(PACKED) {
    call->packed[which ? 12 : 3] = address; /* of the second one the destination; a source */
    call->words[at[0]] = (uintptr_t)call->packed;
    call->words[at[1]] = 2;
    return 2;
}

FORM(TEXTURE) {
    call->texture.resType = which ? CU_RESOURCE_TYPE_PITCH2D : CU_RESOURCE_TYPE_LINEAR;
    call->texture.res.linear.devPtr = address;
    call->words[at[0]] = (uintptr_t)&call->texture;
    return 2;
}

FORM(OPERATIONS) {
    call->words[at[0]] = (uintptr_t)call->operations;
    call->words[at[1]] = 4;
    return make_operations(call->operations, address, which);
}

FORM(BATCH_NODE) {
    call->words[at[0]] = (uintptr_t)&call->batch;
    return make_batch(call, &call->batch, address, which);
}

static const struct row {
    const char *symbol;
    unsigned row;
    uint8_t at[3];
    unsigned (*make)(struct call *call, const uint8_t at[3], uint64_t address, unsigned which);
} rows[] = {
#define NONE        0xff
#define make_UNREAD NULL
#define make_FORGET NULL
#define GIVES(symbol, form, first, second, third)                                                  \
    {#symbol, ENTRY_NUMBER_##symbol, {first, second, third}, make_##form},
#include "interpose/given_addresses.def"
#undef GIVES
};
enum { ROWS = sizeof rows / sizeof *rows };

/* The number of places that the form has for an address. */
static unsigned call_with(const struct row *row, uint64_t address, unsigned which, int *found) {
    struct call *call = calloc(1, sizeof *call);
    unsigned places = row->make(call, row->at, address, which);
    *found = look(row->row, call->words);
    free(call);
    return places;
}

static void an_address_is_found_wherever_the_call_can_have_one(void **state) {
    uint64_t *plain = malloc(sizeof *plain);
    for (int i = 0; i < ROWS; i++) {
        if (!rows[i].make)
            continue;
        unsigned places = 1;
        for (unsigned which = 0; which < places; which++) {
            int found;
            begin(state);
            places = call_with(&rows[i], (uintptr_t)plain, which, &found);
            if (!found)
                fail_msg("%s: not found in place %u", rows[i].symbol, which);
        }
    }
    free(plain);
}

static void none_is_found_where_there_is_device_memory_alone(void **state) {
    for (int i = 0; i < ROWS; i++) {
        if (!rows[i].make)
            continue;
        unsigned places = 1;
        for (unsigned which = 0; which < places; which++) {
            int found;
            begin(state);
            places = call_with(&rows[i], (uintptr_t)device + 8, which, &found);
            if (found)
                fail_msg("%s: found in place %u", rows[i].symbol, which);
        }
    }
}

static void a_call_that_gives_an_address_has_a_stub(void **state) {
    (void)state;
    for (int i = 0; i < ROWS; i++)
        if (!entry_has_stub(&entry_points[rows[i].row]))
            fail_msg("%s has none", rows[i].symbol);
}

/* Those of CUDA 2's ABI have addresses of 32 bits, and its launches have got their arguments
 * before. Semaphores are handles.
 */
static void whatever_launches_copies_or_sets_is_looked_at(void **state) {
    (void)state;
    for (unsigned i = 0; i < ENTRIES; i++) {
        const struct entry *entry = &entry_points[i];
        bool gives_some = entry->work == WORK_kernel || entry->work == WORK_copy ||
                          entry->work == WORK_device || entry->work == WORK_set ||
                          entry->work == WORK_unpack || entry->work == WORK_value ||
                          (entry->work == WORK_wait && !strstr(entry_name(i), "Semaphores"));
        char newer[80] = {0};
        strncat(strncat(newer, entry_name(i), 70), "_v2", 4);
        bool is_old = entry_find(newer) < ENTRIES && entry_points[entry_find(newer)].since == 3020;
        if (gives_some && !is_old && !given_is_of(i) && strcmp(entry_name(i), "cuLaunch") != 0 &&
            strncmp(entry_name(i), "cuLaunchGrid", 12) != 0)
            fail_msg("%s is not", entry_name(i));
    }
}

static void what_cannot_be_read_is_taken_to_give_one(void **state) {
    (void)state;
    assert_int_equal(look(GIVEN_UNKNOWN, (uint64_t[16]){0}), 1);
}

static void errors_of_the_program_are_the_drivers(void **state) {
    for (int i = 0; i < ROWS; i++) {
        begin(state);
        if (rows[i].make)
            assert_int_equal(look(rows[i].row, (uint64_t[16]){0}), 0);
    }
    begin(state);
    uint64_t nowhere[16] = {(uintptr_t)device, 16, 64}; /* copied from where nothing is mapped */
    assert_int_equal(look(ENTRY_NUMBER_cuMemcpyHtoD_v2, nowhere), 0);
}

static void copies_of_data_are_not_looked_through(void **state) {
    (void)state;
    uint64_t data[1024] = {0};
    for (int i = 0; i < 1024; i++)
        data[i] = (uintptr_t)data;
    uint64_t words[16] = {(uintptr_t)device, (uintptr_t)data, sizeof data};
    assert_int_equal(look(ENTRY_NUMBER_cuMemcpyHtoD_v2, words), 0);
    words[2] = 1024;
    assert_int_equal(look(ENTRY_NUMBER_cuMemcpyHtoD_v2, words), 1);
}

static void what_a_captured_copy_takes_from_the_host_may_be_an_address_later(void **state) {
    static const unsigned rows_of[] = {ENTRY_NUMBER_cuMemcpyHtoDAsync_v2,
                                       ENTRY_NUMBER_cuMemcpyHtoDAsync_v2_ptsz};
    uint64_t number = 0, words[16] = {(uintptr_t)device, (uintptr_t)&number, sizeof number};
    for (int i = 0; i < 2; i++) {
        begin(state);
        assert_int_equal(look(rows_of[i], words), 0);
        capturing = true;
        assert_int_equal(look(rows_of[i], words), 1);
    }
    begin(state);
    capturing = true;
    words[1] = (uintptr_t)device + 8; /* kernels change that, and they are looked at themselves */
    assert_int_equal(look(ENTRY_NUMBER_cuMemcpyAsync, words), 0);
    words[1] = (uintptr_t)&number;
    assert_int_equal(look(ENTRY_NUMBER_cuMemcpyHtoD_v2, words), 0); /* is in no graph */
    words[2] = 4096;
    assert_int_equal(look(ENTRY_NUMBER_cuMemcpyHtoDAsync_v2, words), 0);
}

static void what_a_graphs_copy_takes_from_the_host_may_be_an_address_later(void **state) {
    uint64_t number[2] = {0};
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = number,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = (uintptr_t)device,
                          .WidthInBytes = sizeof *number,
                          .Height = 1,
                          .Depth = 1};
    uint64_t node[40] = {CU_GRAPH_NODE_TYPE_MEMCPY}, words[16] = {0};
    words[4] = words[2] = words[1] = (uintptr_t)&copy;
    assert_int_equal(look(ENTRY_NUMBER_cuGraphAddMemcpyNode, words), 1);
    begin(state);
    assert_int_equal(look(ENTRY_NUMBER_cuGraphMemcpyNodeSetParams, words), 1);
    begin(state);
    assert_int_equal(look(ENTRY_NUMBER_cuGraphExecMemcpyNodeSetParams, words), 1);
    begin(state);
    memcpy(&node[4], &copy, sizeof copy);
    words[4] = (uintptr_t)node;
    assert_int_equal(look(ENTRY_NUMBER_cuGraphAddNode, words), 1);
    begin(state);
    copy.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
    copy.srcDevice = (uintptr_t)device + 8;
    assert_int_equal(look(ENTRY_NUMBER_cuGraphMemcpyNodeSetParams, words), 0);
    copy.srcDevice = (uintptr_t)number;
    copy.WidthInBytes = 4096;
    assert_int_equal(look(ENTRY_NUMBER_cuGraphMemcpyNodeSetParams, words), 0);
    copy.WidthInBytes = sizeof *number;
    assert_int_equal(look(ENTRY_NUMBER_cuGraphMemcpyNodeSetParams, words), 1);
}

static void nobody_looks_after_the_first(void **state) {
    (void)state;
    uint64_t words[16] = {(uintptr_t)words};
    assert_int_equal(look(ENTRY_NUMBER_cuMemsetD8_v2, words), 1);
    assert_false(given_looks_at(ENTRY_NUMBER_cuMemsetD8_v2));
    given_forget_after_fork();
    assert_int_equal(look(ENTRY_NUMBER_cuMemsetD8_v2, words), 1);
}

static void nobody_looks_where_nobody_awaits_it(void **state) {
    (void)state;
    uint64_t words[16] = {(uintptr_t)words};
    awaits = POOL_AWAITS_NOT_YET;
    assert_int_equal(look(ENTRY_NUMBER_cuMemsetD8_v2, words), 0);
    assert_true(given_looks_at(ENTRY_NUMBER_cuMemsetD8_v2));
    awaits = POOL_AWAITS_NEVER;
    assert_int_equal(look(ENTRY_NUMBER_cuMemsetD8_v2, words), 0);
    assert_false(given_looks_at(ENTRY_NUMBER_cuMemsetD8_v2));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(an_address_is_found_wherever_the_call_can_have_one),
        TEST(none_is_found_where_there_is_device_memory_alone),
        TEST(a_call_that_gives_an_address_has_a_stub),
        TEST(whatever_launches_copies_or_sets_is_looked_at),
        TEST(what_cannot_be_read_is_taken_to_give_one),
        TEST(errors_of_the_program_are_the_drivers),
        TEST(copies_of_data_are_not_looked_through),
        TEST(what_a_captured_copy_takes_from_the_host_may_be_an_address_later),
        TEST(what_a_graphs_copy_takes_from_the_host_may_be_an_address_later),
        TEST(nobody_looks_after_the_first),
        TEST(nobody_looks_where_nobody_awaits_it),
    };
    return cmocka_run_group_tests(tests, make_device, NULL);
}
