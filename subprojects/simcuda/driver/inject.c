#include "inject.h"

#include "allocate.h"
#include "report.h"
#include "settings.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

/* Whether a code address lies in a module that counts. */
struct verdict {
    uintptr_t caller;
    bool counts;
    UT_hash_handle by_caller;
};

static struct verdict *verdicts;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards verdicts */

/* Reads the process's mappings instead of asking the loader, whose lock another thread may hold
 * while it waits, in a constructor, for the interposer that makes this call. */
static bool lies_in_module(uintptr_t address, const char *name) {
    FILE *maps = fopen("/proc/self/maps", "re");
    char *line = NULL;
    size_t capacity = 0;
    bool found = false;

    while (maps != NULL && !found && getline(&line, &capacity, maps) > 0) {
        char *end, *path = strchr(line, '/');
        uintptr_t begin = strtoull(line, &end, 16);

        found = address >= begin && address < strtoull(end + 1, NULL, 16) && path != NULL &&
                strstr(path, name) != NULL;
    }
    free(line);
    if (maps != NULL)
        fclose(maps);
    return found;
}

static bool counts(uintptr_t caller) {
    struct verdict *verdict;
    bool result;

    if (settings()->fail_caller == NULL)
        return true;
    pthread_mutex_lock(&mutex);
    HASH_FIND(by_caller, verdicts, &caller, sizeof caller, verdict);
    if (verdict == NULL) {
        verdict = allocate_zeroed(sizeof *verdict);
        verdict->caller = caller;
        verdict->counts = lies_in_module(caller, settings()->fail_caller);
        HASH_ADD(by_caller, verdicts, caller, sizeof caller, verdict);
    }
    result = verdict->counts; // NOLINT(clang-analyzer-unix.Malloc): the table keeps it
    pthread_mutex_unlock(&mutex);
    return result;
}

CUresult inject(enum entry_point entry, uintptr_t caller) {
    if ((settings()->fail_call == 0 && settings()->fail_caller == NULL) || !counts(caller) ||
        report_count_by_caller() != settings()->fail_call)
        return CUDA_SUCCESS;
    report_injected(entry);
    return (CUresult)settings()->fail_error;
}
