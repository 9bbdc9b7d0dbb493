/* The process's own stats page: made, filled, and at the end turned into a report. */
#include "observe/stats.h"

#include "format.h"
#include "modules.h"
#include "observe/page.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SAME_NAME_TRIES = 1000 };

/* Until stats_open, and without memory for a page: counted here, reported nowhere. */
static _Atomic uint64_t early[STATS_COUNTERS];
static struct stats_site early_site;

static struct stats_page *page;
static int page_file = -1;

_Atomic uint64_t *stats_counters = early;

static void copy_text(char *to, size_t size, const char *from) {
    size_t length = strlen(from);
    if (length >= size) { /* the end of a path tells more than its beginning */
        from += length - (size - 1);
        length = size - 1;
    }
    memcpy(to, from, length);
    to[length] = '\0';
}

void stats_route(enum stats_route route) {
    if (page)
        atomic_fetch_add_explicit(&page->routes[route], 1, memory_order_relaxed);
}

void stats_wait(enum wait_reason reason) {
    if (page)
        atomic_fetch_add_explicit(&page->waits[reason], 1, memory_order_relaxed);
}

void stats_payer(const char *call) {
    if (!page)
        return;
    uint32_t count = page->payer_count, i = 0;
    while (i < count && strcmp(page->payers[i].name, call) != 0)
        i++;
    if (i == PAGE_PAYERS)
        i--;
    if (i == count) {
        copy_text(page->payers[i].name, sizeof page->payers[i].name,
                  i == PAGE_PAYERS - 1 ? "(others)" : call);
        page->payer_count = count + 1;
    }
    atomic_fetch_add_explicit(&page->payers[i].count, 1, memory_order_relaxed);
}

size_t stats_expand_path(char *path, size_t size, const char *pattern) {
    size_t length = 0;
    for (; *pattern && length + 16 < size; pattern++) {
        if (pattern[0] == '%' && pattern[1] == 'p') {
            length += (size_t)format(path + length, size - length, "%d", (int)getpid());
            pattern++;
        } else {
            if (pattern[0] == '%' && pattern[1] == '%')
                pattern++;
            path[length++] = *pattern;
        }
    }
    path[length] = '\0';
    return *pattern ? 0 : length;
}

int stats_create_file(const char *pattern, char *path) {
    size_t length = stats_expand_path(path, STATS_PATH_SIZE, pattern);
    if (!length) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    for (int i = 1; file < 0 && errno == EEXIST && i < SAME_NAME_TRIES; i++) {
        format(path + length, STATS_PATH_SIZE - length, ".%d", i);
        file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    }
    return file;
}

static void *map(int file) {
    return mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE,
                file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, file, 0);
}

static void start_page(struct stats_page *fresh) {
    fresh->version = PAGE_VERSION;
    fresh->counter_count = STATS_COUNTERS;
    fresh->route_count = STATS_ROUTES;
    fresh->wait_reason_count = WAIT_REASONS;
    fresh->process = (uint64_t)getpid();
    ssize_t length = readlink("/proc/self/exe", fresh->command, sizeof fresh->command - 1);
    fresh->command[length > 0 ? length : 0] = '\0';
    fresh->module_count = 1;
    fresh->sites[0].depth = 1;
    fresh->site_count = 1;
    memcpy(fresh->banner, PAGE_MAGIC "\n", sizeof PAGE_MAGIC);
    page = fresh;
    stats_counters = fresh->counters;
}

void stats_open(const char *path_pattern, void (*say)(const char *line)) {
    void *memory = MAP_FAILED;
    if (path_pattern && *path_pattern) {
        char path[STATS_PATH_SIZE];
        page_file = stats_create_file(path_pattern, path);
        if (page_file >= 0 && ftruncate(page_file, sizeof *page) == 0)
            memory = map(page_file);
        if (memory == MAP_FAILED) {
            char line[192];
            format(
                line, sizeof line,
                "poolcuda: POOLCUDA_STATS_FILE=\"%.80s\": cannot be made (error %d), printing to "
                "standard error at exit",
                path_pattern, errno);
            say(line);
            if (page_file >= 0)
                close(page_file);
            page_file = -1;
        }
    }
    if (memory == MAP_FAILED)
        memory = map(-1);
    if (memory != MAP_FAILED)
        start_page(memory);
}

static uint32_t module_index(const char *name) {
    uint32_t count = page->module_count;
    for (uint32_t i = 1; i < count; i++)
        if (strcmp(page->modules[i], name) == 0)
            return i;
    if (count == PAGE_MODULES)
        return 0;
    memcpy(page->modules[count], name, strlen(name) + 1);
    page->module_count = count + 1;
    return count;
}

struct stats_site *stats_site_new(const struct call_site *site) {
    if (!page)
        return &early_site;
    uint32_t index = page->site_count;
    if (index == PAGE_SITES)
        return &page->sites[0];
    struct stats_site *slot = &page->sites[index];
    page->site_count = index + 1;
    for (uintptr_t i = 0; i < site->depth; i++) {
        char path[MODULE_PATH_MAX], name[PAGE_MODULE_NAME];
        slot->offset[i] = site->frames[i];
        if (modules_describe(site->frames[i], path, sizeof path, &slot->offset[i])) {
            copy_text(name, sizeof name, path);
            slot->module[i] = module_index(name);
        }
    }
    atomic_store_explicit(&slot->depth, (uint32_t)site->depth, memory_order_release);
    return slot;
}

void stats_trace(const char *path) {
    if (page)
        copy_text(page->trace, sizeof page->trace, path);
}

void stats_tool(const char *name) {
    if (!page || strstr(page->tools, name))
        return;
    size_t length = strlen(page->tools);
    format(page->tools + length, sizeof page->tools - length, "%s%s", length ? ", " : "", name);
}

void stats_shortage(const char *text) {
    static atomic_flag writing = ATOMIC_FLAG_INIT;
    if (!page || atomic_flag_test_and_set(&writing))
        return; /* that of the thread which is just writing is as good */
    size_t length = strlen(text);
    length = length < sizeof page->shortage ? length : sizeof page->shortage - 1;
    memcpy(page->shortage, text, length);
    page->shortage[length] = '\0';
    atomic_flag_clear(&writing);
}

void stats_bypass(const char *module, const char *name) {
    if (!page || page->bypass_count == PAGE_BYPASSES)
        return;
    uint32_t index = page->bypass_count;
    copy_text(page->bypasses[index].module, sizeof page->bypasses[index].module, module);
    copy_text(page->bypasses[index].name, sizeof page->bypasses[index].name, name);
    page->bypass_count = index + 1;
}

static void write_all(const char *text, size_t length, void *state) {
    int file = *(const int *)state;
    while (length) {
        ssize_t written = write(file, text, length);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return; /* nobody to tell */
        text += written;
        length -= (size_t)written;
    }
}

/* The text takes the place of the mapped page in the same file, so the page is copied away first.
 * Other threads may still count: where the file was mapped anonymous memory takes its place, since
 * a mapping beyond the end of a file that became shorter cannot be touched. */
static bool report_to_file(void) {
    struct stats_page *mapped = page, *copy = map(-1);
    if (copy == MAP_FAILED)
        return false;
    memcpy(copy, mapped, sizeof *copy);
    if (mmap(mapped, sizeof *mapped, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
        return false;
    page = copy;
    stats_counters = copy->counters;
    if (lseek(page_file, 0, SEEK_SET) != 0)
        return false;
    stats_report(page, write_all, &page_file);
    off_t end = lseek(page_file, 0, SEEK_CUR);
    return ftruncate(page_file, end) == 0;
}

void stats_finish(bool to_stderr) {
    if (!page)
        return;
    page->finished = 1;
    if (page_file >= 0) {
        report_to_file();
    } else if (to_stderr) {
        int file = STDERR_FILENO;
        stats_report(page, write_all, &file);
    }
}

void stats_forget_after_fork(void) {
    stats_counters = early;
    memset(early, 0, sizeof early);
    if (page)
        munmap(page, sizeof *page);
    page = NULL;
    if (page_file >= 0)
        close(page_file);
    page_file = -1;
}
