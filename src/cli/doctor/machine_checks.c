/* What the doctor checks of the machine and its environment. */
#include "cli/doctor/checks.h"
#include "cli/doctor/driver_functions.h"
#include "cli/doctor/versions.h"
#include "cli/simulated.h"
#include "options/options.h"
#include "tools.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* options_parse has no state to hand on. */
static struct findings *option_findings;

static void say_option(const char *line) {
    static const char opening[] = "poolcuda: ";
    if (strncmp(line, opening, sizeof opening - 1) == 0)
        line += sizeof opening - 1;
    findings_add(option_findings, "option", SEVERITY_WARNING, "%s", line);
    findings_cause(option_findings, "the library ignores what it does not understand");
    findings_remedy(option_findings, "poolcuda options lists every name and its values");
}

static void check_options(struct findings *findings) {
    struct options options;
    option_findings = findings;
    options_parse(&options, environ, say_option);
    if (!options.disable)
        return;
    findings_add(findings, "disabled", SEVERITY_PROBLEM,
                 "POOLCUDA_DISABLE is set: the library does nothing");
    findings_remedy(findings, "unset POOLCUDA_DISABLE");
    findings_next(findings, "unset POOLCUDA_DISABLE");
}

static void say_nothing(const char *line) {
    (void)line;
}

bool disables(const char *value) {
    struct options options;
    char *setting = NULL;
    if (asprintf(&setting, "POOLCUDA_DISABLE=%s", value) < 0)
        return false;
    char *environment[] = {setting, NULL};
    options_parse(&options, environment, say_nothing);
    free(setting);
    return options.disable;
}

bool check_disabled(struct doctor *doctor, const char *who) {
    struct options options;
    options_parse(&options, environ, say_nothing);
    if (!options.disable || findings_has(&doctor->findings, "disabled"))
        return options.disable;
    findings_add(&doctor->findings, "disabled", SEVERITY_PROBLEM,
                 "%s sets POOLCUDA_DISABLE: the library does nothing", who);
    findings_remedy(&doctor->findings, "take POOLCUDA_DISABLE out of it");
    return true;
}

static void check_tools(struct findings *findings) {
    struct tools_found found = {{false}};
    const char *last = "";
    tools_look_environment(environ, &found);
    const char *checker = tools_memory_checker(&found);
    if (checker) {
        findings_add(findings, "memory-checker", SEVERITY_PROBLEM, "%s is set to watch programs",
                     checker);
        findings_cause(findings,
                       "it could not judge recycled memory, so nothing is pooled under it");
        findings_remedy(findings, "take it out of LD_PRELOAD and CUDA_INJECTION64_PATH to pool");
    }
    for (size_t i = 0; i < TOOLS; i++) {
        if (!found.found[i] || checker || strcmp(tools_name(i), last) == 0)
            continue;
        last = tools_name(i);
        findings_add(findings, "profiler", SEVERITY_NOTE, "%s is set to watch programs", last);
        findings_cause(findings,
                       "it sees fewer calls than the program makes: the pool answers most");
    }
}

static char *read_kernel_driver(char *version, size_t size) {
    char line[512] = "";
    FILE *file = fopen("/proc/driver/nvidia/version", "re");
    if (!file)
        return NULL;
    bool found = fgets(line, sizeof line, file) && version_from_proc(line, version, size);
    fclose(file);
    return found ? version : NULL;
}

/* The path under which ld.so finds libcuda.so.1 for a program that opens it; NULL if it does not.
 */
static char *find_driver(const char *interpreter, const char *program) {
    struct bindings found = bindings_ask(interpreter, program, "libcuda.so.1");
    const char *path = bindings_library(&found, "libcuda.so");
    char *copy = path ? strdup(path) : NULL;
    bindings_free(&found);
    return copy;
}

static void tell_newer_driver(struct findings *findings, const char *path) {
    struct driver_functions found = driver_functions_look(path);
    if (!found.unknown || found.driver < found.table)
        return;
    findings_add(findings, "driver-newer", SEVERITY_NOTE,
                 "this driver is newer than the pool's table of driver functions (CUDA %u.%u): "
                 "%zu function%s unknown, handled with care",
                 found.table / 1000, found.table % 1000 / 10, found.unknown,
                 found.unknown == 1 ? "" : "s");
    findings_cause(findings,
                   "what they do is not known: before a call of one an owed wait is made, "
                   "after it the next free waits; the report counts the calls");
    findings_remedy(findings, "look for a newer poolcuda if a program calls many of them");
}

static void tell_driver(struct doctor *doctor, const char *path) {
    struct findings *findings = &doctor->findings;
    char real[PATH_MAX], kernel[32], *library = doctor->driver;
    struct elf_file file = elf_file_read(path);
    bool simulated = file.kind == ELF_GOOD && file.marks.found[MARK_simulated];
    const char *loaded = read_kernel_driver(kernel, sizeof kernel);
    elf_file_free(&file);
    /* libcuda.so.1 itself bears the number of its interface only. */
    if (realpath(path, real) &&
        version_from_name(base_name(real), library, sizeof doctor->driver) && !strchr(library, '.'))
        *library = '\0';
    findings_fact(findings, "driver_library", path);
    findings_fact(findings, "driver_library_version", *library ? library : NULL);
    findings_fact(findings, "kernel_driver_version", loaded);
    doctor->simulated = simulated;
    tell_newer_driver(findings, path);
    if (simulated) {
        findings_add(findings, "driver-simulated", SEVERITY_NOTE,
                     "libcuda.so.1 is the simulated GPU's: %s", path);
        return;
    }
    findings_add(findings, "driver-library", SEVERITY_OK,
                 "the driver's library is there: %s, version %s", path,
                 *library ? library : "unknown");
    if (!loaded) {
        findings_add(findings, "kernel-driver-missing", SEVERITY_WARNING,
                     "no NVIDIA driver is loaded in the kernel");
        findings_cause(findings,
                       "/proc/driver/nvidia/version is not there; under WSL that is normal");
        findings_remedy(findings,
                        "without a GPU CUDA programs fail of themselves; in a container start "
                        "it with its GPUs (docker run --gpus all)");
    } else if (*library && strcmp(library, loaded) != 0) {
        findings_add(findings, "driver-mismatch", SEVERITY_WARNING,
                     "libcuda.so.1 is of version %s and the kernel's driver of %s", library,
                     loaded);
        findings_cause(findings,
                       "after an update of the driver CUDA fails until the kernel's part is "
                       "loaded anew; NVIDIA's forward compatibility package is meant to differ");
        findings_remedy(findings, "reboot, or unload and load the nvidia modules");
    } else {
        findings_add(findings, "kernel-driver", SEVERITY_OK, "the kernel's driver is of version %s",
                     loaded);
    }
}

/* What to do without a driver. The simulated GPU is named only where it may be a way out. */
static void tell_ways_to_a_driver(struct doctor *doctor, bool may_simulate) {
    static const char ways[] = "install NVIDIA's driver or start the container with its GPUs";
    char simulated[PATH_MAX];
    if (may_simulate && simulated_driver(simulated, sizeof simulated))
        findings_remedy(&doctor->findings,
                        "%s; to try things out, programs of the driver API run on a simulated GPU: "
                        "%s run --simulate --%s",
                        ways, doctor->self, *doctor->command ? doctor->command : " PROGRAM");
    else
        findings_remedy(&doctor->findings, "%s", ways);
}

void check_driver(struct doctor *doctor, const char *interpreter, const char *program,
                  bool may_simulate) {
    if (doctor->driver_told || !bindings_trusts(interpreter))
        return;
    doctor->driver_told = true;
    char *path = find_driver(interpreter, program);
    if (path) {
        tell_driver(doctor, path);
    } else {
        char kernel[32];
        const char *loaded = read_kernel_driver(kernel, sizeof kernel);
        findings_fact(&doctor->findings, "driver_library", NULL);
        findings_fact(&doctor->findings, "kernel_driver_version", loaded);
        findings_add(&doctor->findings, "driver-missing", SEVERITY_PROBLEM,
                     "libcuda.so.1, the driver's library, is not found%s",
                     loaded ? ", although the kernel's driver is loaded" : "");
        findings_cause(&doctor->findings,
                       "ld.so finds it neither in LD_LIBRARY_PATH nor in the program's own "
                       "or the system's folders: CUDA programs cannot work here");
        tell_ways_to_a_driver(doctor, may_simulate);
    }
    free(path);
}

void check_machine(struct doctor *doctor) {
    struct findings *findings = &doctor->findings;
    findings_fact(findings, "library", doctor->library);
    findings_fact(findings, "version", POOLCUDA_VERSION);
    if (doctor->library) {
        findings_add(findings, "library", SEVERITY_OK, "the pool is there: %s", doctor->library);
    } else {
        findings_add(findings, "library-missing", SEVERITY_PROBLEM, "libpoolcuda.so is not found");
        findings_cause(findings,
                       "it is neither where it was installed together with this command nor in its "
                       "build folder, or its path has spaces and no link to it can be made");
        findings_remedy(findings, "install poolcuda again as a whole (ninja -C build install)");
    }
    check_options(findings);
    check_tools(findings);
    check_preloads(findings);
}
