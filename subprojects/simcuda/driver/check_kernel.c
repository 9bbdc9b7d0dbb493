#include "check_kernel.h"

#include "bytes.h"
#include "kernels.h"
#include "memory.h"

/* The tasks are read when the kernel is launched, to know what it will touch, and again when it
 * runs. */
static const struct check_task *tasks_of(const struct op *op,
                                         unsigned char *reach(CUdeviceptr address, size_t size)) {
    return (const struct check_task *)(void *)reach(
        kernel_parameter_u64(op, 0), kernel_parameter_u32(op, 1) * sizeof(struct check_task));
}

void check_kernel_declare(struct op *op) {
    uint32_t count = kernel_parameter_u32(op, 1);
    const struct check_task *tasks = count == 0 ? NULL : tasks_of(op, memory_reach_locked);

    if (tasks == NULL)
        return; /* nothing to do, or it will fail */
    op_access(op, kernel_parameter_u64(op, 0), count * sizeof *tasks, false);
    op_access(op, kernel_parameter_u64(op, 2), sizeof(struct check_failure), true);
    for (uint32_t i = 0; i < count; i++)
        op_access(op, tasks[i].address, tasks[i].bytes, tasks[i].op == CHECK_FILL);
}

/* Tells of the task's wrong bytes, unless the report tells of another task. */
DEVICE_CODE static void verify(const struct check_task *task, const unsigned char *bytes,
                               struct check_failure *report) {
    unsigned char pattern = (unsigned char)task->pattern;
    uint64_t first = 0, last = task->bytes;

    if (bytes_are(bytes, task->bytes, pattern))
        return;
    while (first < last && bytes[first] == pattern)
        first++;
    while (last > first && bytes[last - 1] == pattern)
        last--;
    if (first == last || (report->id != CHECK_NO_FAILURE && report->id != task->id))
        return;
    report->id = task->id;
    report->first = first < report->first ? first : report->first;
    report->last = last - 1 > report->last ? last - 1 : report->last;
}

DEVICE_CODE CUresult check_kernel_run(struct op *op) {
    uint32_t count = kernel_parameter_u32(op, 1);
    const struct check_task *tasks = tasks_of(op, memory_reach);
    struct check_failure *report =
        (struct check_failure *)(void *)memory_reach(kernel_parameter_u64(op, 2), sizeof *report);

    if (count != 0 && (tasks == NULL || report == NULL))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    for (uint32_t i = 0; i < count; i++) {
        const struct check_task *task = &tasks[i];
        unsigned char *bytes = task->bytes == 0 ? NULL : memory_reach(task->address, task->bytes);

        if (task->bytes == 0)
            continue;
        if (bytes == NULL)
            return CUDA_ERROR_ILLEGAL_ADDRESS;
        if (task->op == CHECK_FILL)
            bytes_fill(bytes, task->bytes, (unsigned char)task->pattern);
        else
            verify(task, bytes, report);
    }
    return CUDA_SUCCESS;
}
