/* The stats page: what is counted, what a file of it may contain, what is made of it. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "base/lock.h"
#include "counters/page.h"
#include "peers/own_open.h"
#include "report/own_report.h"
#include "report/report.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/poolcuda-stats-XXXXXX";
static char path[128], error[512], report[1 << 20];
static size_t report_length;

static void say(const char *line) {
    (void)line;
    fail();
}

static void collect(const char *text, size_t length, void *state) {
    (void)state;
    assert_true(report_length + length < sizeof report);
    memcpy(report + report_length, text, length);
    report_length += length;
    report[report_length] = '\0';
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* in place of a pool's */

static struct stats_site *new_site(const struct call_site *site) {
    lock_take(&lock, LOCK_POOL);
    struct stats_site *made = stats_site_new(site);
    lock_drop(&lock, LOCK_POOL);
    return made;
}

/* A page as a program leaves it, in the file `path`. */
static int make_file(void **state) {
    (void)state;
    snprintf(path, sizeof path, "%s/page", folder);
    unlink(path);
    stats_open(path, false, say);
    struct call_site own = {.frames = {(uintptr_t)make_file}, .depth = 1};
    struct stats_site *site = new_site(&own);
    site->misses = 3;
    site->hits = 9;
    site->live_blocks = 1;
    stats_set(STATS_in_use_bytes, 1000);
    stats_set(STATS_idle_bytes, 2000);
    stats_set(STATS_waste_bytes, 24);
    stats_set(STATS_held_bytes, 3024);
    stats_set(STATS_malloc_calls, 12);
    stats_set(STATS_malloc_hits, 9);
    stats_shut_in(STATS_NONE); /* the file gets the page */
    return 0;
}

static int drop_file(void **state) {
    (void)state;
    stats_forget_after_fork(); /* lets go of the file */
    unlink(path);
    return 0;
}

static void change(off_t offset, const void *bytes, size_t size) {
    int file = open(path, O_RDWR);
    assert_true(file >= 0);
    assert_int_equal(pwrite(file, bytes, size, offset), size);
    close(file);
}

static void refused(const char *why) {
    struct stats_page *page = stats_page_read(path, error, sizeof error);
    assert_null(page);
    assert_non_null(strstr(error, why));
    assert_null(strchr(error, '\n'));
}

static void a_page_left_in_a_file_can_be_read_and_reported(void **state) {
    (void)state;
    struct stats_page *page = stats_page_read(path, error, sizeof error);
    assert_non_null(page);
    report_length = 0;
    stats_report(page, STATS_TEXT, NULL, SIZE_MAX, collect, NULL);
    stats_page_destroy(page);
    assert_non_null(strstr(report, "running or killed"));
    assert_non_null(strstr(report, "1000 bytes"));
    assert_non_null(strstr(report, "3024 bytes"));
    assert_non_null(strstr(report, "allocations: 12, of which 9 from idle memory (75.0%"));
    assert_non_null(strstr(report, "test_stats+0x"));
}

static void the_file_tells_a_person_what_it_is(void **state) {
    (void)state;
    char line[256];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof line, file));
    fclose(file);
    assert_non_null(strstr(line, "poolcuda report"));
}

static void a_file_that_is_cut_off_is_refused(void **state) {
    (void)state;
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    /* The page stays mapped: reading what was cut away would end this process. */
    drop_file(NULL);
    make_file(NULL);
    assert_int_equal(truncate(path, status.st_size - 1), 0);
    refused("cut off");
    assert_int_equal(truncate(path, 100), 0);
    refused("another version");
    assert_int_equal(truncate(path, 0), 0);
    refused("not a poolcuda stats file");
    assert_int_equal(truncate(path, status.st_size), 0);
}

static void hostile_pages_are_refused(void **state) {
    (void)state;
    uint32_t huge = UINT32_MAX;
    char unterminated[PAGE_MODULE_NAME];
    memset(unterminated, 'x', sizeof unterminated);
    static const off_t counts[] = {
        offsetof(struct stats_page, module_count),
        offsetof(struct stats_page, site_count),
        offsetof(struct stats_page, bypass_count),
        offsetof(struct stats_page, sites) + offsetof(struct stats_site, depth),
        offsetof(struct stats_page, sites) + sizeof(struct stats_site) +
            offsetof(struct stats_site, module),
    };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        change(counts[i], &huge, sizeof huge);
        refused("damaged");
        drop_file(NULL);
        make_file(NULL);
    }
    change(offsetof(struct stats_page, modules) + PAGE_MODULE_NAME, unterminated,
           sizeof unterminated);
    refused("damaged");
    change(offsetof(struct stats_page, version), &huge, sizeof huge);
    refused("another version");
    change(0, "something else", 14);
    refused("not a poolcuda stats file");
    snprintf(path, sizeof path, "%s/absent", folder);
    refused("cannot be opened");
}

static void sites_beyond_the_table_share_one_record(void **state) {
    (void)state;
    struct stats_site *last = NULL;
    for (uintptr_t i = 0; i < PAGE_SITES + 10; i++) {
        struct call_site site = {.frames = {i + 1}, .depth = 1};
        last = new_site(&site);
        assert_non_null(last);
    }
    last->misses = 5;
    stats_shut_in(STATS_NONE);
    struct stats_page *page = stats_page_read(path, error, sizeof error);
    assert_non_null(page);
    report_length = 0;
    stats_report(page, STATS_TEXT, NULL, SIZE_MAX, collect, NULL);
    stats_page_destroy(page);
    assert_non_null(strstr(report, "(further sites)"));
}

static void the_process_id_stands_for_percent_p(void **state) {
    (void)state;
    char pattern[128];
    drop_file(NULL);
    snprintf(pattern, sizeof pattern, "%s/of-%%p-100%%%%", folder);
    stats_open(pattern, false, say);
    snprintf(path, sizeof path, "%s/of-%d-100%%", folder, (int)getpid());
    assert_int_equal(access(path, F_OK), 0);
}

static char said[512];

static void note(const char *line) {
    snprintf(said, sizeof said, "%s", line);
}

static void a_limit_on_the_size_of_files_is_told_and_no_signal(void **state) {
    (void)state;
    struct rlimit all, few;
    drop_file(NULL);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &all), 0);
    few = all;
    few.rlim_cur = 4096;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &few), 0);
    stats_open(path, false, note);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &all), 0);
    assert_non_null(strstr(said, "cannot be made"));
    assert_int_not_equal(access(path, F_OK), 0);
    stats_set(STATS_in_use_bytes, 5);
    assert_int_equal(stats_get(STATS_in_use_bytes), 5);
}

static void a_forked_child_leaves_the_file_alone(void **state) {
    (void)state;
    stats_forget_after_fork();
    assert_int_equal(stats_get(STATS_in_use_bytes), 0);
    stats_set(STATS_in_use_bytes, 77);
    stats_finish(STATS_TEXT);
    struct stats_page *page = stats_page_read(path, error, sizeof error);
    assert_non_null(page);
    assert_int_equal(page->counters[STATS_in_use_bytes], 1000);
    assert_int_equal(page->finished, 0);
    stats_page_destroy(page);
}

static void at_the_end_the_text_takes_the_place_of_the_page(void **state) {
    (void)state;
    char text[4096] = "";
    stats_finish(STATS_TEXT);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    assert_int_equal(strlen(text), length);
    assert_memory_equal(text, "poolcuda ", 9);
    assert_non_null(strstr(text, "held from the driver"));
    assert_non_null(strstr(text, "leaked at exit"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_file, drop_file)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_page_left_in_a_file_can_be_read_and_reported),
        TEST(the_file_tells_a_person_what_it_is),
        TEST(a_file_that_is_cut_off_is_refused),
        TEST(hostile_pages_are_refused),
        TEST(sites_beyond_the_table_share_one_record),
        TEST(the_process_id_stands_for_percent_p),
        TEST(a_limit_on_the_size_of_files_is_told_and_no_signal),
        TEST(a_forked_child_leaves_the_file_alone),
        TEST(at_the_end_the_text_takes_the_place_of_the_page),
    };
    if (!mkdtemp(folder))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(folder);
    return failed;
}
