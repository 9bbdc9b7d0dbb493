/* What the host can still give, as files under a folder say it. */
#include "test_sim.h"

#include "../driver/host_room.c" // NOLINT(bugprone-suspicious-include): it is no function of the driver's

#include <ftw.h>
#include <sys/stat.h>

static char root[] = "/tmp/test_simcuda_XXXXXX";

static void put(const char *path, const char *text) {
    char whole[512];
    FILE *file;

    snprintf(whole, sizeof whole, "%s%s", root, path);
    for (char *slash = strchr(whole + strlen(root) + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(whole, 0700);
        *slash = '/';
    }
    file = fopen(whole, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int erase(const char *path, const struct stat *status, int type, struct FTW *at) {
    (void)status;
    (void)type;
    return at->level == 0 ? 0 : remove(path);
}

/* A host with 100 MB, and no groups yet. */
static int set_up(void **state) {
    (void)state;
    if (strstr(root, "XXXXXX") != NULL) /* a made name may have an X, too */
        assert_non_null(mkdtemp(root));
    nftw(root, erase, 8, FTW_DEPTH | FTW_PHYS);
    put("/proc/meminfo", "MemTotal:  200000 kB\nMemFree:  1 kB\nMemAvailable:  100000 kB\n");
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    nftw(root, erase, 8, FTW_DEPTH | FTW_PHYS);
    return remove(root);
}

enum { HOST = 100000 * 1024 };

static void test_a_host_without_groups_has_what_is_available(void **state) {
    (void)state;
    assert_int_equal(host_room(root), HOST);
    put("/proc/meminfo", "MemTotal:  200000 kB\n");
    assert_true(host_room(root) == UINT64_MAX);
}

static void test_a_group_of_version_2_limits(void **state) {
    (void)state;
    put("/proc/self/cgroup", "0::/one/two\n");
    put("/sys/fs/cgroup/one/two/memory.max", "max\n");
    put("/sys/fs/cgroup/one/two/memory.current", "5000\n");
    assert_int_equal(host_room(root), HOST);
    put("/sys/fs/cgroup/one/two/memory.max", "70000\n");
    assert_int_equal(host_room(root), 65000);
    put("/sys/fs/cgroup/one/two/memory.stat", "active_file 9\ninactive_file 3000\n");
    assert_int_equal(host_room(root), 68000); /* files' memory is given up */
    put("/sys/fs/cgroup/one/memory.max", "9000\n");
    put("/sys/fs/cgroup/one/memory.current", "8000\n");
    assert_int_equal(host_room(root), 1000); /* the group around it has less */
    put("/sys/fs/cgroup/one/memory.current", "9500\n");
    assert_int_equal(host_room(root), 0);
}

static void test_a_group_of_version_1_limits(void **state) {
    (void)state;
    put("/proc/self/cgroup", "3:cpu,memory:/box\n1:name=memoryless:/else\n0::/\n");
    put("/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "9223372036854771712\n");
    put("/sys/fs/cgroup/memory/box/memory.usage_in_bytes", "40000\n");
    assert_int_equal(host_room(root), HOST);
    put("/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "50000\n");
    put("/sys/fs/cgroup/memory/box/memory.stat", "inactive_file 1\ntotal_inactive_file 15000\n");
    assert_int_equal(host_room(root), 25000);
}

/* In a container the group's name may be the one outside. */
static void test_the_root_of_the_groups_counts_where_the_group_is_not_seen(void **state) {
    (void)state;
    put("/proc/self/cgroup", "0::/not/here\n");
    put("/sys/fs/cgroup/memory.max", "4000\n");
    put("/sys/fs/cgroup/memory.current", "1000\n");
    assert_int_equal(host_room(root), 3000);
}

static void test_this_host_has_some_and_not_more_than_all(void **state) {
    uint64_t total = 0;

    (void)state;
    assert_true(read_number("/proc/meminfo", "MemTotal", &total));
    assert_in_range(host_room(""), 1, total * 1024);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_host_without_groups_has_what_is_available, set_up),
        cmocka_unit_test_setup(test_a_group_of_version_2_limits, set_up),
        cmocka_unit_test_setup(test_a_group_of_version_1_limits, set_up),
        cmocka_unit_test_setup(test_the_root_of_the_groups_counts_where_the_group_is_not_seen,
                               set_up),
        cmocka_unit_test(test_this_host_has_some_and_not_more_than_all),
    };

    return cmocka_run_group_tests(tests, NULL, tear_down);
}
