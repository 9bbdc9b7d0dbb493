/* A device that has the host's page tables says so. */
#include "test_sim.h"

static void test_both_attributes(void **state) {
    int can;

    (void)state;
    assert_ok(cuDeviceGetAttribute(&can, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 0));
    assert_int_equal(can, 1);
    assert_ok(cuDeviceGetAttribute(
        &can, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, 0));
    assert_int_equal(can, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_both_attributes)};

    return cmocka_run_group_tests(tests, set_up_context, NULL);
}
