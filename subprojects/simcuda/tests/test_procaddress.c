/* Looking up the simulated driver's functions, by dlsym and by cuGetProcAddress. */
#include "test_sim.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum form { LEGACY, PER_THREAD };

static const struct {
    const char *symbol, *base;
    int since;
    enum form form;
} entries[] = {
#define ENTRY(symbol, base, since, form) {#symbol, #base, since, form},
#include "entry_points.def"
#include "unsimulated.def"
#undef ENTRY
};

enum { ENTRIES = sizeof entries / sizeof *entries };

static CUdriverProcAddressQueryResult status;

static void *look_up(const char *name, int version, cuuint64_t flags) {
    void *function = &function;

    assert_ok(cuGetProcAddress_v2(name, &function, version, flags, &status));
    assert_true((function != NULL) == (status == CU_GET_PROC_ADDRESS_SUCCESS));
    return function;
}

static void test_every_entry_is_exported(void **state) {
    (void)state;
    for (size_t i = 0; i < ENTRIES; i++)
        assert_non_null(dlsym(RTLD_DEFAULT, entries[i].symbol));
}

/* A form is what its own version and flag get. */
static void test_a_version_gets_its_form(void **state) {
    (void)state;
    for (size_t i = 0; i < ENTRIES; i++) {
        cuuint64_t flags = entries[i].form == PER_THREAD
                               ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
                               : CU_GET_PROC_ADDRESS_LEGACY_STREAM;

        assert_ptr_equal(look_up(entries[i].base, entries[i].since, flags),
                         dlsym(RTLD_DEFAULT, entries[i].symbol));
    }
}

/* Just before a form existed its predecessor is found, or nothing if it is the first. */
static void test_an_older_version_gets_an_older_form(void **state) {
    (void)state;
    for (size_t i = 0; i < ENTRIES; i++) {
        const char *before = NULL;
        int before_since = 0;
        void *found;

        if (entries[i].form == PER_THREAD)
            continue;
        for (size_t j = 0; j < ENTRIES; j++) {
            if (strcmp(entries[j].base, entries[i].base) == 0 && entries[j].form == LEGACY &&
                entries[j].since < entries[i].since && entries[j].since > before_since) {
                before = entries[j].symbol;
                before_since = entries[j].since;
            }
        }
        found = look_up(entries[i].base, entries[i].since - 1, CU_GET_PROC_ADDRESS_LEGACY_STREAM);
        if (before != NULL) {
            assert_ptr_equal(found, dlsym(RTLD_DEFAULT, before));
        } else {
            assert_null(found);
            assert_int_equal(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
        }
    }
}

/* What a program gets that calls a function which is not simulated, whatever its parameters. */
static void test_what_is_not_simulated_says_so(void **state) {
    static const char *const bases[] = {
        "cuGraphicsUnregisterResource", "cuExternalMemoryGetMappedMipmappedArray",
        "cuCheckpointProcessLock", "cuMulticastCreate", "cuLogicalEndpointCreate"};

    (void)state;
    for (size_t i = 0; i < sizeof bases / sizeof *bases; i++) {
        CUresult (*function)(void *, void *, void *, void *, void *, void *, void *, void *);

        *(void **)&function = look_up(bases[i], 13050, 0);
        assert_non_null(function);
        assert_int_equal(function(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
                         CUDA_ERROR_NOT_INITIALIZED);
    }
    assert_ok(cuInit(0));
    for (size_t i = 0; i < sizeof bases / sizeof *bases; i++) {
        CUresult (*function)(void *, void *, void *, void *, void *, void *, void *, void *);

        *(void **)&function = look_up(bases[i], 13050, 0);
        assert_int_equal(function(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
                         CUDA_ERROR_NOT_SUPPORTED);
    }
}

static void test_known_answers(void **state) {
    (void)state;
    assert_ptr_equal(look_up("cuMemAlloc", 13000, 0), cuMemAlloc_v2);
    assert_ptr_equal(look_up("cuMemAlloc", 2000, 0), cuMemAlloc);
    assert_ptr_equal(look_up("cuMemFree", 3020, 0), cuMemFree_v2);
    assert_ptr_equal(look_up("cuGetProcAddress", 11030, 0), cuGetProcAddress);
    assert_ptr_equal(look_up("cuGetProcAddress", 12000, 0), cuGetProcAddress_v2);
    assert_ptr_equal(look_up("cuDevicePrimaryCtxReset", 7000, 0), cuDevicePrimaryCtxReset);
    assert_ptr_equal(look_up("cuDevicePrimaryCtxReset", 11000, 0), cuDevicePrimaryCtxReset_v2);
    assert_ptr_equal(look_up("cuCtxSynchronize", 12090, 0), cuCtxSynchronize);
    assert_ptr_equal(look_up("cuCtxSynchronize", 13000, 0), cuCtxSynchronize_v2);
    assert_ptr_equal(look_up("cuMemcpyHtoD", 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM),
                     cuMemcpyHtoD_v2_ptds);
    assert_ptr_equal(look_up("cuMemcpyHtoD", 4000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM),
                     cuMemcpyHtoD_v2); /* before per-thread streams existed */
    assert_ptr_equal(look_up("cuMemAlloc", 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM),
                     cuMemAlloc_v2); /* it has no per-thread form */
}

static void test_unknown_names(void **state) {
    void *function = &function;

    (void)state;
    assert_null(look_up("cuMemAlloc_v2", 13000, 0)); /* base names only */
    assert_int_equal(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    assert_null(look_up("", 0, 0));
    assert_int_equal(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    assert_ok(cuGetProcAddress_v2("", &function, 0, 0, NULL));
    assert_null(function);
    assert_int_equal(cuGetProcAddress("cuNoSuchThing", &function, 12000, 0), CUDA_ERROR_NOT_FOUND);
    assert_null(function);
    assert_ok(cuGetProcAddress("cuMemAlloc", &function, 11030, 0));
    assert_ptr_equal(function, cuMemAlloc_v2);
}

static void test_bad_arguments(void **state) {
    void *function;

    (void)state;
    assert_int_equal(cuGetProcAddress_v2(NULL, &function, 12000, 0, NULL),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGetProcAddress_v2("cuInit", NULL, 12000, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGetProcAddress_v2("cuInit", &function, 12000, 4, NULL),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGetProcAddress_v2("cuInit", &function, 13060, 0, NULL),
                     CUDA_ERROR_INVALID_VALUE); /* newer than the driver */
}

static void test_export_tables_are_absent(void **state) {
    const void *table = &table;
    CUuuid id = {{0}};

    (void)state;
    assert_int_equal(cuGetExportTable(&table, &id), CUDA_ERROR_NOT_FOUND);
    assert_null(table);
}

static void test_error_names(void **state) {
    const char *text;

    (void)state;
    assert_ok(cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text));
    assert_string_equal(text, "CUDA_ERROR_OUT_OF_MEMORY");
    assert_ok(cuGetErrorString(CUDA_SUCCESS, &text));
    assert_string_equal(text, "no error");
    assert_int_equal(cuGetErrorName((CUresult)12345, &text), CUDA_ERROR_INVALID_VALUE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_entry_is_exported),
        cmocka_unit_test(test_a_version_gets_its_form),
        cmocka_unit_test(test_an_older_version_gets_an_older_form),
        cmocka_unit_test(test_what_is_not_simulated_says_so),
        cmocka_unit_test(test_known_answers),
        cmocka_unit_test(test_unknown_names),
        cmocka_unit_test(test_bad_arguments),
        cmocka_unit_test(test_export_tables_are_absent),
        cmocka_unit_test(test_error_names),
    };

    setenv("SIMCUDA_DRIVER_VERSION", "13050", 1); /* which has all of them */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
