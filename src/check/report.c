/* The text of what was found, in the form of compute-sanitizer's reports. One write for each
 * report, so that those of several threads do not mix. */
#include "check/internal.h"

#include "base/format.h"
#include "base/modules.h"
#include "base/output_file.h"
#include "base/text.h"
#include "counters/stats.h"
#include "site_tag.h"

#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { REPORT_SIZE = 6144 };

/* Declares a struct text with a buffer. */
#define TEXT(name, bytes)                                                                          \
    char name##_buffer[bytes] = "";                                                                \
    struct text name = {name##_buffer, sizeof name##_buffer, 0}

/* Opens the log with the first report, so that a program without errors leaves none. */
static struct known_file log_file(struct check *check) {
    check_lock(check);
    struct known_file log = check->log;
    check_unlock(check);
    if (log.file != REPORT_NO_LOG)
        return log;
    int file = STDERR_FILENO;
    if (*check->config.check_log)
        file = output_file_append(check->config.check_log, "POOLCUDA_CHECK_LOG", check->config.say);
    check_lock(check);
    bool first = check->log.file == REPORT_NO_LOG;
    if (first)
        check->log = output_file_know(file);
    log = check->log;
    check_unlock(check);
    if (!first && file != STDERR_FILENO) /* another thread was faster */
        close(file);
    return log;
}

/* A number as people read it: 1,024. */
struct grouped {
    char text[32];
};

static struct grouped grouped(uint64_t number) {
    char digits[32];
    struct grouped grouped;
    int length = format(digits, sizeof digits, "%llu", (unsigned long long)number), at = 0;
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0)
            grouped.text[at++] = ',';
        grouped.text[at++] = digits[i];
    }
    grouped.text[at] = '\0';
    return grouped;
}

/* `number` and `rest` stand where the failure's line has a number, and at its end. */
static void add_header(struct text *text, enum check_failure_kind kind, const char *number,
                       const char *rest) {
    switch (kind) {
#define FAILURE(name, before, after)                                                               \
    case CHECK_FAILURE_##name:                                                                     \
        text_add(text, "========= " before "%s" after "%s\n", number, rest);                       \
        break;
#include "check/failures.def"
#undef FAILURE
    }
}

/* Adds a site, nothing for one that there is not. */
static void add_site(struct text *text, const char *title, const struct call_site *site) {
    const char *tag = site->depth ? site_tag_name(site) : NULL;
    if (!site->depth)
        return;
    text_add(text, "=========     Saved host backtrace %s\n", title);
    if (tag)
        text_add(text, "=========         Host Frame: %s\n", tag);
    for (uintptr_t i = 0; !tag && i < site->depth; i++) {
        char name[MODULE_PATH_MAX];
        uint64_t offset = modules_name(site->frames[i], name, sizeof name);
        text_add(text, "=========         Host Frame: [0x%llx] in %s\n", (unsigned long long)offset,
                 name);
    }
}

static void add_block_sites(struct text *text, const struct check_block *block) {
    add_site(text, "at allocation time", &block->allocated);
    add_site(text, "at free time", &block->freed);
}

static void add_inside(struct text *text, const struct check_block *block, CUdeviceptr address) {
    text_add(text, "%s bytes inside the allocation at 0x%llx of size %s bytes\n",
             grouped(address - block->user).text, (unsigned long long)block->user,
             grouped(block->bytes).text);
}

/* How far the address, in a zone, lies from the block. */
static void add_distance(struct text *text, const struct check_block *block, CUdeviceptr address) {
    bool before = address < block->user;
    uint64_t distance = before ? block->user - address : address - block->user - block->bytes + 1;
    text_add(text,
             "=========     and is %s bytes %s the nearest allocation at 0x%llx of size %s bytes\n",
             grouped(distance).text, before ? "before" : "after", (unsigned long long)block->user,
             grouped(block->bytes).text);
}

static void add_moment(struct text *text, const struct check_block *block,
                       const struct check_occasion *occasion) {
    text_add(text, "=========     Found ");
    switch (occasion->moment) {
    case CHECK_AT_FREE:
        text_add(text, "when %s allocation was freed\n",
                 occasion->freed == block->base ? "the" : "another");
        break;
    case CHECK_AT_WAIT:
        text_add(text, "after the call to %s\n", occasion->call);
        break;
    case CHECK_AT_LAUNCH:
        text_add(text, "after the call to %s%s%s\n", occasion->call,
                 *occasion->kernel ? " of " : "", occasion->kernel);
        add_site(text, "at the call", &occasion->at);
        break;
    case CHECK_AT_REUSE:
        text_add(text, "before the memory was used again\n");
        break;
    case CHECK_AT_END:
        text_add(text, "when its context ended\n");
        break;
    }
}

static void put(struct check *check, const struct text *text) {
    if (!text->length)
        return;
    struct known_file log = log_file(check);
    if (!output_file_is(&log) || !output_file_write(log.file, text->start, text->length))
        stats_add(STATS_check_lost, 1);
}

/* Counts an error, before its text is made. */
static void begin(struct check *check, struct text *text) {
    check_lock(check);
    bool first = check->errors++ == 0;
    check_unlock(check);
    stats_add(STATS_check_errors, 1);
    if (first)
        text_add(text, "========= POOLCUDA CHECK\n");
}

static void end(struct check *check, struct text *text) {
    text_add(text, "=========\n");
    put(check, text);
    if (check->config.check_abort)
        syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGABRT);
}

void report_write(struct check *check, const struct check_block *block, CUdeviceptr address,
                  uint64_t count, const struct check_occasion *occasion) {
    lock_check_none();
    TEXT(text, REPORT_SIZE);
    bool inside = address >= block->user && address - block->user < block->bytes;
    begin(check, &text);
    add_header(&text, CHECK_FAILURE_write, grouped(count).text, "");
    text_add(&text, "=========     Address 0x%llx is ", (unsigned long long)address);
    if (inside) {
        text_add(&text, "inside freed memory: ");
        add_inside(&text, block, address);
    } else {
        text_add(&text, "out of bounds\n");
        add_distance(&text, block, address);
    }
    add_moment(&text, block, occasion);
    add_block_sites(&text, block);
    end(check, &text);
}

/* What is wrong with a free of a pointer into the block's memory. */
static enum check_failure_kind free_failure(const struct check_block *block, CUdeviceptr pointer) {
    if (!block || pointer < block->user || pointer - block->user >= block->bytes)
        return CHECK_FAILURE_foreign_free;
    return block->state != CHECK_LIVE && pointer == block->user ? CHECK_FAILURE_double_free
                                                                : CHECK_FAILURE_inside_free;
}

void report_free(struct check *check, const struct check_block *block, CUdeviceptr pointer,
                 const struct call_site *at) {
    lock_check_none();
    TEXT(text, REPORT_SIZE);
    enum check_failure_kind kind = free_failure(block, pointer);
    begin(check, &text);
    add_header(&text, kind, "", "");
    text_add(&text, "=========     Address 0x%llx is ", (unsigned long long)pointer);
    if (kind == CHECK_FAILURE_foreign_free)
        text_add(&text, "in no allocation that is checked\n");
    else
        add_inside(&text, block, pointer);
    add_site(&text, "at the call", at);
    if (block)
        add_block_sites(&text, block);
    end(check, &text);
}

void report_leak(struct check *check, const struct check_block *block) {
    lock_check_none();
    TEXT(text, REPORT_SIZE);
    char address[24];
    format(address, sizeof address, "0x%llx", (unsigned long long)block->user);
    begin(check, &text);
    check_lock(check);
    check->leaked++;
    check->leaked_bytes += block->bytes;
    check_unlock(check);
    add_header(&text, CHECK_FAILURE_leak, grouped(block->bytes).text, address);
    add_block_sites(&text, block);
    end(check, &text);
}

uint64_t report_end(struct check *check, const struct check_unverified *unverified) {
    lock_check_none();
    TEXT(text, REPORT_SIZE);
    check_lock(check);
    uint64_t errors = check->errors, leaked = check->leaked, leaked_bytes = check->leaked_bytes;
    check_unlock(check);
    if (leaked)
        text_add(&text, "========= LEAK SUMMARY: %s bytes leaked in %s allocations\n",
                 grouped(leaked_bytes).text, grouped(leaked).text);
    if (unverified->freed || unverified->live)
        text_add(&text,
                 "========= %s freed blocks (%s bytes) and %s live blocks were not verified: the "
                 "program ended without cudaDeviceReset\n",
                 grouped(unverified->freed).text, grouped(unverified->freed_bytes).text,
                 grouped(unverified->live).text);
    if (errors || text.length)
        text_add(&text, "========= ERROR SUMMARY: %s error%s\n", grouped(errors).text,
                 errors == 1 ? "" : "s");
    put(check, &text);
    return errors;
}
