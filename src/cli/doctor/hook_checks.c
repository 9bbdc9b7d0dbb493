/* Whether the calls of a program and of its libraries reach the pool, by what ld.so says. */
#include "cli/doctor/checks.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Limiters and pools of others that hook the same functions. */
static const struct other_hook {
    const char *file, *name;
} other_hooks[] = {
    {"libvgpu.so", "HAMi's limiter"},           {"libnvshare.so", "nvshare"},
    {"libcuda-control.so", "vcuda-controller"}, {"libgemhook.so", "KubeShare's limiter"},
    {"libucm_cuda.so", "UCX's memory hooks"},
};

static const char *known_name(const char *path) {
    for (size_t i = 0; i < sizeof other_hooks / sizeof other_hooks[0]; i++)
        if (strncmp(base_name(path), other_hooks[i].file, strlen(other_hooks[i].file)) == 0)
            return other_hooks[i].name;
    return NULL;
}

static bool is_pool(const char *path) {
    return strcmp(base_name(path), "libpoolcuda.so") == 0;
}

/* libc's own dlsym, also that of the days when it had a library to itself. */
static bool is_libc(const char *path) {
    const char *name = base_name(path);
    return strncmp(name, "libc.so", 7) == 0 || strncmp(name, "libc-2", 6) == 0 ||
           strncmp(name, "libdl", 5) == 0 || strncmp(name, "ld-linux", 8) == 0;
}

static const char *short_name(const struct subject *subject, const char *path) {
    return strcmp(path, subject->path) == 0 ? subject->name : base_name(path);
}

/* Whether a call from there matters to pooling: it comes from something that reaches CUDA. */
static bool matters(const struct subject *subject, const struct binding *binding) {
    if (strcmp(binding->from, subject->path) == 0)
        return subject->routes != 0;
    if (strncmp(base_name(binding->from), "libcudart.so", 12) == 0)
        return true;
    for (size_t i = 0; i < subject->module_count; i++)
        if (strcmp(subject->modules[i].path, binding->from) == 0)
            return subject->modules[i].routes != 0;
    return false;
}

/* Look-ups and driver calls must come to the pool; a runtime call need not, since what the runtime
 * then asks of the driver does. */
static bool must_reach(const char *symbol) {
    return strcmp(symbol, "dlsym") == 0 || strncmp(symbol, "cuMem", 5) == 0 ||
           strncmp(symbol, "cuGet", 5) == 0;
}

static void tell_other(struct doctor *doctor, const struct subject *subject,
                       const struct binding *binding) {
    struct findings *findings = &doctor->findings;
    const char *known = known_name(binding->to), *from = short_name(subject, binding->from);
    bool hides = strcmp(binding->symbol, "dlsym") == 0;
    if (strcmp(binding->from, binding->to) == 0 && !hides)
        return; /* a library that is linked to use its own functions, as runtimes are */
    if (is_libc(binding->to) || strncmp(base_name(binding->to), "libcuda", 7) == 0) {
        if (!must_reach(binding->symbol))
            return;
        findings_add(findings, "hooks-missed", SEVERITY_PROBLEM,
                     "%s of %s binds to %s, past the pool", binding->symbol, from, binding->to);
        findings_cause(findings,
                       "the library is not preloaded, or the call asks for another version");
        findings_remedy(findings, "start the program by poolcuda run, without other preloads");
        return;
    }
    findings_add(findings, "interposer", hides ? SEVERITY_PROBLEM : SEVERITY_NOTE,
                 "%s of %s binds to %s%s%s%s, which comes before the pool", binding->symbol, from,
                 binding->to, known ? " (" : "", known ? known : "", known ? ")" : "");
    if (hides) {
        findings_cause(findings,
                       "who replaces dlsym has to ask libc's own for what it passes on, and "
                       "so hides every dlsym behind it");
        findings_remedy(
            findings, "put the pool first, which calls what stands behind it: LD_PRELOAD=\"%s %s\"",
            doctor->library ? doctor->library : "libpoolcuda.so", binding->to);
        findings_next(findings, "LD_PRELOAD=\"%s %s\"%s",
                      doctor->library ? doctor->library : "libpoolcuda.so", binding->to,
                      doctor->command);
    } else {
        findings_cause(findings, "calls reach the pool if it passes them on to the next one");
    }
}

/* Adds "dlsym of app" to a list, unless it is there. */
static void list_call(char *list, size_t size, const char *symbol, const char *from) {
    char call[256];
    size_t length = strlen(list);
    snprintf(call, sizeof call, "%s of %s", symbol, from);
    if (!strstr(list, call))
        snprintf(list + length, size - length, "%s%s", length ? ", " : "", call);
}

static void check_bindings(struct doctor *doctor, const struct subject *subject) {
    char reached[2048] = "";
    for (size_t i = 0; i < subject->loaded.binding_count; i++) {
        const struct binding *binding = &subject->loaded.bindings[i];
        if (!matters(subject, binding))
            continue;
        if (!is_pool(binding->to))
            tell_other(doctor, subject, binding);
        else if (must_reach(binding->symbol) || strncmp(binding->symbol, "cudaM", 5) == 0)
            list_call(reached, sizeof reached, binding->symbol, short_name(subject, binding->from));
    }
    if (*reached)
        findings_add(&doctor->findings, "hooks-reached", SEVERITY_OK, "bound to libpoolcuda.so: %s",
                     reached);
}

/* A preload that ld.so passes over; of the system's file check_preloads has told most. */
static void tell_passed_over(struct findings *findings, const char *line, bool problem) {
    bool system = strstr(line, PRELOAD_FILE " cannot be preloaded") != NULL;
    for (size_t i = 0; i < findings->count && !problem; i++)
        if (strcmp(findings->list[i].id, "preload-missing") == 0 &&
            strcmp(findings->list[i].cause, line) == 0)
            return;
    findings_add(findings, "preload-missing", problem ? SEVERITY_PROBLEM : SEVERITY_WARNING,
                 "a preload is passed over");
    findings_cause(findings, "%s", line);
    findings_remedy(findings, "mend %s", system ? PRELOAD_FILE : "or unset LD_PRELOAD");
}

/* What ld.so itself complains of. False if the pool is not loaded. */
static bool check_complaints(struct doctor *doctor, const struct subject *subject) {
    struct findings *findings = &doctor->findings;
    bool loaded = bindings_library(&subject->loaded, "libpoolcuda.so") != NULL;
    for (size_t i = 0; i < subject->loaded.complaint_count; i++) {
        const char *line = subject->loaded.complaints[i];
        bool ours = strstr(line, "libpoolcuda.so") != NULL;
        if (strstr(line, "version `GLIBC_") && ours) {
            findings_add(findings, "glibc-too-old", SEVERITY_PROBLEM,
                         "the program's glibc is too old for libpoolcuda.so");
            findings_cause(findings, "ld.so: %s", line);
            findings_remedy(findings, "run it with glibc 2.17 or newer");
        } else if (strstr(line, "cannot be preloaded")) {
            tell_passed_over(findings, line, ours && !loaded);
        } else if (strstr(line, "' not found (required by ")) {
            findings_add(findings, "version-missing", SEVERITY_PROBLEM, "%s cannot be started",
                         subject->name);
            findings_cause(findings, "ld.so: %s", line);
            findings_remedy(findings, "install the library's version that it was built for");
        } else {
            findings_add(findings, "loader", SEVERITY_PROBLEM, "ld.so cannot load %s",
                         subject->name);
            findings_cause(findings, "%s", line);
            findings_remedy(findings, "mend what ld.so names; ldd shows the same");
        }
    }
    if (!loaded && doctor->library && !subject->loaded.complaint_count) {
        findings_add(findings, "hooks-missed", SEVERITY_PROBLEM,
                     "libpoolcuda.so would not be loaded into %s", subject->name);
        findings_cause(findings, "ld.so does not name it among what it would load");
    }
    return loaded;
}

static void check_missing(struct findings *findings, const struct subject *subject) {
    for (size_t i = 0; i < subject->loaded.library_count; i++) {
        const struct loaded_library *library = &subject->loaded.libraries[i];
        if (library->path || strncmp(library->name, "libcuda.so", 10) == 0)
            continue; /* the driver has a finding of its own */
        findings_add(findings, "library-not-found", SEVERITY_PROBLEM,
                     "%s needs %s, which is not found", subject->name, library->name);
        findings_cause(findings, "without it the program does not start, pooled or not");
        findings_remedy(findings, strncmp(library->name, "libcu", 5) == 0
                                      ? "add CUDA's library folder to LD_LIBRARY_PATH"
                                      : "install it, or add its folder to LD_LIBRARY_PATH");
    }
}

/* AddressSanitizer's shared runtime refuses to start behind another preloaded library. Its static
 * one and ThreadSanitizer's do not mind. */
static void check_sanitizer(struct doctor *doctor, const struct subject *subject) {
    struct findings *findings = &doctor->findings;
    const char *name = subject->name, *allowed = getenv("ASAN_OPTIONS");
    const char *runtime = bindings_library(&subject->loaded, "libasan.so");
    const struct loaded_library *first = subject->loaded.libraries;
    if (!runtime)
        runtime = bindings_library(&subject->loaded, "libclang_rt.asan");
    if (runtime && strncmp(first->name, "linux-vdso", 10) == 0)
        first++;
    if (!runtime) {
        if (subject->file.marks.found[MARK_asan_inside])
            findings_add(findings, "sanitizer", SEVERITY_OK, "%s has AddressSanitizer inside",
                         name);
    } else if ((first->path && strcmp(first->path, runtime) == 0) ||
               (allowed && strstr(allowed, "verify_asan_link_order=0"))) {
        findings_add(findings, "sanitizer", SEVERITY_OK,
                     "%s is built with AddressSanitizer, whose runtime comes first or need not",
                     name);
    } else {
        findings_add(findings, "sanitizer", SEVERITY_PROBLEM, "%s is built with AddressSanitizer",
                     name);
        findings_cause(findings,
                       "its runtime wants to come before every other library, and ends the "
                       "program otherwise");
        findings_remedy(findings, "preload it before the pool: LD_PRELOAD=%s poolcuda run -- %s",
                        runtime, name);
        findings_next(findings, "LD_PRELOAD=%s %s run --%s", runtime, doctor->self,
                      doctor->command);
    }
}

void check_hooks(struct doctor *doctor, const struct subject *subject) {
    struct findings *findings = &doctor->findings;
    if (subject->loaded.refused) {
        findings_add(findings, "not-verified", SEVERITY_WARNING,
                     "whether the calls of %s reach the pool cannot be verified", subject->name);
        findings_cause(findings, "%s", subject->loaded.refused);
        findings_remedy(findings, "run it and read the report's line \"interception\"");
        return;
    }
    bool loaded = check_complaints(doctor, subject);
    check_missing(findings, subject);
    check_sanitizer(doctor, subject);
    if (loaded)
        check_bindings(doctor, subject);
    /* NVIDIA's runtime imports it, too. */
    if (subject->file.marks.found[MARK_imports_dlmopen] &&
        !(subject->routes & ROUTE_STATIC_RUNTIME)) {
        findings_add(findings, "dlmopen", SEVERITY_NOTE,
                     "%s can open libraries in another namespace", subject->name);
        findings_cause(findings, "dlmopen: nothing that is preloaded reaches code in there");
    }
}
