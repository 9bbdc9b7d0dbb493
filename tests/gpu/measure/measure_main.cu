// Answers, on a real GPU, the questions about CUDA that its documentation leaves open. Prints lines
// "measure N.x: question: answer". Each section runs in a process of its own with a time limit, so
// that a faulting kernel, a lost context or a hang spoils no other answer.
//
// measure            all sections
// measure --list     their names
// measure NAME...    these, e.g. measure capture-calls
#include "measure.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <dlfcn.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static const struct section {
    const char *name;
    const char *answers;
    void (*run)();
    int limit_s;
} sections[] = {
    {"free-waits", "1, 10", measure_free_waits, 40},
    {"alloc-waits", "10", measure_alloc_waits, 20},
    {"peer-copy-and-no-context", "10", measure_peer_copy_and_no_context, 20},
    {"legacy-event", "2", measure_legacy_event, 20},
    {"context-event", "3", measure_context_event, 20},
    {"idle-costs", "4", measure_idle_costs, 30},
    {"runtime-costs", "7", measure_runtime_costs, 20},
    {"current-context", "12", measure_current_context, 20},
    {"capture-calls", "5", measure_capture_calls, 40},
    {"capture-free", "9", measure_capture_free, 20},
    {"ranges", "6", measure_ranges, 20},
    {"zeroing", "6", measure_zeroing, 20},
    {"page-accounting", "8", measure_page_accounting, 20},
    {"codes", "6", measure_codes, 20},
    {"printf", "11", measure_printf, 20},
    {"fault", "11", measure_fault, 20},
    {"fault-non-blocking", "11", measure_fault_non_blocking, 20},
    {"trap", "11", measure_trap, 20},
    {"attributes", "11", measure_attributes, 10},
    {"lookup", "13", measure_lookup, 10},
};

std::string text(const char *format, ...) {
    char buffer[4096];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(buffer, sizeof buffer, format, arguments);
    va_end(arguments);
    return buffer;
}

void answer(const char *id, const char *question, const char *format, ...) {
    char buffer[4096];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(buffer, sizeof buffer, format, arguments);
    va_end(arguments);
    printf("measure %s: %s: %s\n", id, question, buffer);
    fflush(stdout);
}

std::string size_name(size_t bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
    int unit = 0;
    double value = (double)bytes;
    while (value >= 1024 && unit < 3) {
        value /= 1024;
        unit++;
    }
    return text("%.4g %s", value, units[unit]);
}

std::string code_name(CUresult code) {
    const char *name = nullptr;
    if (cuGetErrorName(code, &name) != CUDA_SUCCESS || name == nullptr) {
        name = "unknown";
    }
    return text("%s (%d)", name, (int)code);
}

double median(std::vector<double> values) {
    if (values.empty()) {
        return 0;
    }
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

double now_us() {
    return seconds_now() * 1e6;
}

CUcontext start_device() {
    CUDA_OK(cudaSetDevice(0));
    CUDA_OK(cudaFree(nullptr));
    spin<<<1, 1>>>(1000, nullptr, 0);
    fill<<<1, 1>>>(nullptr, 0, 0);
    CUDA_OK(cudaGetLastError());
    CUDA_OK(cudaDeviceSynchronize());
    CUcontext context;
    DRIVER_OK(cuCtxGetCurrent(&context));
    return context;
}

CUcontext another_context() {
    CUdevice device;
    CUcontext current, made;
    DRIVER_OK(cuCtxGetCurrent(&current));
    DRIVER_OK(cuDeviceGet(&device, 0));
#if CUDA_VERSION >= 13000
    DRIVER_OK(cuCtxCreate(&made, nullptr, 0, device));
#else
    DRIVER_OK(cuCtxCreate(&made, 0, device));
#endif
    spin<<<1, 1>>>(1000, nullptr, 0); // loads the kernels into it
    cudaGetLastError();
    DRIVER_OK(cuCtxSynchronize());
    DRIVER_OK(cuCtxSetCurrent(current));
    return made;
}

void *driver_symbol(const char *symbol) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    return driver == nullptr ? nullptr : dlsym(driver, symbol);
}

CUevent new_event() {
    CUevent event;
    DRIVER_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    return event;
}

bool queue_spin(CUstream stream, unsigned milliseconds, CUevent event) {
    spin<<<1, 1, 0, stream>>>(milliseconds * 1000000ull, nullptr, 0);
    if (cudaGetLastError() != cudaSuccess) {
        return false;
    }
    return event == nullptr || cuEventRecord(event, stream) == CUDA_SUCCESS;
}

std::vector<stream_kind> make_streams(CUcontext own, CUcontext other) {
    std::vector<stream_kind> kinds;
    CUstream blocking, non_blocking, foreign;
    DRIVER_OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    DRIVER_OK(cuStreamCreate(&non_blocking, CU_STREAM_NON_BLOCKING));
    kinds.push_back({"legacy stream", CU_STREAM_LEGACY, own});
    kinds.push_back({"blocking stream", blocking, own});
    kinds.push_back({"non-blocking stream", non_blocking, own});
    kinds.push_back({"per-thread stream", CU_STREAM_PER_THREAD, own});
    if (other != nullptr) {
        DRIVER_OK(cuCtxSetCurrent(other));
        DRIVER_OK(cuStreamCreate(&foreign, CU_STREAM_DEFAULT));
        DRIVER_OK(cuCtxSetCurrent(own));
        kinds.push_back({"stream of another context", foreign, other});
    }
    return kinds;
}

// Waits for `child` at most `limit_s`, then kills it.
static void await(pid_t child, const struct section &section) {
    double deadline = seconds_now() + section.limit_s;
    int status = 0;
    for (;;) {
        pid_t done = waitpid(child, &status, WNOHANG);
        if (done == child) {
            break;
        }
        if (done < 0 && errno != EINTR) {
            return;
        }
        if (seconds_now() > deadline) {
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
            answer(section.answers, section.name, "incomplete: killed after %d s", section.limit_s);
            return;
        }
        usleep(2000);
    }
    if (WIFSIGNALED(status)) {
        answer(section.answers, section.name, "incomplete: ended by signal %d", WTERMSIG(status));
    } else if (WEXITSTATUS(status) != 0) {
        answer(section.answers, section.name, "incomplete: ended with status %d",
               WEXITSTATUS(status));
    }
}

static void run_apart(const struct section &section) {
    char flag[] = "--in-process";
    char self[] = "measure";
    std::string name = section.name;
    char *arguments[] = {self, flag, &name[0], nullptr};
    pid_t child;
    int error = posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, arguments, environ);
    if (error != 0) {
        answer(section.answers, section.name, "not run: %s", strerror(error));
        return;
    }
    await(child, section);
}

int main(int count, char **arguments) {
    setvbuf(stdout, nullptr, _IOLBF, 0);
    setenv("CUDA_MODULE_LOADING", "EAGER", 1); // loading a kernel may itself wait
    if (count == 3 && strcmp(arguments[1], "--in-process") == 0) {
        for (const struct section &section : sections) {
            if (strcmp(arguments[2], section.name) == 0) {
                section.run();
                fflush(stdout);
                _exit(0); // a context that was spoiled on purpose is not torn down
            }
        }
    }
    if (count == 2 && strcmp(arguments[1], "--list") == 0) {
        for (const struct section &section : sections) {
            printf("%s\n", section.name);
        }
        return 0;
    }
    int known = 0;
    for (const struct section &section : sections) {
        bool wanted = count == 1;
        for (int i = 1; i < count; i++) {
            wanted = wanted || strcmp(arguments[i], section.name) == 0;
        }
        if (wanted) {
            known++;
            run_apart(section);
        }
    }
    if (known == 0) {
        fprintf(stderr, "measure: no such section; measure --list names them\n");
        return 2;
    }
    return 0;
}
