/* PTX that runs: programs, their modules in a context, launches. It knows neither contexts nor the
 * driver; whose memory an address is, it asks. Threads have to agree about what the comments say
 * alone. */
#ifndef SIMCUDA_PTX_SIMT_H
#define SIMCUDA_PTX_SIMT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- programs: what texts became; nothing in them changes, so threads may share them --- */

struct simt_program;

/* What is wrong with a text. line == 0: nothing. */
struct simt_failure {
    unsigned int line;
    char text[200];
};

/* A program of so many texts, which are linked by their names. NULL: *failure says why, of the text
 * `*which`. The caller gets a reference. */
struct simt_program *simt_parse(const char *const *texts, unsigned int count,
                                struct simt_failure *failure, unsigned int *which);
struct simt_program *simt_keep(struct simt_program *program);
void simt_drop(struct simt_program *program);

/* A variable that needs memory. */
struct simt_variable {
    const char *name;
    unsigned int unit;  /* the text that has it */
    unsigned int index; /* for simt_module_place */
    size_t size, alignment;
    bool constant, managed;
    bool is_static;               /* of its text alone */
    bool is_reference;            /* a texture, a sampler or a surface */
    const unsigned char *initial; /* NULL: zero */
    const void *state;            /* simt_next_variable's */
};

/* The first one after a zeroed `variable`, then the next ones. False: there is none. */
bool simt_next_variable(const struct simt_program *program, struct simt_variable *variable);

/* --- modules: a program whose variables have addresses. Threads may share one, once all is placed
 * --- */

struct simt_module;

struct simt_module *simt_module_new(struct simt_program *program); /* takes a reference */
void simt_module_end(struct simt_module *module);
void simt_module_place(struct simt_module *module, unsigned int index, uint64_t address,
                       unsigned char *memory); /* where its initial value is to be */
/* Fills in addresses that variables hold from the beginning. */
void simt_module_placed(struct simt_module *module);

struct simt_kernel;

struct simt_kernel *simt_find_kernel(struct simt_module *module, const char *name);
size_t simt_parameter_bytes(const struct simt_kernel *kernel);
size_t simt_shared_bytes(const struct simt_kernel *kernel); /* without the launch's own */
bool simt_uses_heap(const struct simt_module *module);
/* Whether it lets its dependents begin before it ends. */
bool simt_lets_dependents_begin(const struct simt_kernel *kernel);

/* --- launches --- */

/* Memory as it is reached: [begin, end) at `memory`. */
struct simt_range {
    uint64_t begin, end;
    unsigned char *memory;
    bool recorded; /* accesses are to be recorded */
};

enum simt_address_mode { SIMT_WRAP, SIMT_CLAMP, SIMT_MIRROR, SIMT_BORDER };
enum simt_channel { SIMT_U8, SIMT_U16, SIMT_U32, SIMT_S8, SIMT_S16, SIMT_S32, SIMT_F16, SIMT_F32 };

/* What a texture or a surface is bound to. */
struct simt_texture {
    unsigned char *memory;
    enum simt_channel channel;
    unsigned int channels;
    size_t width, height, depth; /* elements; height and depth 0: it has none */
    size_t layers;               /* 0: it has none */
    size_t pitch, slice;         /* bytes */
    enum simt_address_mode mode[3];
    bool linear, normalized;
    bool reads_integers; /* else they are read as fractions of 1 */
    bool srgb;
    uint64_t address; /* for what is recorded of accesses */
    float border[4];
};

struct simt_memory {
    void *owner;
    /* False: the address is nobody's. */
    bool (*find)(void *owner, uint64_t address, struct simt_range *range);
    /* The allocation next to the address, in words. */
    void (*describe)(void *owner, uint64_t address, char *text, size_t room);
    bool (*texture)(void *owner, uint64_t handle, bool surface, struct simt_texture *texture);
    const uint64_t *changes; /* grows, atomically, when memory goes: ranges are to be asked again */
};

enum simt_result {
    SIMT_DONE,
    SIMT_ILLEGAL_ADDRESS,
    SIMT_MISALIGNED,
    SIMT_ASSERTED,
    SIMT_TRAPPED,
    SIMT_STACK_OVERFLOW,
    SIMT_INVALID_CALL
};

/* A run of bytes that a launch has read or written, in whole sectors. */
struct simt_access {
    uint64_t begin, end;
    bool write;
};

struct simt_heap; /* of device code's malloc */

struct simt_heap *simt_heap_new(uint64_t address, size_t size);
void simt_heap_end(struct simt_heap *heap);

/* What a launch waits for. */
struct simt_word {
    uint64_t address, value; /* what was read there */
    unsigned int size;       /* bytes: 1, 2, 4 or 8 */
};

struct simt_wait {
    /* All of its threads that could go on look at these words again and again, and do nothing else
     * as long as these have their values. Otherwise it only seems to wait. */
    bool is_certain;
    const struct simt_word *words;
    size_t count;
};

struct simt_launch {
    struct simt_kernel *kernel;
    unsigned int grid[3], block[3];
    unsigned int dynamic_shared; /* bytes */
    const void *parameters;
    bool cooperative;
    bool memcheck; /* tell faults on standard error */
    unsigned int processors, device;
    uint64_t number;          /* %gridid */
    unsigned int most_rounds; /* of turns of the blocks, then it traps; 0: as many as it takes */
    const struct simt_memory *memory;
    struct simt_heap *heap; /* NULL: malloc finds none */
    /* Called by simt_run's thread, again and again while the launch waits for others than itself,
     * and with NULL when it goes on. False: it is to end. May be NULL. */
    bool (*waits)(void *owner, const struct simt_wait *wait);
    /* The time in nanoseconds, after so much more of it has passed: each read of a clock takes
     * time. NULL: the host's. Any thread calls it. */
    uint64_t (*clock)(void *owner, uint64_t passes);
    /* cudaGraphSetConditional. False: there is no such handle. May be NULL. Any thread calls it. */
    bool (*set_conditional)(void *owner, uint64_t handle, uint32_t value);
    /* Text that device code has printed, in order. */
    void (*print)(void *owner, const char *text, size_t length);

    /* What comes out. */
    struct simt_access *accesses; /* the caller's to free */
    size_t access_count;
    uint64_t instructions; /* of threads */
};

enum simt_result simt_run(struct simt_launch *launch);

#endif
