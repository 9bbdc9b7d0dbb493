/* The linker: images become one. A name that two of them define, and one that nobody does, are
 * errors; the result is a cubin of this driver's own. */
#include "allocate.h"
#include "context.h"
#include "cubin.h"
#include "jit.h"
#include "link_input.h"
#include "lock.h"
#include "settings.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>
#include <utlist.h>

/* Invariant: once there is a cubin, the inputs are gone and there are no more. */
struct CUlinkState_st {
    struct jit jit;
    struct link_input *inputs; /* in the order in which they came */
    unsigned char *cubin;      /* owned */
    size_t size;
    struct CUlinkState_st *next;
};

static struct CUlinkState_st *states;

static struct CUlinkState_st *find(CUlinkState handle) {
    struct CUlinkState_st *state;

    LL_FOREACH(states, state)
    if (state == handle)
        return state;
    return NULL;
}

/* --- names --- */

/* Who defines a name. */
struct definition {
    const struct image_symbol *symbol;
    struct link_input *input;
    UT_hash_handle hh;
};

/* Functions that every device has. */
static bool is_of_system(const char *name) {
    static const char *const names[] = {"vprintf", "malloc", "free", "__assertfail"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return strncmp(name, ".nv.", 4) == 0; /* the assembler's own */
}

static struct definition *find_definition(struct definition *table, const char *name) {
    struct definition *found;

    HASH_FIND_STR(table, name, found);
    return found;
}

/* False: the name is defined by another input, too. */
static bool define(struct definition **table, const struct image_symbol *symbol,
                   struct link_input *input) {
    struct definition *known = find_definition(*table, symbol->name);

    if (known == NULL) {
        struct definition *definition = allocate_zeroed(sizeof *definition);

        definition->symbol = symbol;
        definition->input = input;
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it is in the table
        HASH_ADD_KEYPTR(hh, *table, symbol->name, strlen(symbol->name), definition);
        return true;
    }
    if (symbol->linkage == IMAGE_DEFINES && known->symbol->linkage == IMAGE_DEFINES)
        return known->input == input;
    if (symbol->linkage == IMAGE_DEFINES) { /* it comes before a weak one */
        known->symbol = symbol;
        known->input = input;
    }
    return true;
}

/* Takes an input with all that it defines. False: another one defines some of it, too. */
static bool take(struct CUlinkState_st *state, struct definition **table,
                 struct link_input *input) {
    const struct image_symbol *symbol;
    bool alone = true;

    input->taken = true;
    LL_FOREACH(input->image->symbols, symbol) {
        if (symbol->linkage == IMAGE_NEEDS || define(table, symbol, input))
            continue;
        jit_print(&state->jit.error,
                  "error   : Multiple definition of '%s' in '%s', first defined in '%s'\n",
                  symbol->name, input->name, find_definition(*table, symbol->name)->input->name);
        alone = false;
    }
    return alone;
}

static bool defines(const struct image *image, const char *name) {
    const struct image_symbol *symbol;

    LL_FOREACH(image->symbols, symbol)
    if (symbol->linkage != IMAGE_NEEDS && strcmp(symbol->name, name) == 0)
        return true;
    return false;
}

/* The first library's member that defines the name. NULL: none. */
static struct link_input *find_member(const struct CUlinkState_st *state, const char *name) {
    struct link_input *input;

    LL_FOREACH(state->inputs, input)
    if (!input->taken && defines(input->image, name))
        return input;
    return NULL;
}

/* Takes a member of a library that defines what is still needed. False: there is nothing to take.
 */
static bool take_one_member(struct CUlinkState_st *state, struct definition **table, bool *alone) {
    const struct link_input *input;
    const struct image_symbol *symbol;

    LL_FOREACH(state->inputs, input) {
        if (!input->taken)
            continue;
        LL_FOREACH(input->image->symbols, symbol) {
            struct link_input *member;

            if (symbol->linkage != IMAGE_NEEDS || find_definition(*table, symbol->name) != NULL)
                continue;
            member = find_member(state, symbol->name);
            if (member == NULL)
                continue;
            *alone = take(state, table, member) && *alone;
            return true;
        }
    }
    return false;
}

/* False: some name that is needed is not defined. */
static bool check_needs(struct CUlinkState_st *state, struct definition *table) {
    const struct link_input *input;
    const struct image_symbol *symbol;
    bool complete = true;

    LL_FOREACH(state->inputs, input) {
        if (!input->taken)
            continue;
        LL_FOREACH(input->image->symbols, symbol) {
            if (symbol->linkage != IMAGE_NEEDS || is_of_system(symbol->name) ||
                find_definition(table, symbol->name) != NULL)
                continue;
            jit_print(&state->jit.error, "error   : Undefined reference to '%s' in '%s'\n",
                      symbol->name, input->name);
            complete = false;
        }
    }
    return complete;
}

static void drop_table(struct definition *table) {
    struct definition *definition, *next;

    HASH_ITER (hh, table, definition, next) {
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it is in the table
        HASH_DEL(table, definition);
        free(definition);
    }
}

/* --- the whole --- */

/* Whether what an input calls so is what the name means in the end. Names that it keeps to itself
 * are its own. */
static bool is_meant(struct definition *table, const struct link_input *input, const char *name) {
    const struct definition *definition = find_definition(table, name);

    return definition == NULL || definition->input == input;
}

static bool has_variable(const struct image *image, const char *name) {
    const struct image_variable *variable;

    LL_FOREACH(image->variables, variable)
    if (strcmp(variable->name, name) == 0)
        return true;
    return false;
}

/* Moves an input's kernels and variables. Of names that several inputs keep to themselves the first
 * one's remains: only a name can ask for them. */
static void absorb(struct image *whole, struct link_input *input, struct definition *table) {
    struct image_kernel *kernel, *next_kernel;
    struct image_variable *variable, *next_variable;
    const struct image_reference *reference;

    LL_FOREACH_SAFE(input->image->kernels, kernel, next_kernel) {
        if (!is_meant(table, input, kernel->name) || image_find_kernel(whole, kernel->name) != NULL)
            continue;
        LL_DELETE(input->image->kernels, kernel);
        LL_PREPEND(whole->kernels, kernel);
    }
    LL_FOREACH_SAFE(input->image->variables, variable, next_variable) {
        if (variable->external || !is_meant(table, input, variable->name) ||
            has_variable(whole, variable->name))
            continue;
        LL_DELETE(input->image->variables, variable);
        LL_PREPEND(whole->variables, variable);
    }
    for (unsigned int i = 0; i < input->image->text_count; i++)
        image_add_text(whole, input->image->texts[i], strlen(input->image->texts[i]));
    LL_FOREACH(input->image->textures, reference)
    image_add_reference(whole, reference->name, strlen(reference->name), reference->surface);
    if (input->image->ptx_version > whole->ptx_version)
        whole->ptx_version = input->image->ptx_version;
}

/* Makes the cubin of all inputs that are taken, and drops the inputs. */
static CUresult finish(struct CUlinkState_st *state, struct definition *table) {
    struct image *whole = image_new();
    struct link_input *input;

    LL_FOREACH(state->inputs, input)
    if (input->taken)
        absorb(whole, input, table);
    whole->binary_version =
        state->jit.target != 0 ? state->jit.target : (unsigned int)settings()->cc;
    jit_print_kernels(&state->jit, whole);
    state->cubin = cubin_write(whole, &state->size);
    image_drop(whole);
    return state->cubin != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult link_all(struct CUlinkState_st *state) {
    struct definition *table = NULL;
    struct link_input *input;
    bool alone = true;
    CUresult result;

    LL_FOREACH(state->inputs, input)
    input->taken = false; /* of an attempt before */
    LL_FOREACH(state->inputs, input)
    if (!input->on_demand)
        alone = take(state, &table, input) && alone;
    while (take_one_member(state, &table, &alone))
        ;
    alone = check_needs(state, table) && alone;
    result = alone ? finish(state, table) : CUDA_ERROR_UNKNOWN; /* assumed */
    drop_table(table);
    if (result != CUDA_SUCCESS)
        return result;
    link_input_drop(state->inputs);
    state->inputs = NULL;
    return CUDA_SUCCESS;
}

/* --- entry points --- */

static CUresult create(unsigned int count, const CUjit_option *options, void **values,
                       CUlinkState *out) {
    struct CUlinkState_st *state;
    struct CUctx_st *context;
    struct jit jit;
    CUresult result =
        out == NULL ? CUDA_ERROR_INVALID_VALUE : jit_read(&jit, JIT_LINK, count, options, values);

    if (result != CUDA_SUCCESS)
        return result;
    sim_lock();
    result = context_current(&context);
    if (result == CUDA_SUCCESS) {
        state = allocate_zeroed(sizeof *state);
        state->jit = jit;
        LL_PREPEND(states, state);
        *out = state;
    }
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuLinkCreate(unsigned int count, CUjit_option *options, void **values,
                                 CUlinkState *state) {
    ENTER(cuLinkCreate);
    return create(count, options, values, state);
}

SIM_EXPORT CUresult cuLinkCreate_v2(unsigned int count, CUjit_option *options, void **values,
                                    CUlinkState *state) {
    ENTER(cuLinkCreate_v2);
    return create(count, options, values, state);
}

/* What is added, and by which options. */
struct addition {
    CUjitInputType type;
    const char *name;
    const unsigned char *data;
    size_t size;
    unsigned int count;
    const CUjit_option *options;
    void **values;
};

static CUresult add(CUlinkState handle, const struct addition *addition) {
    uint64_t begun = jit_begin();
    struct link_input *inputs = NULL, *input;
    struct CUlinkState_st *state;
    struct jit jit;
    CUresult result =
        jit_read(&jit, JIT_INPUT, addition->count, addition->options, addition->values);

    if (result != CUDA_SUCCESS)
        return result;
    result =
        link_input_read(&inputs, addition->type, addition->name, addition->data, addition->size);
    sim_lock();
    state = find(handle);
    if (state == NULL || state->cubin != NULL) {
        link_input_drop(inputs);
        result = state == NULL ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
    } else {
        jit_inherit(&jit, &state->jit);
        LL_FOREACH(inputs, input)
        jit_bound(&jit, input->image);
        LL_CONCAT(state->inputs, inputs);
        if (result != CUDA_SUCCESS)
            jit_print_failure(&state->jit, result, addition->name);
        jit_end(&state->jit, begun);
    }
    sim_unlock();
    return result;
}

/* INVALID_HANDLE, or INVALID_VALUE for what is no input. */
static CUresult check_input(CUlinkState handle, CUjitInputType type, const void *what) {
    bool known;

    sim_lock();
    known = find(handle) != NULL;
    sim_unlock();
    if (!known)
        return CUDA_ERROR_INVALID_HANDLE;
    if (what == NULL || (unsigned int)type >= CU_JIT_NUM_INPUT_TYPES)
        return CUDA_ERROR_INVALID_VALUE;
    return type <= CU_JIT_INPUT_LIBRARY ? CUDA_SUCCESS : entry_not_simulated("LTO-IR");
}

/* Reads a copy, behind which a 0 stands. */
static CUresult add_data(CUlinkState handle, CUjitInputType type, const void *data, size_t size,
                         const char *name, unsigned int count, CUjit_option *options,
                         void **values) {
    CUresult result = check_input(handle, type, size != 0 ? data : NULL);
    unsigned char *copy;

    if (result != CUDA_SUCCESS)
        return result;
    copy = memcpy(allocate_zeroed(size + 1), data, size);
    result = add(handle, &(struct addition){type, name != NULL ? name : "<unnamed>", copy, size,
                                            count, options, values});
    free(copy);
    return result;
}

SIM_EXPORT CUresult cuLinkAddData(CUlinkState state, CUjitInputType type, void *data, size_t size,
                                  const char *name, unsigned int count, CUjit_option *options,
                                  void **values) {
    ENTER(cuLinkAddData);
    return add_data(state, type, data, size, name, count, options, values);
}

SIM_EXPORT CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data,
                                     size_t size, const char *name, unsigned int count,
                                     CUjit_option *options, void **values) {
    ENTER(cuLinkAddData_v2);
    return add_data(state, type, data, size, name, count, options, values);
}

static CUresult add_file(CUlinkState handle, CUjitInputType type, const char *path,
                         unsigned int count, CUjit_option *options, void **values) {
    CUresult result = check_input(handle, type, path);
    unsigned char *data;
    size_t size;

    if (result == CUDA_SUCCESS)
        result = image_load_file(path, &data, &size);
    if (result != CUDA_SUCCESS)
        return result;
    result = add(handle, &(struct addition){type, path, data, size, count, options, values});
    free(data);
    return result;
}

SIM_EXPORT CUresult cuLinkAddFile(CUlinkState state, CUjitInputType type, const char *path,
                                  unsigned int count, CUjit_option *options, void **values) {
    ENTER(cuLinkAddFile);
    return add_file(state, type, path, count, options, values);
}

SIM_EXPORT CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path,
                                     unsigned int count, CUjit_option *options, void **values) {
    ENTER(cuLinkAddFile_v2);
    return add_file(state, type, path, count, options, values);
}

/* Once more it answers the same. */
SIM_EXPORT CUresult cuLinkComplete(CUlinkState handle, void **cubin, size_t *size) {
    CUresult result = CUDA_ERROR_INVALID_HANDLE;
    struct CUlinkState_st *state;

    ENTER(cuLinkComplete);
    if (cubin == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    state = find(handle);
    if (state != NULL) {
        uint64_t begun = jit_begin();

        result = state->cubin != NULL ? CUDA_SUCCESS : link_all(state);
        jit_end(&state->jit, begun);
    }
    if (result == CUDA_SUCCESS) {
        *cubin = state->cubin;
        if (size != NULL)
            *size = state->size;
    }
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuLinkDestroy(CUlinkState handle) {
    struct CUlinkState_st *state;

    ENTER(cuLinkDestroy);
    sim_lock();
    state = find(handle);
    if (state != NULL) {
        LL_DELETE(states, state);
        link_input_drop(state->inputs);
        free(state->cubin);
        free(state);
    }
    sim_unlock();
    return state != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
