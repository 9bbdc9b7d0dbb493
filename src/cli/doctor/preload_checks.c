/* /etc/ld.so.preload: what it names, and what a container has lost where another file has taken its
 * place. ld.so itself is asked which of the names it takes. */
#include "cli/doctor/bindings.h"
#include "cli/doctor/checks.h"
#include "cli/doctor/elf_file.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* HAMi's device plugin gives a container limits by these variables, this library, which keeps them,
 * and a file of its own that names it; it gives no file where the last variable is true. */
static const char limiter[] = "libvgpu.so";
static const char *const limits[] = {"CUDA_DEVICE_MEMORY_LIMIT", "CUDA_DEVICE_SM_LIMIT"};
static const char limits_off[] = "CUDA_DISABLE_CONTROL";

/* What ld.so loads into this very command, which takes that file like every program. */
static struct bindings ask_loader(void) {
    char self[PATH_MAX]; /* which /proc/self/exe is not to ld.so */
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    self[length > 0 ? length : 0] = '\0';
    struct elf_file file = elf_file_read(self);
    struct bindings loaded =
        bindings_ask(file.interpreter ? file.interpreter : "", self, getenv("LD_PRELOAD"));
    elf_file_free(&file);
    return loaded;
}

/* ld.so's line about a name of that file; NULL: it loads the library. */
static const char *complaint_about(const struct bindings *loaded, const char *name) {
    char start[PATH_MAX + 64];
    snprintf(start, sizeof start, "object '%s' from " PRELOAD_FILE " cannot be preloaded", name);
    for (size_t i = 0; i < loaded->complaint_count; i++)
        if (strstr(loaded->complaints[i], start))
            return loaded->complaints[i];
    return NULL;
}

static void tell_name(struct findings *findings, const struct bindings *loaded, const char *name) {
    const char *complaint = complaint_about(loaded, name);
    if (!complaint) {
        findings_add(findings, "system-preload", SEVERITY_NOTE,
                     PRELOAD_FILE " preloads %s into every program, behind the pool", name);
        return;
    }
    findings_add(findings, "preload-missing", SEVERITY_WARNING,
                 PRELOAD_FILE " names %s, which ld.so passes over", name);
    findings_cause(findings, "%s", complaint);
    findings_remedy(findings, "mend " PRELOAD_FILE);
}

/* Tells each name; returns whether one of them is the limiter's. */
static bool tell_names(struct findings *findings, const struct bindings *loaded) {
    char *line = NULL;
    size_t size = 0;
    bool limiter_named = false;
    FILE *file = fopen(PRELOAD_FILE, "re");
    while (file && getline(&line, &size, file) > 0) {
        char *rest = line;
        line[strcspn(line, "#")] = '\0';
        for (char *name; (name = strsep(&rest, " \t\r\n:"));)
            if (*name) {
                limiter_named = limiter_named || strstr(name, limiter);
                tell_name(findings, loaded, name);
            }
    }
    if (file)
        fclose(file);
    free(line);
    return limiter_named;
}

/* How many files are mounted on it, one over the other; see proc_pid_mountinfo(5). */
static size_t count_mounts(void) {
    char *line = NULL, place[64];
    size_t size = 0, count = 0;
    FILE *file = fopen("/proc/self/mountinfo", "re");
    while (file && getline(&line, &size, file) > 0)
        count +=
            sscanf(line, "%*s %*s %*s %*s %63s", place) == 1 && strcmp(place, PRELOAD_FILE) == 0;
    if (file)
        fclose(file);
    free(line);
    return count;
}

static void tell_mounts(struct findings *findings, size_t count) {
    if (count == 1)
        findings_add(findings, "preload-mounted", SEVERITY_NOTE,
                     "%s comes from outside this container: a file of the image is hidden",
                     PRELOAD_FILE);
    if (count < 2)
        return;
    findings_add(findings, "preload-hidden", SEVERITY_WARNING,
                 "%zu files are mounted on %s, one over the other", count, PRELOAD_FILE);
    findings_cause(findings, "ld.so reads the last one: libraries that the others name, such as "
                             "those that keep a container's limits, are not preloaded");
    findings_remedy(findings, "mount one file that names them all, or none for the pool and set "
                              "LD_PRELOAD instead");
}

/* One without a value is none. */
static const char *given_limit(void) {
    for (char *const *entry = environ; *entry; entry++)
        for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
            const char *value = strchr(*entry, '=');
            if (strncmp(*entry, limits[i], strlen(limits[i])) == 0 && value && value[1])
                return limits[i];
        }
    return NULL;
}

/* Whether the limiter is loaded; where ld.so cannot be asked, whether something names it. */
static bool is_limited(const struct bindings *loaded, bool named) {
    const char *preload = getenv("LD_PRELOAD");
    return loaded->refused ? named || (preload && strstr(preload, limiter))
                           : bindings_library(loaded, limiter) != NULL;
}

static void tell_lost_limits(struct findings *findings, bool named) {
    const char *limit = given_limit(), *off = getenv(limits_off);
    if (!limit || (off && (strcmp(off, "1") == 0 || strcasecmp(off, "true") == 0)))
        return;
    findings_add(findings, "limits-lost", SEVERITY_WARNING,
                 "%s... is set, but %s, which keeps that limit, is not preloaded", limit, limiter);
    if (named) {
        findings_cause(findings, "ld.so passes over the one that " PRELOAD_FILE
                                 " names, and programs get the whole GPU");
        findings_remedy(findings, "give this container the library that the file names");
        return;
    }
    findings_cause(findings, "where something else is mounted on " PRELOAD_FILE
                             ", the file that HAMi puts there is replaced, and programs get the "
                             "whole GPU");
    findings_remedy(findings,
                    "leave that file to HAMi, and preload the pool by LD_PRELOAD, which is "
                    "loaded in front of it");
}

void check_preloads(struct findings *findings) {
    struct bindings loaded = ask_loader();
    bool named = tell_names(findings, &loaded);
    tell_mounts(findings, count_mounts());
    if (!is_limited(&loaded, named))
        tell_lost_limits(findings, named);
    bindings_free(&loaded);
}
