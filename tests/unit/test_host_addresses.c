/* How a word is judged, and which words a function's arguments are. */
#include "given_test.h"

/* --- arguments of functions --- */

static bool gives(uintptr_t function, void **arguments) {
    return launch_gives_host_address((CUfunction)function, arguments, NULL, host_addresses_begin());
}

static void *const harmless[60] = {&(uint64_t){1}, &(uint64_t){2}, &(uint64_t[8]){3},
                                   &(uint64_t){4}, &(uint64_t){5}};

static void a_function_is_asked_about_once(void **state) {
    (void)state;
    void *arguments[60];
    memcpy(arguments, harmless, sizeof arguments);
    assert_false(gives(FUNCTION, arguments));
    int first = asked;
    for (int i = 0; i < 100; i++)
        assert_false(gives(FUNCTION, arguments));
    assert_int_equal(asked, first);
}

static void it_is_asked_about_again_when_modules_have_gone(void **state) {
    (void)state;
    void *arguments[60] = {&(uint64_t){1}, &(uint64_t){2}, &(uint64_t[8]){3}};
    assert_false(gives(FUNCTION, arguments));
    argument_count = 1; /* a look at more would be at nothing */
    arguments[1] = arguments[2] = (void *)16;
    look(ENTRY_NUMBER_cuModuleUnload, (uint64_t[16]){0});
    assert_false(gives(FUNCTION, arguments));
    argument_count = 0;
    arguments[0] = (void *)16;
    atomic_fetch_add(&loader_unloads, 1);
    assert_false(gives(FUNCTION, arguments));
}

static void a_function_of_very_many_arguments_is_asked_about_each_time(void **state) {
    (void)state;
    void *arguments[60];
    uint64_t *plain = malloc(sizeof *plain);
    uint64_t words[60] = {0};
    for (argument_count = 0; argument_count < 60; argument_count++) {
        argument_sizes[argument_count] = 8;
        arguments[argument_count] = &words[argument_count];
    }
    assert_false(gives(FUNCTION, arguments));
    words[59] = (uintptr_t)plain;
    assert_true(gives(FUNCTION, arguments));
    free(plain);
}

static void a_driver_that_tells_of_no_arguments_leaves_nothing_to_look_at(void **state) {
    (void)state;
    void *arguments[] = {(void *)16};
    knows_functions = false;
    assert_true(gives(FUNCTION, arguments));
    assert_false(gives(FUNCTION, NULL));
}

static void an_unknown_function_or_a_failing_driver_does_so_too(void **state) {
    (void)state;
    void *arguments[] = {(void *)16};
    assert_true(gives(NEWER, arguments));
    info_error = CUDA_ERROR_UNKNOWN;
    assert_true(gives(FUNCTION, arguments));
}

static void a_function_without_arguments_gives_none(void **state) {
    (void)state;
    void *arguments[] = {(void *)16};
    argument_count = 0;
    assert_false(gives(FUNCTION, arguments));
    assert_false(gives(KERNEL, arguments));
}

/* --- words --- */

static bool is_host(const void *address) {
    return host_address_is((uintptr_t)address, host_addresses_begin());
}

static void numbers_are_no_addresses(void **state) {
    (void)state;
    const uint64_t numbers[] = {0,
                                1,
                                4096,
                                65535,
                                1000000,
                                0x400000004,
                                0x3ff0000000000000,
                                UINT64_MAX,
                                (uint64_t)1 << 56,
                                0x00f0000000000010};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        assert_false(host_address_is(numbers[i], host_addresses_begin()));
}

static void each_kind_of_mapping_is_host_memory(void **state) {
    (void)state;
    static int data;
    int local;
    int *heap = malloc(sizeof *heap);
    void *untouched = map(NULL, PAGE, PROT_READ | PROT_WRITE);
    void *read_only = map(NULL, PAGE, PROT_READ);
    assert_true(is_host(&data) && is_host(&local) && is_host(heap) && is_host(untouched) &&
                is_host((char *)read_only + PAGE - 1) && is_host("text"));
    free(heap);
}

static void reserved_addresses_are_none(void **state) {
    (void)state;
    assert_false(is_host(map(NULL, PAGE, PROT_NONE)));
}

static void what_the_driver_knows_is_none_even_if_the_host_can_read_it(void **state) {
    (void)state;
    assert_false(is_host(device));
    memory_type = CU_MEMORYTYPE_HOST;
    given_forget();
    assert_false(is_host(device));
}

static void device_memory_is_asked_about_once(void **state) {
    (void)state;
    for (int i = 0; i < 10; i++)
        assert_false(is_host(device + 8 * i));
    assert_int_equal(pointers_asked, 2); /* its type, and whether it is managed */
}

static void what_was_learnt_is_forgotten_when_memory_has_gone(void **state) {
    (void)state;
    _Atomic uint64_t *const events[] = {&counters[STATS_driver_frees],
                                        &counters[STATS_free_unknown], &counters[STATS_map_calls]};
    for (size_t i = 0; i <= sizeof events / sizeof *events; i++) {
        void *at = map(NULL, PAGE, PROT_NONE);
        assert_false(is_host(at));
        mprotect(at, PAGE, PROT_READ);
        if (i < sizeof events / sizeof *events)
            atomic_fetch_add(events[i], 1);
        else
            look(ENTRY_NUMBER_cuMemUnmap, (uint64_t[16]){0});
        assert_true(is_host(at));
    }
}

static void what_was_learnt_is_forgotten_after_some_looks(void **state) {
    (void)state;
    void *at = map(NULL, PAGE, PROT_NONE);
    int looks = 1;
    assert_false(is_host(at));
    mprotect(at, PAGE, PROT_READ);
    while (!is_host(at))
        looks++;
    assert_true(looks <= HOST_ADDRESSES_LOOKS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_function_is_asked_about_once),
        TEST(it_is_asked_about_again_when_modules_have_gone),
        TEST(a_function_of_very_many_arguments_is_asked_about_each_time),
        TEST(a_driver_that_tells_of_no_arguments_leaves_nothing_to_look_at),
        TEST(an_unknown_function_or_a_failing_driver_does_so_too),
        TEST(a_function_without_arguments_gives_none),
        TEST(numbers_are_no_addresses),
        TEST(each_kind_of_mapping_is_host_memory),
        TEST(reserved_addresses_are_none),
        TEST(what_the_driver_knows_is_none_even_if_the_host_can_read_it),
        TEST(device_memory_is_asked_about_once),
        TEST(what_was_learnt_is_forgotten_when_memory_has_gone),
        TEST(what_was_learnt_is_forgotten_after_some_looks),
    };
    return cmocka_run_group_tests(tests, make_device, NULL);
}
