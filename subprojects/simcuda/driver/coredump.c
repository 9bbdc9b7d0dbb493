/* The attributes of dumps, which are kept and answered. No dump is ever written. */
#include "coredump.h"

#include "allocate.h"
#include "lock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#if CUDA_VERSION >= 12010 /* older headers lack the type */

/* As in CUcoredumpSettings, which the oldest headers lack in part or altogether. */
enum attribute {
    ON_EXCEPTION = 1,
    TRIGGER_HOST,
    LIGHTWEIGHT,
    USER_TRIGGER,
    FILE_NAME,
    PIPE_NAME,
    GENERATION_FLAGS
};

enum { ALL_GENERATION_FLAGS = 0x3f };

/* Invariant: the strings end. Bit i of `set` says that the program or its environment set i. */
struct coredump {
    bool on_exception, trigger_host, lightweight, user_trigger;
    char file[1024], pipe[1024];
    unsigned int generation_flags;
    unsigned int set;
    uint64_t context; /* the id of the one that it is for, but in the global one */
    struct coredump *next;
};

static struct coredump global = {.trigger_host = true};
static unsigned int fixed; /* by the environment: bits as those of `set` */
static struct coredump *of_contexts;

/* The attribute's place and size; NULL: there is no such one. */
static void *field(struct coredump *dump, enum attribute attribute, size_t *size) {
    *size = sizeof(bool);
    switch (attribute) {
    case ON_EXCEPTION:
        return &dump->on_exception;
    case TRIGGER_HOST:
        return &dump->trigger_host;
    case LIGHTWEIGHT:
        return &dump->lightweight;
    case USER_TRIGGER:
        return &dump->user_trigger;
    case FILE_NAME:
        *size = sizeof dump->file;
        return dump->file;
    case PIPE_NAME:
        *size = sizeof dump->pipe;
        return dump->pipe;
    case GENERATION_FLAGS:
        *size = sizeof dump->generation_flags;
        return &dump->generation_flags;
    default:
        return NULL;
    }
}

static bool is_string(enum attribute attribute) {
    return attribute == FILE_NAME || attribute == PIPE_NAME;
}

/* --- the environment, which takes precedence: cuda.h 24536 --- */

static void fix_bool(const char *name, enum attribute attribute, bool *value) {
    const char *given = getenv(name);

    if (given == NULL)
        return;
    *value = strcmp(given, "0") != 0;
    fixed |= 1U << attribute;
}

static void fix_string(const char *name, enum attribute attribute, const char *otherwise,
                       char *value, size_t size) {
    const char *given = getenv(name);
    char host[256] = "";

    gethostname(host, sizeof host - 1);
    if (given == NULL)
        snprintf(value, size, "%s.cuda.%s.%ld", otherwise, host, (long)getpid());
    else
        snprintf(value, size, "%s", given);
    fixed |= given != NULL ? 1U << attribute : 0;
}

static void begin(void) {
    static bool begun;

    if (begun)
        return;
    begun = true;
    fix_bool("CUDA_ENABLE_COREDUMP_ON_EXCEPTION", ON_EXCEPTION, &global.on_exception);
    fix_bool("CUDA_ENABLE_CPU_COREDUMP_ON_EXCEPTION", TRIGGER_HOST, &global.trigger_host);
    fix_bool("CUDA_ENABLE_LIGHTWEIGHT_COREDUMP", LIGHTWEIGHT, &global.lightweight);
    fix_bool("CUDA_ENABLE_USER_TRIGGERED_COREDUMP", USER_TRIGGER, &global.user_trigger);
    fix_string("CUDA_COREDUMP_FILE", FILE_NAME, "core", global.file, sizeof global.file);
    fix_string("CUDA_COREDUMP_PIPE", PIPE_NAME, "corepipe", global.pipe, sizeof global.pipe);
}

/* --- reading and writing --- */

static struct coredump *of_context(const struct CUctx_st *context) {
    struct coredump *dump;

    LL_FOREACH(of_contexts, dump)
    if (dump->context == context->id)
        return dump;
    return NULL;
}

static struct coredump *make_of_context(const struct CUctx_st *context) {
    struct coredump *dump = of_context(context);

    if (dump == NULL) {
        dump = allocate_zeroed(sizeof *dump);
        dump->context = context->id;
        LL_PREPEND(of_contexts, dump);
    }
    return dump;
}

void coredump_context_ending(const struct CUctx_st *context) {
    sim_check_held();
    struct coredump *dump = of_context(context);

    if (dump == NULL)
        return;
    LL_DELETE(of_contexts, dump);
    free(dump);
}

/* cuda.h 24544: what the caller expects; a string takes as much as it is long. */
static CUresult read_from(struct coredump *dump, enum attribute attribute, void *value,
                          size_t *size) {
    size_t there, needed;
    const void *from = field(dump, attribute, &there);

    if (from == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    needed = is_string(attribute) ? strlen(from) + 1 : there;
    if (value == NULL)
        *size = there;
    else if (*size < needed)
        return CUDA_ERROR_INVALID_VALUE;
    else
        memcpy(value, from, needed);
    return CUDA_SUCCESS;
}

static CUresult write_string(char *to, const char *value, size_t size, size_t room) {
    size_t length = strnlen(value, size);

    if (length == 0 || length >= room)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(to, value, length);
    to[length] = '\0';
    return CUDA_SUCCESS;
}

static CUresult write_plain(enum attribute attribute, void *to, const void *value, size_t size,
                            size_t room) {
    unsigned int flags;

    if (size != room)
        return CUDA_ERROR_INVALID_VALUE;
    if (attribute != GENERATION_FLAGS) {
        *(bool *)to = *(const unsigned char *)value != 0;
        return CUDA_SUCCESS;
    }
    memcpy(&flags, value, sizeof flags);
    if ((flags & ~(unsigned int)ALL_GENERATION_FLAGS) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    *(unsigned int *)to = flags;
    return CUDA_SUCCESS;
}

static CUresult write_to(struct coredump *dump, enum attribute attribute, const void *value,
                         size_t *size) {
    size_t room;
    void *to = field(dump, attribute, &room);
    CUresult result;

    if (value == NULL) {
        *size = room;
        return CUDA_SUCCESS;
    }
    if ((fixed & 1U << attribute) != 0)
        return CUDA_ERROR_NOT_PERMITTED;
    result = is_string(attribute) ? write_string(to, value, *size, room)
                                  : write_plain(attribute, to, value, *size, room);
    dump->set |= result == CUDA_SUCCESS ? 1U << attribute : 0;
    return result;
}

static bool exists(int attribute) {
    return attribute >= ON_EXCEPTION && attribute <= GENERATION_FLAGS;
}

/* --- entry points --- */

static CUresult get(int attribute, void *value, size_t *size) {
    struct CUctx_st *context;
    struct coredump *own;
    CUresult result;

    sim_lock();
    begin();
    result = context_current(&context);
    if (result == CUDA_SUCCESS) {
        own = of_context(context);
        if (own == NULL || (own->set & 1U << attribute) == 0)
            own = &global;
        result = read_from(own, (enum attribute)attribute, value, size);
        if (result == CUDA_SUCCESS && value != NULL && own == &global &&
            attribute == ON_EXCEPTION &&
            (context->flags & (CU_CTX_COREDUMP_ENABLE | CU_CTX_USER_COREDUMP_ENABLE)) != 0)
            *(bool *)value = true;
    }
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuCoredumpGetAttribute(CUcoredumpSettings attribute, void *value,
                                           size_t *size) {
    ENTER(cuCoredumpGetAttribute);
    if (size == NULL || !exists((int)attribute))
        return CUDA_ERROR_INVALID_VALUE;
    return get((int)attribute, value, size);
}

SIM_EXPORT CUresult cuCoredumpGetAttributeGlobal(CUcoredumpSettings attribute, void *value,
                                                 size_t *size) {
    CUresult result;

    ENTER_UNINITIALIZED(cuCoredumpGetAttributeGlobal);
    if (size == NULL || !exists((int)attribute))
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    begin();
    result = read_from(&global, (enum attribute)attribute, value, size);
    sim_unlock();
    return result;
}

/* cuda.h 24551: two are not a context's. */
static CUresult set(int attribute, const void *value, size_t *size) {
    struct CUctx_st *context;
    CUresult result;

    sim_lock();
    begin();
    result = context_current(&context);
    if (result == CUDA_SUCCESS && (attribute == USER_TRIGGER || attribute == PIPE_NAME))
        result = CUDA_ERROR_NOT_PERMITTED;
    if (result == CUDA_SUCCESS)
        result = write_to(make_of_context(context), (enum attribute)attribute, value, size);
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuCoredumpSetAttribute(CUcoredumpSettings attribute, void *value,
                                           size_t *size) {
    ENTER(cuCoredumpSetAttribute);
    if (size == NULL || !exists((int)attribute))
        return CUDA_ERROR_INVALID_VALUE;
    return set((int)attribute, value, size);
}

/* cuda.h 24644: the pipe is there once it is used. */
SIM_EXPORT CUresult cuCoredumpSetAttributeGlobal(CUcoredumpSettings attribute, void *value,
                                                 size_t *size) {
    CUresult result;

    ENTER_UNINITIALIZED(cuCoredumpSetAttributeGlobal);
    if (size == NULL || !exists((int)attribute))
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    begin();
    if ((int)attribute == PIPE_NAME && value != NULL && global.user_trigger)
        result = CUDA_ERROR_NOT_PERMITTED;
    else
        result = write_to(&global, (enum attribute)attribute, value, size);
    sim_unlock();
    return result;
}

#else

void coredump_context_ending(const struct CUctx_st *context) {
    sim_check_held();
    (void)context;
}

#endif
