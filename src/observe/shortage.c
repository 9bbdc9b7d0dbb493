#include "observe/shortage.h"

#include "modules.h"
#include "observe/human.h"
#include "observe/output_file.h"
#include "observe/stats.h"
#include "site_tag.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_SIZE = 1536, PATH_SIZE = 4200, FIRST_REPORTS = 5 };

static int log_file = -1;

void shortage_open_log(const char *pattern, void (*say)(const char *line)) {
    char path[PATH_SIZE];
    log_file = -1;
    if (!*pattern)
        return;
    log_file = STDERR_FILENO;
    if (strcmp(pattern, "stderr") == 0)
        return;
    errno = ENAMETOOLONG;
    int file = output_file_name(path, sizeof path, pattern, 0)
                   ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)
                   : -1;
    if (file >= 0) {
        log_file = file;
        return;
    }
    char line[192];
    format(line, sizeof line,
           "poolcuda: POOLCUDA_LOG=\"%.80s\": cannot be opened (error %d), using standard error",
           pattern, errno);
    say(line);
}

/* Text that grows in a buffer; what does not fit is left out. Invariant: length < size. */
struct text {
    char *start;
    size_t size, length;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *text, const char *pattern, ...) {
    va_list arguments;
    va_start(arguments, pattern);
    int added =
        vsnprintf(text->start + text->length, text->size - text->length, pattern, arguments);
    va_end(arguments);
    if (added > 0)
        text->length += (size_t)added < text->size - text->length ? (size_t)added
                                                                  : text->size - text->length - 1;
}

static void add_site(struct text *text, const struct call_site *site) {
    const char *tag = site_tag_name(site);
    if (tag)
        add(text, "%s", tag);
    for (uintptr_t i = 0; !tag && i < site->depth; i++) {
        char path[MODULE_PATH_MAX];
        uint64_t offset = site->frames[i];
        const char *name = "(unknown)";
        if (modules_describe(site->frames[i], path, sizeof path, &offset)) {
            const char *slash = strrchr(path, '/');
            name = slash ? slash + 1 : path;
        }
        add(text, "%s%s+0x%llx", i ? " < " : "", name, (unsigned long long)offset);
    }
}

/* The one thing most worth trying. */
static const char *remedy(const struct shortage *shortage, uint64_t others) {
    if (shortage->waste > shortage->live / 8)
        return "reused blocks are much larger than their requests: lower POOLCUDA_REUSE_RATIO or "
               "POOLCUDA_MAX_WASTE";
    if (others > shortage->capacity / 2)
        return "most of the device is not this program's: end other processes or use another "
               "device";
    if (shortage->requested && shortage->requested <= shortage->available)
        return "enough is free but not in one piece: allocate the large blocks first";
    return "the program holds this much itself: free the blocks of the sites above earlier, or use "
           "smaller ones";
}

void shortage_text(const struct shortage *shortage, char *buffer, size_t size) {
    struct text text = {.start = buffer, .size = size};
    uint64_t known = shortage->available + shortage->live + shortage->idle;
    uint64_t others = shortage->capacity > known ? shortage->capacity - known : 0;
    *buffer = '\0';
    add(&text, "poolcuda: out of memory in %s on device %d: ", shortage->call, shortage->device);
    if (shortage->requested)
        add(&text, "%s requested, ", human(shortage->requested).text);
    add(&text, "nothing idle left to release\n");
    add(&text, "  capacity %s = %s free", human(shortage->capacity).text,
        human(shortage->available).text);
    add(&text, " + %s live", human(shortage->live).text);
    add(&text, " + %s idle", human(shortage->idle).text);
    add(&text, " + %s of other processes, contexts and code", human(others).text);
    add(&text, "; waste %s\n", human(shortage->waste).text);
    for (unsigned i = 0; i < shortage->site_count; i++) {
        add(&text, "  %s live in %llu blocks: ", human(shortage->sites[i].bytes).text,
            (unsigned long long)shortage->sites[i].blocks);
        add_site(&text, &shortage->sites[i].key);
        add(&text, "\n");
    }
    add(&text, "  to try: %s\n", remedy(shortage, others));
}

void shortage_tell(const struct shortage *shortage) {
    static atomic_uint reported;
    char text[TEXT_SIZE];
    unsigned number = atomic_fetch_add(&reported, 1) + 1;
    shortage_text(shortage, text, sizeof text);
    stats_shortage(text);
    bool rare = number <= FIRST_REPORTS || (number & (number - 1)) == 0;
    if (log_file >= 0 && rare && write(log_file, text, strlen(text)) < 0)
        return; /* nobody to tell */
}
