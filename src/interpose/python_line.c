#include "interpose/python_line.h"

#include "base/format.h"
#include "base/lock.h"
#include "interpose/image.h"
#include "interpose/python_layout.h"
#include "interpose/python_line_table.h"
#include "interpose/safe_read.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

enum { KEYS = 1024 /* that a process may have */, TABLE = 16384, PATH = 256, NAME = 32, UNIT = 2 };
enum { COUNT = sizeof(uintptr_t), DATA = 2 * sizeof(uintptr_t) }; /* of a bytes, behind its head */

/* pthread_self(), as which the interpreter knows a thread. Each function that we ask libc for costs
 * programs without CUDA a look-up at their start: so it is not asked where it need not be. */
static uintptr_t this_thread(void) {
#if defined(__x86_64__)
    uintptr_t self;
    __asm__("mov %%fs:0x10, %0" : "=r"(self)); /* part of glibc's ABI */
    return self;
#else
    return (uintptr_t)pthread_self();
#endif
}

static bool is_state(const struct python_layout *layout, uintptr_t word) {
    return word && word % sizeof(uintptr_t) == 0 &&
           safe_read_word(word + layout->thread_id) == this_thread();
}

/* This thread's state; 0: it has none, or it was not found. It is looked for where only this thread
 * has things: another's state, and the list of all, may go away while they are read. Versions up to
 * 3.14 have it as thread-specific data, later ones in their thread-local variables. */
static uintptr_t find_state(const struct python_layout *layout, const struct module *interpreter) {
    uintptr_t local = (uintptr_t)interpreter->thread_data;
    for (size_t at = 0; at + sizeof(uintptr_t) <= interpreter->thread_bytes;
         at += sizeof(uintptr_t)) {
        uintptr_t word = safe_read_word(local + at);
        if (is_state(layout, word))
            return word;
    }
    uintptr_t slot = image_import_slot(interpreter, "pthread_getspecific");
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    void *(*get)(pthread_key_t) = (void *(*)(pthread_key_t))slot;
    for (pthread_key_t key = 0; get && key < KEYS; key++) {
        uintptr_t word = (uintptr_t)get(key);
        if (is_state(layout, word))
            return word;
    }
    return 0;
}

/* The types of objects that are looked into. */
struct types {
    uintptr_t code, text, bytes;
};

static bool is_a(const struct python_layout *layout, uintptr_t object, uintptr_t type) {
    return object && type && safe_read_word(object + layout->object_type) == type;
}

/* Copies the end of a str, as far as there is room; what is not ASCII becomes a question mark. */
static bool copy_text(const struct python_layout *layout, uintptr_t text, char *to, size_t size) {
    enum { COMPACT = 1 << 5, ASCII = 1 << 6, WIDEST = 4 };
    uint32_t state = 0;
    unsigned char wide[PATH * WIDEST];
    size_t length = safe_read_word(text + layout->object_size), skipped = 0;
    if (!safe_read(&state, text + layout->object_size + DATA, sizeof state))
        return false;
    state >>= layout->text_shift;
    size_t width = state >> 2 & 7;
    if (!(state & COMPACT) || !length || (width != 1 && width != 2 && width != WIDEST))
        return false;
    if (length >= size) {
        skipped = length - size + 1;
        length = size - 1;
    }
    uintptr_t data = text + (state & ASCII ? layout->text_ascii : layout->text_other);
    if (!safe_read(wide, data + skipped * width, length * width))
        return false;
    for (size_t i = 0; i < length; i++) {
        bool plain = wide[i * width] >= ' ' && wide[i * width] < 0x7f;
        for (size_t j = 1; j < width; j++)
            plain = plain && !wide[i * width + j];
        to[i] = plain ? (char)wide[i * width] : '?';
    }
    to[length] = 0;
    return true;
}

/* Writes function (file.py:12), with as much of the path's end as there is room for. */
static void write_text(char text[SITE_TAG_SIZE], const char *name, const char *path, int line) {
    char number[16];
    format(number, sizeof number, ":%d)", line);
    size_t room = SITE_TAG_SIZE - 1 - strlen(name) - 2 - strlen(number), length = strlen(path);
    const char *from = path;
    while (length > room) {
        const char *slash = strchr(from + 1, '/');
        from = slash ? slash + 1 : from + (length - room);
        length = strlen(from);
    }
    format(text, SITE_TAG_SIZE, "%s (%s%s", name, from, number);
}

/* Where the instructions begin that the frame executes, and how many units they have. */
static uintptr_t find_instructions(const struct python_layout *layout, const struct types *types,
                                   uintptr_t frame, uintptr_t code, size_t *units) {
    if (layout->version < PYTHON_3_11) {
        uintptr_t bytes = safe_read_word(code + layout->code_bytes);
        if (!is_a(layout, bytes, types->bytes))
            return 0;
        *units = safe_read_word(bytes + layout->object_size) / UNIT;
        return bytes + layout->object_size + DATA;
    }
    *units = safe_read_word(code + layout->object_size);
    int32_t copy = 0;
    if (!layout->frame_copy || !safe_read(&copy, frame + layout->frame_copy, sizeof copy) ||
        copy <= 0)
        return code + layout->code_bytes;
    uintptr_t copies = safe_read_word(code + layout->code_copies);
    return copies ? safe_read_word(copies + COUNT + (size_t)copy * sizeof(uintptr_t)) : 0;
}

/* The address of the instruction that the frame executes, which lies at `begin` or behind it. */
static uintptr_t find_instruction(const struct python_layout *layout, uintptr_t frame,
                                  uintptr_t begin) {
    if (layout->version >= PYTHON_3_11)
        return safe_read_word(frame + layout->frame_instruction);
    int32_t number = 0;
    if (!safe_read(&number, frame + layout->frame_instruction, sizeof number) || number < 0)
        return 0;
    return begin + (size_t)number * (layout->version < PYTHON_3_10 ? 1 : UNIT);
}

static bool describe(const struct python_layout *layout, const struct types *types, uintptr_t frame,
                     struct python_line *line) {
    enum { TAGS = sizeof(uintptr_t) - 1 }; /* from 3.14 on a frame's references have them */
    static unsigned char table[TABLE];     /* LOCK_LOADER held */
    char name[NAME], path[PATH];
    int32_t first = 0;
    size_t units = 0;
    uintptr_t code = safe_read_word(frame + layout->frame_code) & ~(uintptr_t)TAGS;
    if (!is_a(layout, code, types->code))
        return false;
    uintptr_t begin = find_instructions(layout, types, frame, code, &units);
    uintptr_t at = begin ? find_instruction(layout, frame, begin) : 0;
    uintptr_t file = safe_read_word(code + layout->code_filename);
    uintptr_t function = safe_read_word(code + layout->code_name);
    uintptr_t lines = safe_read_word(code + layout->code_lines);
    if (!begin || at < begin || (at - begin) / UNIT >= units || !is_a(layout, file, types->text) ||
        !is_a(layout, function, types->text) || !is_a(layout, lines, types->bytes))
        return false;
    size_t size = safe_read_word(lines + layout->object_size);
    if (size > sizeof table || !safe_read(table, lines + layout->object_size + DATA, size) ||
        !safe_read(&first, code + layout->code_first_line, sizeof first) ||
        !copy_text(layout, file, path, sizeof path) ||
        !copy_text(layout, function, name, sizeof name))
        return false;
    int number = python_line_table_find(layout->version, table, size, first, (at - begin) / UNIT);
    if (number <= 0)
        return false;
    write_text(line->text, name, path, number);
    line->next_low = at;
    line->next_high = at + layout->ahead;
    return true;
}

enum python_line_found python_line_find(const struct module *interpreter,
                                        struct python_line *line) {
    lock_check_held(LOCK_LOADER);
    struct python_layout layout;
    if (!python_layout_find(interpreter, &layout))
        return PYTHON_LINE_NOT_KNOWN;
    const struct types types = {image_find_object(interpreter, "PyCode_Type"),
                                image_find_object(interpreter, "PyUnicode_Type"),
                                image_find_object(interpreter, "PyBytes_Type")};
    uintptr_t state = find_state(&layout, interpreter);
    uintptr_t at =
        state && layout.thread_cframe ? safe_read_word(state + layout.thread_cframe) : state;
    uintptr_t frame = at ? safe_read_word(at + layout.thread_frame) : 0;
    return frame && describe(&layout, &types, frame, line) ? PYTHON_LINE_FOUND : PYTHON_LINE_NONE;
}
