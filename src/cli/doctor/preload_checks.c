/* /etc/ld.so.preload: what it names, and what a container has lost where another file has taken its
 * place. */
#include "cli/doctor/checks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static const char preload_file[] = "/etc/ld.so.preload";
/* HAMi's device plugin gives a container limits by these variables, this library, which keeps them,
 * and a file of its own that names it; it gives no file where the last variable is true. */
static const char limiter[] = "libvgpu.so";
static const char *const limits[] = {"CUDA_DEVICE_MEMORY_LIMIT", "CUDA_DEVICE_SM_LIMIT"};
static const char limits_off[] = "CUDA_DISABLE_CONTROL";

/* Tells each line; returns whether one of them names the limiter. */
static bool tell_lines(struct findings *findings) {
    char line[1024];
    bool limited = false;
    FILE *file = fopen(preload_file, "re");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "#\r\n")] = '\0';
        if (!line[strspn(line, " \t:")])
            continue;
        limited = limited || strstr(line, limiter);
        findings_add(findings, "system-preload", SEVERITY_NOTE,
                     "%s preloads %s into every program, behind the pool", preload_file, line);
    }
    if (file)
        fclose(file);
    return limited;
}

/* How many files are mounted on it, one over the other; see proc_pid_mountinfo(5). */
static size_t count_mounts(void) {
    char *line = NULL, place[64];
    size_t size = 0, count = 0;
    FILE *file = fopen("/proc/self/mountinfo", "re");
    while (file && getline(&line, &size, file) > 0)
        count +=
            sscanf(line, "%*s %*s %*s %*s %63s", place) == 1 && strcmp(place, preload_file) == 0;
    if (file)
        fclose(file);
    free(line);
    return count;
}

static void tell_mounts(struct findings *findings, size_t count) {
    if (count == 1)
        findings_add(findings, "preload-mounted", SEVERITY_NOTE,
                     "%s comes from outside this container: a file of the image is hidden",
                     preload_file);
    if (count < 2)
        return;
    findings_add(findings, "preload-hidden", SEVERITY_WARNING,
                 "%zu files are mounted on %s, one over the other", count, preload_file);
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

static void tell_lost_limits(struct findings *findings, bool limited) {
    const char *limit = given_limit(), *preload = getenv("LD_PRELOAD"), *off = getenv(limits_off);
    bool wanted_off = off && (strcmp(off, "1") == 0 || strcasecmp(off, "true") == 0);
    if (!limit || limited || wanted_off || (preload && strstr(preload, limiter)))
        return;
    findings_add(findings, "limits-lost", SEVERITY_WARNING,
                 "%s... is set, but nothing preloads %s, which keeps that limit", limit, limiter);
    findings_cause(findings, "where something else is mounted on /etc/ld.so.preload, the file that "
                             "HAMi puts there is replaced, and programs get the whole GPU");
    findings_remedy(findings,
                    "leave that file to HAMi, and preload the pool by LD_PRELOAD, which is "
                    "loaded in front of it");
}

void check_preloads(struct findings *findings) {
    bool limited = tell_lines(findings);
    tell_mounts(findings, count_mounts());
    tell_lost_limits(findings, limited);
}
