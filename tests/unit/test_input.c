/* What compressed traces may unpack to. */
#include "trace/input.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

enum { MIB = 1 << 20, MEMBER = 16 * MIB, ALWAYS = 256 * MIB };

static char path[64];
static unsigned char plain[MEMBER], packed[MEMBER];

/* A gzip member of MEMBER bytes, of which so many do not shrink. Returns its size. */
static size_t pack(size_t random) {
    z_stream stream = {.next_in = plain, .avail_in = MEMBER};
    uint32_t state = 1;
    memset(plain, 0, MEMBER);
    for (size_t i = 0; i < random; i++)
        plain[i] = (unsigned char)((state = state * 1664525u + 1013904223u) >> 24);
    stream.next_out = packed;
    stream.avail_out = MEMBER;
    assert_int_equal(deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    deflateEnd(&stream);
    return stream.total_out;
}

/* A file of so many members. */
static void write_members(size_t size, int count) {
    snprintf(path, sizeof path, "/tmp/poolcuda-test-input-XXXXXX");
    int file = mkstemp(path);
    assert_true(file >= 0);
    for (int i = 0; i < count; i++)
        assert_int_equal(write(file, packed, size), size);
    close(file);
}

/* Returns how many bytes could be read, and *problem. */
static uint64_t read_all(const char **problem) {
    struct input *input = input_open(path, problem);
    uint64_t read = 0;
    size_t got;
    assert_non_null(input);
    while ((got = input_read(input, plain, MIB)) > 0)
        read += got;
    *problem = input_problem(input);
    input_close(input);
    unlink(path);
    return read;
}

static void what_would_fill_the_memory_is_refused_at_the_bound(void **state) {
    (void)state;
    const char *problem;
    write_members(pack(0), 4096); /* 64 GiB */
    uint64_t read = read_all(&problem);
    assert_non_null(problem);
    assert_non_null(strstr(problem, "unpacks to more than 256 MiB and 100 times its size"));
    assert_null(strchr(problem, '\n'));
    assert_true(read >= ALWAYS && read <= ALWAYS + MIB);
}

static void up_to_the_bound_everything_is_read(void **state) {
    (void)state;
    const char *problem;
    write_members(pack(0), ALWAYS / MEMBER);
    assert_int_equal(read_all(&problem), ALWAYS);
    assert_null(problem);
}

static void what_shrinks_to_a_fiftieth_is_read_whatever_its_size(void **state) {
    (void)state;
    const char *problem;
    write_members(pack(MEMBER / 50), 40);
    assert_int_equal(read_all(&problem), 40ull * MEMBER);
    assert_null(problem);
}

static void a_plain_file_is_read_whatever_its_size(void **state) {
    (void)state;
    const char *problem;
    write_members(0, 0);
    assert_int_equal(truncate(path, 2ll * ALWAYS), 0);
    assert_int_equal(read_all(&problem), 2ull * ALWAYS);
    assert_null(problem);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_would_fill_the_memory_is_refused_at_the_bound),
        cmocka_unit_test(up_to_the_bound_everything_is_read),
        cmocka_unit_test(what_shrinks_to_a_fiftieth_is_read_whatever_its_size),
        cmocka_unit_test(a_plain_file_is_read_whatever_its_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
