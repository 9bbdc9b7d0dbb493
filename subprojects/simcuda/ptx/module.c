/* A program in a context: its variables have addresses, its kernels shared memory. */
#include "allocate.h"
#include "machine.h"

#include <stdlib.h>
#include <string.h>

struct simt_module *simt_module_new(struct simt_program *program) {
    struct simt_module *module = allocate_zeroed(sizeof *module);

    module->program = simt_keep(program);
    module->addresses = allocate_zeroed((program->global_count + 1) * sizeof *module->addresses);
    module->memory = allocate_zeroed((program->global_count + 1) * sizeof *module->memory);
    return module;
}

static void drop_constants(struct simt_kernel *kernel) {
    for (unsigned int i = 0;
         kernel->constants != NULL && i < kernel->module->program->function_count; i++)
        free(kernel->constants[i]);
    free((void *)kernel->constants);
}

void simt_module_end(struct simt_module *module) {
    struct simt_kernel *kernel, *next;

    if (module == NULL)
        return;
    for (kernel = module->kernels; kernel != NULL; kernel = next) {
        next = kernel->next;
        drop_constants(kernel);
        free(kernel);
    }
    simt_drop(module->program);
    free(module->addresses);
    free((void *)module->memory);
    free(module);
}

void simt_module_place(struct simt_module *module, unsigned int index, uint64_t address,
                       unsigned char *memory) {
    module->addresses[index] = address;
    module->memory[index] = memory;
}

static const struct variable *resolved_variable(const struct variable *variable) {
    while (variable->resolved != NULL)
        variable = variable->resolved;
    return variable;
}

static uint64_t function_address(const struct function *function) {
    while (function->resolved != NULL)
        function = function->resolved;
    return ((uint64_t)WINDOW_CODE << WINDOW_SHIFT) + (uint64_t)function->index * 16;
}

void simt_module_placed(struct simt_module *module) {
    for (const struct variable *variable = module->program->variables; variable != NULL;
         variable = variable->next) {
        for (const struct relocation *at = variable->relocations; at != NULL; at = at->next) {
            uint64_t value = at->function != NULL
                                 ? function_address(at->function)
                                 : module->addresses[resolved_variable(at->variable)->index];

            value = ((value + at->addend) & at->mask) >> __builtin_ctzll(at->mask);
            if (variable->resolved == NULL && module->memory[variable->index] != NULL)
                memcpy(module->memory[variable->index] + at->offset, &value, at->size);
        }
    }
}

/* --- kernels --- */

/* What a kernel can get to. Invariant: offsets[] of the shared variables that `has` has. */
struct reach {
    bool *functions; /* by index */
    bool *has;       /* shared variables, by index */
    size_t *offsets;
    size_t bytes, alignment;
    bool by_address;
    bool lets_dependents_begin;
};

static void place_shared(struct reach *reach, const struct variable *variable) {
    variable = resolved_variable(variable);
    if (reach->has[variable->index])
        return;
    reach->has[variable->index] = true;
    if (variable->size == 0) { /* behind all others */
        reach->alignment =
            reach->alignment > variable->alignment ? reach->alignment : variable->alignment;
        return;
    }
    reach->bytes = (reach->bytes + variable->alignment - 1) & ~(variable->alignment - 1);
    reach->offsets[variable->index] = reach->bytes;
    reach->bytes += variable->size;
}

static void visit(struct reach *reach, const struct function *function) {
    while (function->resolved != NULL)
        function = function->resolved;
    if (reach->functions[function->index] || !function->defined)
        return;
    reach->functions[function->index] = true;
    reach->by_address = reach->by_address || function->calls_by_address;
    reach->lets_dependents_begin = reach->lets_dependents_begin || function->lets_dependents_begin;
    for (unsigned int i = 0; i < function->shared_count; i++)
        place_shared(reach, function->shared[i]);
    for (unsigned int i = 0; i < function->callee_count; i++)
        visit(reach, function->callees[i]);
}

static uint64_t constant_value(const struct simt_kernel *kernel, const struct reach *reach,
                               const struct constant *constant) {
    const struct variable *variable;

    if (constant->kind == CONSTANT_NUMBER)
        return constant->number;
    if (constant->kind == CONSTANT_FUNCTION)
        return function_address(constant->function);
    variable = resolved_variable(constant->variable);
    if (variable->space != SPACE_SHARED)
        return kernel->module->addresses[variable->index] + constant->number;
    if (variable->size == 0)
        return reach->bytes + constant->number;
    return reach->offsets[variable->index] + constant->number;
}

static lane_row *make_constants(const struct simt_kernel *kernel, const struct reach *reach,
                                const struct function *function) {
    lane_row *rows = allocate_zeroed((function->constant_count + 1) * sizeof *rows);

    for (unsigned int i = 0; i < function->constant_count; i++) {
        uint64_t value = constant_value(kernel, reach, &function->constants[i]);

        for (unsigned int lane = 0; lane < LANES; lane++)
            rows[i][lane] = value;
    }
    return rows;
}

static void prepare(struct simt_kernel *kernel) {
    const struct simt_program *program = kernel->module->program;
    const struct function *function;
    struct reach reach = {.alignment = 16,
                          .functions = allocate_zeroed(program->function_count + 1),
                          .has = allocate_zeroed(program->shared_count + 1),
                          .offsets = allocate_zeroed((program->shared_count + 1) * sizeof(size_t))};

    visit(&reach, kernel->function);
    if (reach.by_address) /* any function may be meant */
        for (function = program->functions; function != NULL; function = function->next)
            if (!function->kernel)
                visit(&reach, function);
    reach.bytes = (reach.bytes + reach.alignment - 1) & ~(reach.alignment - 1);
    kernel->shared_bytes = reach.bytes;
    kernel->lets_dependents_begin = reach.lets_dependents_begin;
    kernel->constants = allocate_zeroed((program->function_count + 1) * sizeof(void *));
    for (function = program->functions; function != NULL; function = function->next)
        if (reach.functions[function->index])
            kernel->constants[function->index] = make_constants(kernel, &reach, function);
    free(reach.functions);
    free(reach.has);
    free(reach.offsets);
}

struct simt_kernel *simt_find_kernel(struct simt_module *module, const char *name) {
    struct function *function;
    struct simt_kernel *kernel;

    for (kernel = module->kernels; kernel != NULL; kernel = kernel->next)
        if (strcmp(kernel->function->name, name) == 0)
            return kernel;
    for (function = module->program->functions; function != NULL; function = function->next)
        if (function->kernel && function->defined && strcmp(function->name, name) == 0)
            break;
    if (function == NULL)
        return NULL;
    kernel = allocate_zeroed(sizeof *kernel);
    kernel->function = function;
    kernel->module = module;
    prepare(kernel);
    kernel->next = module->kernels;
    module->kernels = kernel;
    return kernel;
}

size_t simt_parameter_bytes(const struct simt_kernel *kernel) {
    return kernel->function->parameter_bytes;
}

size_t simt_shared_bytes(const struct simt_kernel *kernel) {
    return kernel->shared_bytes;
}

bool simt_lets_dependents_begin(const struct simt_kernel *kernel) {
    return kernel->lets_dependents_begin;
}

bool simt_uses_heap(const struct simt_module *module) {
    return module->program->uses_heap;
}
