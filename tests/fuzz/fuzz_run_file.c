/* The reader of reports as JSON on any file: what it accepts can be reported and merged without
 * reading outside. */
#include "cli/merge.h"
#include "cli/run_file.h"
#include "report/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t reported;

/* A report with one of everything, in which the input makes changes. */
static const char sound[] =
    "{\"format\": \"poolcuda report\", \"version\": 1, \"runs\": 1,"
    "\"process\": {\"pid\": 7, \"command\": \"/bin/app\", \"host\": \"node\", \"rank\": 3,"
    "\"finished\": true, \"last_ns\": 5, \"options\": \"A=1\", \"shortage\": \"none\\nleft\\n\","
    "\"command_line\": {\"too_long\": false, \"folder\": \"/w\", \"program\": \"app\","
    "\"arguments\": [\"app\", {\"hex\": \"ff0a\"}]}},"
    "\"counters\": {\"malloc_calls\": 9, \"malloc_hits\": 8, \"idle_bytes\": 4096},"
    "\"waited_because_of\": {\"pinned\": 2}, \"waits_made_before\": {\"cuMemcpy\": 4},"
    "\"interception\": {\"dlsym\": 1}, \"bypassed\": [{\"module\": \"m\", \"name\": \"n\"}],"
    "\"devices\": [{\"device\": 0, \"capacity_bytes\": 99, \"samples\": [[1,2,3,4,5,6]],"
    "\"map\": {\"time_ns\": 1, \"blocks\": [[1,2,0,1]]}}],"
    "\"modules\": [{\"path\": \"\"}, {\"path\": \"/bin/app\", \"build_id\": \"00ff\"}],"
    "\"sites\": [{\"id\": 1, \"allocations\": 9, \"frames\": [{\"module\": 1, \"offset\": 64}]},"
    "{\"id\": 2, \"allocations\": 1, \"live_blocks\": 1, \"tag\": \"mine\"}]}";

static void write_nowhere(const char *text, size_t length, void *state) {
    (void)text;
    (void)state;
    reported += length;
}

static void use(const struct stats_page *page) {
    struct merge merge;
    if (!merge_init(&merge))
        return;
    if (merge_add(&merge, page, "one") && merge_add(&merge, page, "other")) {
        stats_report(merge.page, STATS_TEXT, NULL, SIZE_MAX, write_nowhere, NULL);
        stats_report(page, STATS_JSON, NULL, SIZE_MAX, write_nowhere, NULL);
    }
    merge_free(&merge);
}

/* Changes: two bytes of place, one of length, then as many bytes. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char text[sizeof sound];
    char path[64], error[512];
    struct stats_page *page;
    memcpy(text, sound, sizeof sound);
    while (size > 3) {
        size_t at = ((size_t)data[0] << 8 | data[1]) % (sizeof sound - 1), length = data[2] % 16;
        data += 3;
        size -= 3;
        for (size_t i = 0; i < length && size; i++, data++, size--)
            if (at + i < sizeof sound - 1)
                text[at + i] = (char)*data;
    }
    int file = memfd_create("report", 0);
    if (file < 0 || write(file, text, sizeof sound - 1) != sizeof sound - 1)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    if (run_file_read(path, &page, error, sizeof error) > RUN_FILE_TEXT) {
        if (!strstr(error, path) || strchr(error, '\n'))
            abort();
    } else if (page) {
        use(page);
        stats_page_destroy(page);
    }
    close(file);
    return 0;
}
