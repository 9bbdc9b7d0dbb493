/* The page that others see, and its entry in /dev/shm: who may have one, what becomes of it, whose
 * process counts as gone.
 *
 * The tests have a /dev/shm of their own, of a size that each chooses; that takes root's rights.
 * Without them they use the real one, and those of a full one are skipped. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "base/lock.h"
#include "base/segment.h"
#include "counters/own_page.h"
#include "counters/page.h"
#include "peers/own_open.h"
#include "peers/share_folder.h"
#include "report/own_report.h"
#include "report/report.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static bool own_shm;
static char folder[SHARE_FOLDER], entry[SHARE_FOLDER + SHARE_NAME];

static void say(const char *line) {
    (void)line;
    fail();
}

/* A fresh /dev/shm of at most `pages` pages of 4 KiB; 0: any number. */
static void mount_shm(unsigned pages) {
    char size[32] = "size=50%";
    if (pages)
        snprintf(size, sizeof size, "size=%uk", 4 * pages);
    umount2("/dev/shm", MNT_DETACH);
    assert_int_equal(mount("none", "/dev/shm", "tmpfs", 0, size), 0);
}

static int begin(void **state) {
    (void)state;
    own_shm = unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
    share_folder_path(folder);
    snprintf(entry, sizeof entry, "%s/%ld", folder, (long)getpid());
    return 0;
}

static int fresh(void **state) {
    (void)state;
    if (own_shm)
        mount_shm(0);
    unlink(entry);
    return 0;
}

static int end(void **state) {
    (void)state;
    stats_finish(STATS_NONE);
    stats_forget_after_fork();
    unlink(entry);
    return 0;
}

static bool exists(void) {
    struct stat status;
    return lstat(entry, &status) == 0;
}

static bool read_entry(struct stats_head *head) {
    struct share_page opened;
    int in = share_folder_open(false);
    bool good = share_open_page(in, strrchr(entry, '/') + 1, false, &opened) &&
                share_read_head(&opened, head) && opened.live;
    share_close_page(&opened);
    close(in);
    return good;
}

static void the_page_tells_of_this_process_until_it_ends(void **state) {
    (void)state;
    static struct stats_head head;
    stats_open(NULL, true, say);
    stats_add(STATS_malloc_calls, 3);
    assert_true(read_entry(&head));
    assert_int_equal(head.counters[STATS_malloc_calls], 3);
    assert_int_equal(head.process, getpid());
    assert_true(head.born && head.born == share_born((uint64_t)getpid()));
    assert_true(head.namespace_id && head.namespace_id == share_namespace());
    assert_false(share_is_stale(&head));
    stats_finish(STATS_NONE);
    assert_false(exists());
    stats_add(STATS_malloc_calls, 1); /* other threads may still count */
}

static void what_a_thread_has_joined_is_zeros_in_its_child(void **state) {
    (void)state;
    enum { MORE = 300, SIZE = 4096 }; /* than can be joined at a time */
    int number, status;
    unsigned char *made = segment_make(SIZE, &number), *joined[MORE];
    assert_non_null(made);
    made[0] = 77;
    for (int round = 0; round < 2; round++) {
        int count = 0;
        while (count < MORE && (joined[count] = segment_join(number, SIZE, true, geteuid())))
            count++;
        assert_in_range(count, 100, MORE - 1);
        // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): the last one that is there
        assert_int_equal(joined[count - 1][0], 77);
        pid_t child = fork();
        if (child == 0) {
            segment_forget_after_fork();
            for (int i = 0; i < count; i++) {
                if (joined[i][0]++)
                    _exit(1);
                segment_leave(joined[i], SIZE);
            }
            joined[0] = segment_join(number, SIZE, true, geteuid());
            _exit(joined[0] && joined[0][0] == 77 ? 7 : 2);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
        for (int i = 0; i < count; i++)
            segment_leave(joined[i], SIZE);
    }
    segment_let_end(number);
    munmap(made, SIZE);
}

static void a_page_is_stale_once_its_process_is_another(void **state) {
    (void)state;
    static struct stats_head head, changed;
    stats_open(NULL, true, say);
    assert_true(read_entry(&head));
    changed = head;
    changed.born++;
    assert_true(share_is_stale(&changed));
    changed = head;
    changed.process = 4194299; /* beyond every process */
    assert_true(share_is_stale(&changed));
    changed.namespace_id++; /* of which nothing is known */
    assert_false(share_is_stale(&changed));
    changed = head;
    assert_true(head.executable[1] != 0);
    changed.executable[1]++;
    assert_true(share_is_stale(&changed));
    changed = head;
    snprintf(changed.command, sizeof changed.command, "/seen/from/another/root");
    assert_false(share_is_stale(&changed));
}

static void a_zombie_has_ended(void **state) {
    (void)state;
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(share_born((uint64_t)child), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(share_born((uint64_t)child), 0);
}

static void skip_shm(void) {
    print_message("nothing can be mounted here: run as root, in a container with CAP_SYS_ADMIN\n");
    skip();
}

static void a_folder_that_is_not_the_users_alone_is_not_used(void **state) {
    (void)state;
    if (!own_shm)
        skip_shm();
    assert_int_equal(mkdir(folder, 0700), 0);
    const mode_t open_to_others[] = {0770, 0701, 0704, 0710};
    for (size_t i = 0; i < sizeof open_to_others / sizeof open_to_others[0]; i++) {
        assert_int_equal(chmod(folder, open_to_others[i]), 0);
        assert_int_equal(share_folder_open(true), -1);
        assert_int_equal(errno, EPERM);
        stats_open(NULL, true, say);
        assert_false(exists());
        stats_finish(STATS_NONE);
        stats_forget_after_fork();
    }
    assert_int_equal(chmod(folder, 0700), 0);
    assert_int_equal(chown(folder, 4321, 4321), 0);
    assert_int_equal(share_folder_open(true), -1);
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(mkdir("/dev/shm/elsewhere", 0700), 0);
    assert_int_equal(symlink("/dev/shm/elsewhere", folder), 0);
    assert_int_equal(share_folder_open(true), -1);
    assert_int_equal(unlink(folder), 0);
    int made = share_folder_open(true);
    assert_true(made >= 0);
    close(made);
}

static void an_older_page_of_this_number_is_replaced_whatever_it_is(void **state) {
    (void)state;
    static struct stats_head head;
    for (int what = 0; what < 3; what++) {
        int made = share_folder_open(true);
        assert_true(made >= 0);
        close(made);
        if (what == 0)
            assert_int_equal(symlink("/dev/null", entry), 0);
        else if (what == 1)
            assert_int_equal(mknod(entry, S_IFREG | 0600, 0), 0);
        else
            assert_int_equal(link("/proc/self/exe", entry) == 0 || mkfifo(entry, 0600) == 0, 1);
        stats_open(NULL, true, say);
        assert_true(read_entry(&head));
        stats_finish(STATS_NONE);
        assert_false(exists());
        stats_forget_after_fork();
    }
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* in place of a pool's */

static void use_everything(uint32_t *sites) {
    const uint8_t uuid[STATS_UUID] = {1};
    *sites = 0;
    lock_take(&lock, LOCK_POOL);
    for (uintptr_t i = 0; i < PAGE_SITES + 10; i++) {
        struct call_site key = {.frames = {(uintptr_t)use_everything + i}, .depth = 1};
        struct stats_site *site = stats_site_new(&key);
        assert_non_null(site);
        site->misses++;
        *sites += stats_site_index(site) != 0;
    }
    for (int i = 0; i < PAGE_DEVICES + 2; i++) {
        struct stats_device *device = stats_device(i, 1, uuid);
        assert_non_null(device);
        memset(device->samples, 0, sizeof device->samples);
        memset(device->map, 0, sizeof device->map);
    }
    stats_tool("tool");
    stats_payer("cuMemcpy");
    lock_drop(&lock, LOCK_POOL);
    stats_bypass("module", "name");
    stats_shortage("text");
    stats_option("POOLCUDA_STEAL=0");
}

static void finish_and_report(void) {
    int standard = dup(STDERR_FILENO), nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    assert_int_equal(dup2(nowhere, STDERR_FILENO), STDERR_FILENO);
    stats_finish(STATS_TEXT); /* the report reads all of the page */
    assert_int_equal(dup2(standard, STDERR_FILENO), STDERR_FILENO);
    close(standard);
    close(nowhere);
}

static void a_full_dev_shm_only_keeps_the_process_from_being_seen(void **state) {
    (void)state;
    uint32_t sites;
    unsigned seen = 0;
    if (!own_shm)
        skip_shm();
    for (unsigned pages = 1; pages < 12; pages++) {
        mount_shm(pages);
        stats_open(NULL, true, say);
        seen += exists();
        use_everything(&sites);
        assert_int_equal(sites, PAGE_SITES - 1);
        finish_and_report();
        assert_false(exists());
        stats_forget_after_fork();
    }
    assert_in_range(seen, 1, 10);
}

static void a_limit_on_files_only_keeps_the_process_from_being_seen(void **state) {
    (void)state;
    enum { FEW = 4096 }; /* bytes: qemu needs some, for a file that it shows as /proc/self/stat */
    struct rlimit all, few;
    uint32_t sites;
    assert_true(sizeof(struct stats_head) > FEW);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &all), 0);
    few = (struct rlimit){.rlim_cur = FEW, .rlim_max = all.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &few), 0);
    stats_open(NULL, true, say);
    use_everything(&sites);
    bool seen = exists();
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &all), 0);
    assert_false(seen);
    assert_int_equal(sites, PAGE_SITES - 1);
}

/* With a mapped file all of this was SIGBUS. */
static void whatever_becomes_of_its_entry_a_page_can_be_used(void **state) {
    (void)state;
    for (int what = 0; what < 4; what++) {
        static struct stats_head head;
        uint32_t sites;
        stats_open(NULL, true, say);
        assert_true(read_entry(&head));
        if (what == 0)
            assert_int_equal(truncate(entry, 0), 0);
        else if (what == 1)
            assert_int_equal(truncate(entry, 100), 0);
        else
            assert_int_equal(unlink(entry), 0);
        if (what == 3) /* another's now */
            assert_int_equal(mknod(entry, S_IFREG | 0600, 0), 0);
        assert_false(read_entry(&head));
        use_everything(&sites);
        assert_int_equal(sites, PAGE_SITES - 1);
        finish_and_report();
        assert_int_equal(exists(), what == 3);
        unlink(entry);
        stats_forget_after_fork();
    }
}

/* A child's page, of which it lets nobody know that it ends. */
static uint32_t page_of_a_killed_child(const char *file) {
    int pipe_ends[2];
    uint32_t segment = 0;
    assert_int_equal(pipe(pipe_ends), 0);
    pid_t child = fork();
    if (child == 0) {
        static struct stats_head head;
        snprintf(entry, sizeof entry, "%s/%ld", folder, (long)getpid());
        stats_open(file, true, say);
        stats_add(STATS_malloc_calls, 3);
        segment = read_entry(&head) ? head.segment : 0;
        bool told = write(pipe_ends[1], &segment, sizeof segment) == sizeof segment;
        _exit(told ? 0 : 1);
    }
    assert_int_equal(read(pipe_ends[0], &segment, sizeof segment), sizeof segment);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    char name[SHARE_NAME];
    snprintf(name, sizeof name, "%ld", (long)child);
    int in = share_folder_open(false);
    assert_true(in >= 0);
    share_clear(in, name);
    assert_int_equal(faccessat(in, name, F_OK, AT_SYMLINK_NOFOLLOW), -1);
    close(in);
    return segment;
}

static bool segment_is_there(uint32_t segment) {
    struct shmid_ds status;
    return shmctl((int)segment - 1, IPC_STAT, &status) == 0;
}

static void the_page_of_a_killed_process_is_gone(void **state) {
    (void)state;
    uint32_t segment = page_of_a_killed_child(NULL);
    assert_int_not_equal(segment, 0);
    assert_false(segment_is_there(segment));
}

static void the_last_figures_of_a_killed_process_go_to_its_file(void **state) {
    (void)state;
    static struct stats_head head;
    char file[] = "/tmp/poolcuda-share-XXXXXX";
    assert_int_equal(close(mkstemp(file)), 0);
    assert_int_equal(unlink(file), 0);
    uint32_t segment = page_of_a_killed_child(file);
    assert_int_not_equal(segment, 0);
    assert_false(segment_is_there(segment));
    int left = open(file, O_RDONLY | O_CLOEXEC);
    assert_int_equal(read(left, &head, sizeof head), sizeof head);
    assert_int_equal(head.counters[STATS_malloc_calls], 3);
    close(left);
    unlink(file);
}

static void what_is_no_process_or_no_page_is_passed_over(void **state) {
    (void)state;
    static const char *const names[] = {"abc", "0",        "12x",    "-5",
                                        "12-", "12-34-56", ".12-34", "012"};
    static const char *const kept[] = {"12", "7-4026531836"};
    size_t seen = 0;
    int open_folder = share_folder_open(true);
    assert_true(open_folder >= 0);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_int_equal(mknodat(open_folder, names[i], S_IFREG | 0600, 0), 0);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(mknodat(open_folder, kept[i], S_IFREG | 0600, 0), 0);
    struct share_walk walk = {.folder = open_folder};
    while (share_walk_next(&walk)) {
        seen += strcmp(walk.name, kept[0]) == 0 || strcmp(walk.name, kept[1]) == 0;
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
            assert_string_not_equal(walk.name, names[i]);
    }
    assert_int_equal(seen, 2);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unlinkat(open_folder, names[i], 0);
    for (size_t i = 0; i < 2; i++)
        unlinkat(open_folder, kept[i], 0);
    close(open_folder);
}

int main(void) {
#define FRESH(name) cmocka_unit_test_setup_teardown(name, fresh, end)
    const struct CMUnitTest tests[] = {
        FRESH(the_page_tells_of_this_process_until_it_ends),
        FRESH(what_a_thread_has_joined_is_zeros_in_its_child),
        FRESH(a_page_is_stale_once_its_process_is_another),
        FRESH(a_zombie_has_ended),
        FRESH(a_folder_that_is_not_the_users_alone_is_not_used),
        FRESH(an_older_page_of_this_number_is_replaced_whatever_it_is),
        FRESH(a_full_dev_shm_only_keeps_the_process_from_being_seen),
        FRESH(a_limit_on_files_only_keeps_the_process_from_being_seen),
        FRESH(whatever_becomes_of_its_entry_a_page_can_be_used),
        FRESH(the_page_of_a_killed_process_is_gone),
        FRESH(the_last_figures_of_a_killed_process_go_to_its_file),
        FRESH(what_is_no_process_or_no_page_is_passed_over),
    };
    return cmocka_run_group_tests(tests, begin, NULL);
}
