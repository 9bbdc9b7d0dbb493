#include "system.h"

#include "allocate.h"
#include "reach.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- what is passed --- */

static uint64_t given(const struct warp *warp, const struct instruction *instruction,
                      unsigned int lane, unsigned int which, unsigned int size) {
    const struct argument *argument;
    uint64_t value = 0;

    if (which >= instruction->extra->given_count)
        return 0;
    argument = &instruction->extra->given[which];
    if (argument->variable == NULL)
        value = source(warp, argument->row)[lane];
    else
        memcpy(&value, local_memory(warp, lane, warp->frame->local + argument->variable->offset),
               size);
    return size == 4 ? (uint32_t)value : value;
}

static void give_back(struct warp *warp, const struct instruction *instruction, unsigned int lane,
                      uint64_t value) {
    const struct argument *argument;

    if (instruction->extra->received_count == 0)
        return;
    argument = &instruction->extra->received[0];
    if (argument->variable != NULL)
        memcpy(local_memory(warp, lane, warp->frame->local + argument->variable->offset), &value,
               argument->variable->size < 8 ? argument->variable->size : 8);
    else if (argument->row != NO_ROW)
        destination(warp, argument->row)[lane] = value;
}

/* Bytes at a generic address. False: they are nobody's. */
static bool fetch(struct warp *warp, unsigned int lane, uint64_t address, void *to,
                  unsigned int bytes) {
    enum window window = window_in(SPACE_GENERIC, &address);
    const unsigned char *memory = reach_in(warp, lane, window, address, bytes);

    if (memory == NULL)
        return false;
    memcpy(to, memory, bytes);
    return true;
}

/* A text that ends with a 0, as far as it fits. */
static void fetch_text(struct warp *warp, unsigned int lane, uint64_t address, char *text,
                       size_t room) {
    size_t length = 0;

    while (length + 1 < room && fetch(warp, lane, address + length, &text[length], 1) &&
           text[length] != '\0')
        length++;
    text[length] = '\0';
}

/* --- vprintf: CUDA C++ programming guide, "Formatted Output" --- */

enum { TEXT_ROOM = 4096 };

/* Invariant: used < TEXT_ROOM. */
struct printing {
    struct warp *warp;
    unsigned int lane;
    uint64_t arguments; /* where the next one is */
    char text[TEXT_ROOM];
    size_t used;
};

static void next_argument(struct printing *printing, void *value, unsigned int size) {
    printing->arguments = (printing->arguments + size - 1) & ~(uint64_t)(size - 1);
    if (!fetch(printing->warp, printing->lane, printing->arguments, value, size))
        memset(value, 0, size);
    printing->arguments += size;
}

static void add(struct printing *printing, int written) {
    if (written > 0)
        printing->used += (size_t)written;
    if (printing->used >= TEXT_ROOM)
        printing->used = TEXT_ROOM - 1;
}

#define ROOM(printing) (printing)->text + (printing)->used, TEXT_ROOM - (printing)->used

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
/* Prints by the host's conversion `format`, whose last letter is `letter`. */
static void convert(struct printing *printing, const char *format, char letter, bool is_long) {
    char string[1024];
    uint64_t value = 0;
    uint32_t word;
    double number;

    if (strchr("eEfFgGaA", letter) != NULL) {
        next_argument(printing, &number, sizeof number);
        add(printing, snprintf(ROOM(printing), format, number));
        return;
    }
    if (letter == 's') {
        next_argument(printing, &value, sizeof value);
        fetch_text(printing->warp, printing->lane, value, string, sizeof string);
        add(printing, snprintf(ROOM(printing), format, value == 0 ? "(null)" : string));
        return;
    }
    if (letter == 'p') {
        next_argument(printing, &value, sizeof value);
        add(printing, snprintf(ROOM(printing), format, (void *)(uintptr_t)value));
        return;
    }
    if (is_long) {
        next_argument(printing, &value, sizeof value);
        add(printing, snprintf(ROOM(printing), format, (unsigned long)value));
        return;
    }
    next_argument(printing, &word, sizeof word);
    add(printing, snprintf(ROOM(printing), format, word));
}
#pragma GCC diagnostic pop

/* One conversion behind a percent sign. Returns what follows it. */
static const char *print_conversion(struct printing *printing, const char *at) {
    char format[64] = "%";
    size_t length = 1;
    unsigned int longs = 0, shorts = 0;

    for (; *at != '\0' && strchr("-+ #0123456789.*", *at) != NULL; at++) {
        if (*at == '*') {
            int32_t number;

            next_argument(printing, &number, sizeof number);
            length += (size_t)snprintf(format + length, 16, "%d", number);
        } else {
            format[length++] = *at;
        }
        if (length > sizeof format - 24)
            return at;
    }
    for (; *at != '\0' && strchr("hlLqjzt", *at) != NULL; at++)
        if (*at != 'h')
            longs++;
        else if (shorts < 2) /* hh is a char's */
            shorts++;
    if (*at == '\0' || strchr("diouxXcsfFeEgGaAp", *at) == NULL)
        return at;
    if (longs != 0 && strchr("diouxX", *at) != NULL)
        format[length++] = 'l';
    for (; longs == 0 && shorts != 0 && strchr("diouxX", *at) != NULL; shorts--)
        format[length++] = 'h';
    format[length++] = *at;
    format[length] = '\0';
    convert(printing, format, *at, longs != 0 && strchr("diouxX", *at) != NULL);
    return at + 1;
}

static int print_all(struct printing *printing, const char *format) {
    int conversions = 0;

    while (*format != '\0') {
        if (*format != '%' || format[1] == '%') {
            if (printing->used < TEXT_ROOM - 1)
                printing->text[printing->used++] = *format;
            format += *format == '%' ? 2 : 1;
            continue;
        }
        format = print_conversion(printing, format + 1);
        conversions++;
    }
    return conversions;
}

static enum step run_printf(struct warp *warp, const struct instruction *instruction) {
    const struct simt_launch *asked = warp->block->launch->asked;

    warp->worker->effects++;
    for (uint32_t lanes = warp->active; lanes != 0; lanes &= lanes - 1) {
        struct printing printing = {.warp = warp, .lane = (unsigned int)__builtin_ctz(lanes)};
        char format[2048];
        int conversions;

        fetch_text(warp, printing.lane, given(warp, instruction, printing.lane, 0, 8), format,
                   sizeof format);
        printing.arguments = given(warp, instruction, printing.lane, 1, 8);
        conversions = print_all(&printing, format);
        if (asked->print != NULL)
            asked->print(asked->memory->owner, printing.text, printing.used);
        give_back(warp, instruction, printing.lane, (uint32_t)conversions);
    }
    return STEP_ON;
}

/* --- malloc and free: CUDA C++ programming guide, "Dynamic Global Memory Allocation" --- */

struct piece_of_heap {
    uint64_t address;
    size_t size;
    bool taken;
    struct piece_of_heap *next;
};

/* Invariant: the pieces are in order, without a gap; no two that follow each other are free. */
struct simt_heap {
    pthread_mutex_t mutex;
    struct piece_of_heap *pieces;
};

struct simt_heap *simt_heap_new(uint64_t address, size_t size) {
    struct simt_heap *heap = allocate_zeroed(sizeof *heap);

    pthread_mutex_init(&heap->mutex, NULL);
    heap->pieces = allocate_zeroed(sizeof *heap->pieces);
    heap->pieces->address = address;
    heap->pieces->size = size;
    return heap;
}

void simt_heap_end(struct simt_heap *heap) {
    struct piece_of_heap *piece, *next;

    if (heap == NULL)
        return;
    for (piece = heap->pieces; piece != NULL; piece = next) {
        next = piece->next;
        free(piece);
    }
    pthread_mutex_destroy(&heap->mutex);
    free(heap);
}

static void split_piece(struct piece_of_heap *piece, size_t size) {
    struct piece_of_heap *rest;

    if (piece->size == size)
        return;
    rest = allocate_zeroed(sizeof *rest);
    rest->address = piece->address + size;
    rest->size = piece->size - size;
    rest->next = piece->next;
    piece->next = rest;
    piece->size = size;
}

static uint64_t heap_take(struct simt_heap *heap, size_t size) {
    struct piece_of_heap *piece;
    uint64_t address = 0;

    if (heap == NULL || size == 0 || size > SIZE_MAX - 15)
        return 0;
    size = (size + 15) & ~(size_t)15;
    pthread_mutex_lock(&heap->mutex);
    for (piece = heap->pieces; piece != NULL; piece = piece->next)
        if (!piece->taken && piece->size >= size)
            break;
    if (piece != NULL) {
        split_piece(piece, size);
        piece->taken = true;
        address = piece->address;
    }
    pthread_mutex_unlock(&heap->mutex);
    return address;
}

static void join_next(struct piece_of_heap *piece) {
    struct piece_of_heap *next = piece->next;

    if (next == NULL || next->taken || piece->taken)
        return;
    piece->size += next->size;
    piece->next = next->next;
    free(next);
}

/* False: it was not taken. */
static bool heap_give(struct simt_heap *heap, uint64_t address) {
    struct piece_of_heap *piece, *before = NULL;
    bool given_back = false;

    if (heap == NULL)
        return false;
    pthread_mutex_lock(&heap->mutex);
    for (piece = heap->pieces; piece != NULL && piece->address != address; piece = piece->next)
        before = piece;
    if (piece != NULL && piece->taken) {
        piece->taken = false;
        join_next(piece);
        if (before != NULL)
            join_next(before);
        given_back = true;
    }
    pthread_mutex_unlock(&heap->mutex);
    return given_back;
}

static enum step run_malloc(struct warp *warp, const struct instruction *instruction) {
    struct simt_heap *heap = warp->block->launch->asked->heap;

    warp->worker->effects++;
    for (uint32_t lanes = warp->active; lanes != 0; lanes &= lanes - 1) {
        unsigned int lane = (unsigned int)__builtin_ctz(lanes);

        give_back(warp, instruction, lane, heap_take(heap, given(warp, instruction, lane, 0, 8)));
    }
    return STEP_ON;
}

static enum step run_free(struct warp *warp, const struct instruction *instruction) {
    struct simt_heap *heap = warp->block->launch->asked->heap;

    warp->worker->effects++;
    for (uint32_t lanes = warp->active; lanes != 0; lanes &= lanes - 1) {
        unsigned int lane = (unsigned int)__builtin_ctz(lanes);
        uint64_t address = given(warp, instruction, lane, 0, 8);

        if (address != 0 && !heap_give(heap, address))
            return fault(warp, instruction, lane, SIMT_ILLEGAL_ADDRESS, "frees", address, 0);
    }
    return STEP_ON;
}

/* --- __assertfail(message, file, line, function, size of a character) --- */

static enum step run_assert(struct warp *warp, const struct instruction *instruction) {
    unsigned int lane = (unsigned int)__builtin_ctz(warp->active);
    const unsigned int *block = warp->block->index, *size = warp->block->launch->asked->block;
    unsigned int thread = block_thread(warp, lane);
    char message[512], file[512], function[512];

    fetch_text(warp, lane, given(warp, instruction, lane, 0, 8), message, sizeof message);
    fetch_text(warp, lane, given(warp, instruction, lane, 1, 8), file, sizeof file);
    fetch_text(warp, lane, given(warp, instruction, lane, 3, 8), function, sizeof function);
    fprintf(stderr, "%s:%u: %s: block: [%u,%u,%u], thread: [%u,%u,%u] Assertion `%s` failed.\n",
            file, (unsigned int)given(warp, instruction, lane, 2, 4), function, block[0], block[1],
            block[2], thread % size[0], thread / size[0] % size[1], thread / size[0] / size[1],
            message);
    return fault(warp, instruction, lane, SIMT_ASSERTED, "asserts", 0, 0);
}

/* --- cudaGraphSetConditional(handle, value): CUDA C++ programming guide, "Conditional Graph Nodes"
 * ---
 */

static enum step run_set_conditional(struct warp *warp, const struct instruction *instruction) {
    const struct simt_launch *asked = warp->block->launch->asked;

    warp->worker->effects++;
    for (uint32_t lanes = warp->active; lanes != 0; lanes &= lanes - 1) {
        unsigned int lane = (unsigned int)__builtin_ctz(lanes);
        uint64_t handle = given(warp, instruction, lane, 0, 8);

        if (asked->set_conditional == NULL ||
            !asked->set_conditional(asked->memory->owner, handle,
                                    (uint32_t)given(warp, instruction, lane, 1, 4)))
            return fault(warp, instruction, lane, SIMT_ILLEGAL_ADDRESS,
                         "sets no conditional:", handle, 0);
    }
    return STEP_ON;
}

handler *system_function(const char *name) {
    static const struct {
        const char *name;
        handler *run;
    } functions[] = {{"vprintf", run_printf},
                     {"malloc", run_malloc},
                     {"free", run_free},
                     {"__assertfail", run_assert},
                     {"cudaGraphSetConditional", run_set_conditional}};

    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strcmp(functions[i].name, name) == 0)
            return functions[i].run;
    return NULL;
}
