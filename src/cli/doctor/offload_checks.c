/* What the doctor checks of OpenMP's and OpenACC's offloading: whether a program has work for an
 * NVIDIA GPU, and whether its compiler's runtime finds the plugin that opens the driver. */
#include "cli/doctor/checks.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static const enum mark regions[] = {MARK_gomp_target, MARK_goacc_parallel, MARK_goacc_data, MARKS};
static const enum mark device_memory[] = {MARK_gomp_data,
                                          MARK_gomp_enter,
                                          MARK_goacc_data,
                                          MARK_goacc_enter,
                                          MARK_device_alloc,
                                          MARK_acc_alloc,
                                          MARKS};
static const enum mark device_code[] = {MARK_nvptx_text, MARK_nvptx_triple, MARK_nvptx_triple_2,
                                        MARK_cubin_text, MARKS};

/* What of a program and its libraries is meant for a device. */
struct offload {
    bool regions;   /* code that would run there, if it is in the program for that device */
    bool memory;    /* memory there, with or without code */
    bool gcc, llvm; /* code for NVIDIA's GPUs, registered with that runtime */
};

static void look_at_offload(const struct elf_file *file, struct offload *offload) {
    bool code = elf_file_has_any(file, device_code);
    offload->regions = offload->regions || elf_file_has_any(file, regions);
    offload->memory = offload->memory || elf_file_has_any(file, device_memory);
    if (file->kind != ELF_GOOD)
        return;
    offload->gcc = offload->gcc || (code && file->marks.found[MARK_gomp_register]);
    offload->llvm = offload->llvm || (code && file->marks.found[MARK_tgt_register]);
    offload->regions = offload->regions || file->marks.found[MARK_tgt_register];
}

static bool is_runtime(const char *path) {
    return strncmp(base_name(path), "libgomp.so", 10) == 0 ||
           strncmp(base_name(path), "libomptarget", 12) == 0 ||
           strncmp(base_name(path), "libomp.so", 9) == 0;
}

/* The plugin through which a runtime opens the driver: beside the runtime, or as ld.so finds it. */
static char *find_plugin(const struct subject *subject, const char *runtime, const char *plugin) {
    char beside[PATH_MAX];
    const char *path = bindings_library(&subject->loaded, runtime);
    if (path &&
        (size_t)snprintf(beside, sizeof beside, "%.*s%s", (int)(base_name(path) - path), path,
                         plugin) < sizeof beside &&
        access(beside, R_OK) == 0)
        return strdup(beside);
    return find_library(plugin, subject->path);
}

static bool is_switched_off(struct findings *findings) {
    static const struct {
        const char *name, *value;
    } off[] = {{"OMP_TARGET_OFFLOAD", "disabled"}, {"ACC_DEVICE_TYPE", "host"}};
    for (size_t i = 0; i < sizeof off / sizeof off[0]; i++) {
        const char *value = getenv(off[i].name);
        if (!value || strcasecmp(value, off[i].value) != 0)
            continue;
        findings_add(findings, "offload-off", SEVERITY_PROBLEM,
                     "%s=%s keeps everything on the processor", off[i].name, value);
        findings_remedy(findings, "unset %s", off[i].name);
        findings_next(findings, "unset %s", off[i].name);
        return true;
    }
    return false;
}

static void tell_offload(struct doctor *doctor, const struct subject *subject, const char *runtime,
                         const char *plugin, const char *package) {
    struct findings *findings = &doctor->findings;
    char *path = find_plugin(subject, runtime, plugin);
    if (is_switched_off(findings)) {
        free(path);
        return;
    }
    if (path) {
        findings_add(findings, "offload", SEVERITY_OK,
                     "%s has work for a GPU (OpenMP or OpenACC): %s opens the driver",
                     subject->name, path);
        findings_cause(findings, "it finds CUDA through dlsym, which the pool answers");
        check_opened(doctor, path, NULL);
        doctor->cuda_seen = true;
    } else {
        findings_add(findings, "offload-plugin-missing", SEVERITY_PROBLEM,
                     "%s has work for a GPU (OpenMP or OpenACC), but %s is not found",
                     subject->name, plugin);
        findings_cause(findings,
                       "without this plugin the compiler's runtime does not open the driver: "
                       "everything runs on the processor, and there is nothing to pool");
        findings_remedy(findings, "install it: apt-get install %s", package);
        findings_next(findings, "apt-get install %s", package);
    }
    free(path);
}

void check_offload(struct doctor *doctor, const struct subject *subject) {
    struct offload offload = {false};
    look_at_offload(&subject->file, &offload);
    for (size_t i = 0; i < subject->module_count; i++)
        if (!is_runtime(subject->modules[i].path))
            look_at_offload(&subject->modules[i].file, &offload);
    bool gomp = bindings_library(&subject->loaded, "libgomp.so") != NULL;
    bool nvhpc = bindings_library(&subject->loaded, "libaccdevice") != NULL;
    if (offload.llvm) {
        tell_offload(doctor, subject, "libomptarget.so", "libomptarget.rtl.cuda.so", "libomp-dev");
    } else if (gomp && (offload.gcc || offload.memory)) {
        char *plugin = find_plugin(subject, "libgomp.so", "libgomp-plugin-nvptx.so.1");
        if (plugin || offload.gcc)
            tell_offload(doctor, subject, "libgomp.so", "libgomp-plugin-nvptx.so.1",
                         "libgomp-plugin-nvptx1");
        free(plugin);
    } else if (nvhpc) {
        if (is_switched_off(&doctor->findings))
            return;
        findings_add(&doctor->findings, "offload", SEVERITY_OK,
                     "%s has work for a GPU (NVIDIA's HPC compilers): its runtime opens the driver",
                     subject->name);
        doctor->cuda_seen = true;
    }
    if (offload.regions && !offload.llvm && !offload.gcc && !doctor->cuda_seen) {
        findings_add(&doctor->findings, "offload-host", SEVERITY_NOTE,
                     "%s has regions for a device, but no code in it for NVIDIA's GPUs",
                     subject->name);
        findings_cause(&doctor->findings, "they run on the processor");
    }
}
