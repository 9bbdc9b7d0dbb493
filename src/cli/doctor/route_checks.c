/* How a program and its libraries reach CUDA, and of which version. */
#include "cli/doctor/checks.h"
#include "cli/doctor/versions.h"
#include "tools.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool needs(const struct elf_file *file, const char *name) {
    for (size_t i = 0; i < file->needed_count; i++)
        if (strncmp(base_name(file->needed[i]), name, strlen(name)) == 0)
            return true;
    return false;
}

/* The runtime and the driver themselves are what is reached. */
static bool is_cuda_itself(const char *path) {
    return strncmp(base_name(path), "libcudart.so", 12) == 0 ||
           strncmp(base_name(path), "libcuda.so", 10) == 0;
}

int routes_of(const struct elf_file *file, const char *path) {
    const bool *found = file->marks.found;
    bool names_driver = found[MARK_driver_text] || found[MARK_driver_text_short];
    int routes = 0;
    if (file->kind != ELF_GOOD || is_cuda_itself(path))
        return 0;
    if (found[MARK_imports_malloc] || found[MARK_imports_pitch] || found[MARK_imports_3d] ||
        found[MARK_registers_code] || found[MARK_imports_runtime] || needs(file, "libcudart.so"))
        routes |= ROUTE_SHARED_RUNTIME;
    if (found[MARK_runtime_inside] ||
        (names_driver && (found[MARK_runtime_error_text] || found[MARK_runtime_lock_text])))
        routes |= ROUTE_STATIC_RUNTIME;
    if (needs(file, "libcuda.so") && found[MARK_imports_driver])
        routes |= ROUTE_DRIVER_LINKED;
    if (!(routes & ROUTE_STATIC_RUNTIME) && names_driver && found[MARK_imports_dlsym] &&
        (found[MARK_lookup_text] || found[MARK_lookup_text_2] || found[MARK_malloc_text]))
        routes |= ROUTE_DRIVER_OPENED;
    if (!routes && found[MARK_imports_dlsym] && found[MARK_runtime_text] &&
        found[MARK_runtime_malloc_text])
        routes |= ROUTE_RUNTIME_OPENED;
    return routes;
}

/* The version of a runtime with this path, as exactly as its name or what the name links to says.
 */
static void tell_runtime_version(struct doctor *doctor, const char *path) {
    char real[PATH_MAX], version[32] = "";
    if (realpath(path, real))
        version_from_name(base_name(real), version, sizeof version);
    findings_fact(&doctor->findings, "runtime_library", path);
    findings_fact(&doctor->findings, "runtime_version", *version ? version : NULL);
    int served = version_cuda_of_driver(doctor->driver);
    if (!served || version_major(version) <= served)
        return;
    findings_add(&doctor->findings, "driver-too-old", SEVERITY_PROBLEM,
                 "the runtime is of CUDA %s, the driver %s serves CUDA %d", version, doctor->driver,
                 served);
    findings_remedy(&doctor->findings, "install a newer driver, or an older runtime");
}

static void tell_shared(struct doctor *doctor, const struct subject *subject, const char *name) {
    const char *runtime = bindings_library(&subject->loaded, "libcudart.so");
    findings_add(&doctor->findings, "shared-runtime", SEVERITY_OK,
                 "%s uses a shared CUDA runtime%s%s", name, runtime ? ": " : "",
                 runtime ? runtime : "");
    if (runtime)
        tell_runtime_version(doctor, runtime);
}

static void tell_static(struct doctor *doctor, const struct elf_file *file, const char *name) {
    bool stripped = !file->marks.found[MARK_runtime_inside];
    findings_add(&doctor->findings, "static-runtime", SEVERITY_OK,
                 "%s has a static CUDA runtime inside%s%s%s", name,
                 stripped ? ", without symbols" : "", *file->marks.toolkit ? ", of CUDA " : "",
                 file->marks.toolkit);
    findings_cause(&doctor->findings, "it finds the driver through dlsym, which the pool answers");
    findings_fact(&doctor->findings, "static_runtime_version",
                  *file->marks.toolkit ? file->marks.toolkit : NULL);
}

/* Lists the facts' routes by the names that docs/doctor.md gives them. */
static void note_routes(struct doctor *doctor, int routes) {
    static const char *const names[] = {"shared-runtime", "static-runtime", "driver-linked",
                                        "driver-opened", "runtime-opened"};
    json_t *list = json_object_get(doctor->findings.facts, "routes");
    if (!list) {
        list = json_array();
        json_object_set_new(doctor->findings.facts, "routes", list);
    }
    for (int i = 0; i < 5; i++) {
        bool known = !(routes & 1 << i);
        for (size_t j = 0; j < json_array_size(list); j++)
            known = known || strcmp(json_string_value(json_array_get(list, j)), names[i]) == 0;
        if (!known)
            json_array_append_new(list, json_string(names[i]));
    }
}

static void tell_routes(struct doctor *doctor, const struct subject *subject,
                        const struct elf_file *file, const char *name, int routes) {
    struct findings *findings = &doctor->findings;
    note_routes(doctor, routes);
    if (routes & ROUTE_SHARED_RUNTIME)
        tell_shared(doctor, subject, name);
    if (routes & ROUTE_STATIC_RUNTIME)
        tell_static(doctor, file, name);
    if (routes & ROUTE_DRIVER_LINKED)
        findings_add(findings, "driver-linked", SEVERITY_OK, "%s is linked with the driver API",
                     name);
    if (routes & ROUTE_DRIVER_OPENED) {
        findings_add(findings, "driver-opened", SEVERITY_OK,
                     "%s opens libcuda.so.1 and looks its functions up by itself", name);
        findings_cause(findings,
                       "as programs that use dlopen do, and static runtimes without symbols");
    }
    if (routes & ROUTE_RUNTIME_OPENED)
        findings_add(findings, "runtime-opened", SEVERITY_OK,
                     "%s opens a shared CUDA runtime by itself", name);
}

static bool has_runtime(int routes, const char *path) {
    return (routes & ROUTE_STATIC_RUNTIME) || strncmp(base_name(path), "libcudart.so", 12) == 0;
}

static void check_several_runtimes(struct findings *findings, const struct subject *subject) {
    size_t runtimes = has_runtime(subject->routes, subject->path);
    for (size_t i = 0; i < subject->module_count; i++)
        runtimes += has_runtime(subject->modules[i].routes, subject->modules[i].path);
    if (runtimes < 2)
        return;
    findings_add(findings, "several-runtimes", SEVERITY_NOTE,
                 "%s and its libraries bring %zu CUDA runtimes", subject->name, runtimes);
    findings_cause(findings,
                   "one pool serves them all, since it stands behind the driver's functions");
}

static bool is_nvidias(const struct elf_file *file) {
    return file->kind == ELF_GOOD && !file->marks.found[MARK_runtime_simulated] &&
           (file->marks.found[MARK_runtime_error_text] ||
            file->marks.found[MARK_runtime_lock_text]);
}

/* NVIDIA's runtime checks what driver it is on. Who uses the driver as well, by itself, may still
 * get somewhere. */
bool subject_has_nvidias_runtime(const struct subject *subject) {
    const char *runtime = bindings_library(&subject->loaded, "libcudart.so");
    bool found = (subject->routes & ROUTE_STATIC_RUNTIME) && is_nvidias(&subject->file);
    if (!found && runtime) {
        struct elf_file file = elf_file_read(runtime);
        found = is_nvidias(&file);
        elf_file_free(&file);
    }
    for (size_t i = 0; !found && !subject->routes && i < subject->module_count; i++)
        found = (subject->modules[i].routes & ROUTE_STATIC_RUNTIME) &&
                is_nvidias(&subject->modules[i].file);
    return found;
}

static void check_nvidias_runtime(struct doctor *doctor, const struct subject *subject) {
    struct findings *findings = &doctor->findings;
    if (!doctor->simulated || !subject_has_nvidias_runtime(subject))
        return;
    findings_add(findings, "runtime-refuses", SEVERITY_PROBLEM,
                 "%s cannot run on the simulated GPU: NVIDIA's runtime refuses a simulated driver",
                 subject->name);
    findings_cause(findings,
                   "each CUDA call fails with an error; on a real GPU it would be pooled");
    findings_remedy(findings,
                    "run it where NVIDIA's driver is, and take the simulated GPU's folders out "
                    "of LD_LIBRARY_PATH: unset LD_LIBRARY_PATH");
    findings_next(findings, "unset LD_LIBRARY_PATH");
}

void check_routes(struct doctor *doctor, const struct subject *subject) {
    tell_routes(doctor, subject, &subject->file, subject->name, subject->routes);
    for (size_t i = 0; i < subject->module_count; i++)
        if (subject->modules[i].routes)
            tell_routes(doctor, subject, &subject->modules[i].file,
                        base_name(subject->modules[i].path), subject->modules[i].routes);
    check_several_runtimes(&doctor->findings, subject);
    check_nvidias_runtime(doctor, subject);
}

/* A way of sharing blocks: the mark of who goes it, and of who only stands there for others. */
struct way {
    enum mark goes, stands;
};

/* Whether a module shares blocks with other processes or devices in one of these ways. */
static bool shares(const struct elf_file *file, const struct way *ways, size_t count) {
    const bool *found = file->marks.found;
    /* A runtime has every function's name among its data, used or not. */
    if (file->kind != ELF_GOOD || found[MARK_runtime_error_text])
        return false;
    for (size_t i = 0; i < count; i++)
        if (found[ways[i].goes] && !(ways[i].stands && found[ways[i].stands]))
            return true;
    return false;
}

static void tell_shared_blocks(struct findings *findings, const char *name,
                               const struct elf_file *file) {
    static const struct way ipc[] = {{MARK_runtime_ipc, MARK_defines_runtime_ipc},
                                     {MARK_driver_ipc, MARK_defines_driver_ipc}};
    static const struct way rdma[] = {{MARK_dma_buf, MARK_defines_dma_buf},
                                      {.goes = MARK_rdma},
                                      {.goes = MARK_rdma_dma_buf},
                                      {.goes = MARK_gpudirect_storage},
                                      {.goes = MARK_gdrcopy},
                                      {.goes = MARK_peer_tokens},
                                      {.goes = MARK_nvshmem}};
    if (shares(file, ipc, sizeof ipc / sizeof ipc[0])) {
        findings_add(findings, "ipc", SEVERITY_NOTE,
                     "%s shares memory with other processes (CUDA IPC)", name);
        findings_cause(findings,
                       "a block whose handle was taken is really freed, not kept for reuse, and "
                       "frees wait for the device");
    }
    if (shares(file, rdma, sizeof rdma / sizeof rdma[0])) {
        findings_add(findings, "rdma", SEVERITY_NOTE,
                     "%s lets other devices reach GPU memory (GPUDirect, RDMA)", name);
        findings_cause(findings,
                       "a block that the driver has exported is really freed, not kept for "
                       "reuse, and frees wait for the device");
    }
}

static bool is_nccl_or_like(const char *path) {
    static const char *const names[] = {"libnccl.so", "libucp.so", "libuct.so", "libfabric.so"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strncmp(base_name(path), names[i], strlen(names[i])) == 0)
            return true;
    return tools_is_direct_library(path);
}

void check_surroundings(struct doctor *doctor, const struct subject *subject) {
    struct findings *findings = &doctor->findings;
    tell_shared_blocks(findings, subject->name, &subject->file);
    for (size_t i = 0; i < subject->module_count; i++) {
        const char *path = subject->modules[i].path, *name = base_name(path);
        if (is_cuda_itself(path))
            continue;
        if (is_nccl_or_like(path)) {
            findings_add(findings, "direct-library", SEVERITY_NOTE,
                         "%s is loaded: through it other devices or processes reach GPU memory",
                         name);
            findings_cause(findings, "%s",
                           tools_is_direct_library(path)
                               ? "the pool cannot see when, so every free waits for the device, as "
                                 "natively; exported blocks are really freed, not kept for reuse"
                               : "blocks that it exports are really freed, not kept for reuse");
        } else {
            tell_shared_blocks(findings, name, &subject->modules[i].file);
        }
    }
}
