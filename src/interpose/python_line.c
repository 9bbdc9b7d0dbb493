#include "interpose/python_line.h"

#include "format.h"
#include "interpose/image.h"
#include "lock.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { INTERPRETERS = 64, THREADS = 4096, TABLE = 16384, PATH = 256, NAME = 32, UNIT = 2 };

/* Where things lie in the structures of one version: offsetof() with its headers. */
static const struct layout {
    unsigned version; /* Py_Version without its last two bytes */
    uint16_t runtime_interpreters, interpreter_next, interpreter_threads, thread_next, thread_id;
    uint16_t thread_cframe, cframe_frame, frame_code, frame_previous_instruction;
    uint16_t code_filename, code_name, code_lines, code_first_line, code_bytes;
    uint16_t bytes_data, text_length, text_state, text_ascii, text_other;
} layouts[] = {
    {0x030b, 40, 0, 16, 8, 152, 56, 8, 32, 56, 112, 120, 136, 72, 184, 32, 16, 32, 48, 72},
};

static bool refused; /* the system call. Guarded by LOCK_LOADER */

static bool copy(void *to, uintptr_t from, size_t size) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    struct iovec here = {to, size}, there = {(void *)from, size};
    if (refused)
        return false;
    int kept = errno;
    long got = syscall(SYS_process_vm_readv, getpid(), &here, 1ul, &there, 1ul, 0ul);
    if (got < 0 && errno != EFAULT)
        refused = true;
    errno = kept;
    return got == (long)size;
}

static uintptr_t word_at(uintptr_t address) {
    uintptr_t word = 0;
    return copy(&word, address, sizeof word) ? word : 0;
}

static bool is_a(uintptr_t object, uintptr_t type) {
    return object && type && word_at(object + sizeof(uintptr_t)) == type;
}

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

/* This thread's state; 0: it has none, or it was not found. Other threads may come and go
 * meanwhile. */
static uintptr_t find_thread(const struct layout *layout, uintptr_t runtime) {
    uintptr_t self = this_thread();
    uintptr_t interpreter = word_at(runtime + layout->runtime_interpreters);
    for (int i = 0; interpreter && i < INTERPRETERS; i++) {
        uintptr_t thread = word_at(interpreter + layout->interpreter_threads);
        for (int n = 0; thread && n < THREADS; n++) {
            if (word_at(thread + layout->thread_id) == self)
                return thread;
            thread = word_at(thread + layout->thread_next);
        }
        interpreter = word_at(interpreter + layout->interpreter_next);
    }
    return 0;
}

/* Copies the end of a str, as far as there is room; what is not ASCII becomes a question mark. */
static bool copy_text(const struct layout *layout, uintptr_t text, char *to, size_t size) {
    enum { COMPACT = 1 << 5, ASCII = 1 << 6, WIDEST = 4 };
    uint32_t state = 0;
    unsigned char wide[PATH * WIDEST];
    size_t length = word_at(text + layout->text_length), skipped = 0;
    if (!copy(&state, text + layout->text_state, sizeof state) || !(state & COMPACT) || !length)
        return false;
    size_t width = state >> 2 & 7;
    if (width != 1 && width != 2 && width != WIDEST)
        return false;
    if (length >= size) {
        skipped = length - size + 1;
        length = size - 1;
    }
    uintptr_t data = text + (state & ASCII ? layout->text_ascii : layout->text_other);
    if (!copy(wide, data + skipped * width, length * width))
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

/* A number in six bits a byte, the least first. Moves *at behind it. */
static unsigned read_number(const unsigned char *table, size_t size, size_t *at) {
    unsigned number = 0;
    for (unsigned shift = 0; *at < size && shift < 32; shift += 6) {
        unsigned char byte = table[(*at)++];
        number |= (byte & 63u) << shift;
        if (!(byte & 64))
            break;
    }
    return number;
}

static int read_signed(const unsigned char *table, size_t size, size_t *at) {
    unsigned number = read_number(table, size, at);
    return number & 1 ? -(int)(number >> 1) : (int)(number >> 1);
}

/* The line of a code unit, by the table of locations of Python 3.11 and later
 * (Objects/locations.md of its sources); 0: it has none. */
static int line_of(const unsigned char *table, size_t size, int line, size_t unit) {
    enum { SHORT_END = 10, ONE_LINE_END = 13, NO_COLUMNS = 13, LONG = 14, NONE = 15 };
    size_t at = 0, end = 0;
    while (at < size) {
        unsigned char head = table[at++];
        unsigned kind = head >> 3 & 15;
        end += (head & 7u) + 1;
        if (kind == LONG || kind == NO_COLUMNS) {
            line += read_signed(table, size, &at);
            for (int i = 0; kind == LONG && i < 3; i++)
                read_number(table, size, &at);
        } else if (kind < SHORT_END) {
            at++;
        } else if (kind < ONE_LINE_END) {
            line += (int)kind - SHORT_END;
            at += 2;
        }
        if (unit < end)
            return kind == NONE ? 0 : line;
    }
    return 0;
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

static bool describe(const struct layout *layout, const struct module *interpreter, uintptr_t frame,
                     struct python_line *line) {
    static unsigned char table[TABLE]; /* LOCK_LOADER held */
    char name[NAME], path[PATH];
    int first = 0;
    uintptr_t str = image_find_object(interpreter, "PyUnicode_Type");
    uintptr_t code = word_at(frame + layout->frame_code);
    if (!is_a(code, image_find_object(interpreter, "PyCode_Type")))
        return false;
    uintptr_t at = word_at(frame + layout->frame_previous_instruction);
    uintptr_t file = word_at(code + layout->code_filename);
    uintptr_t function = word_at(code + layout->code_name);
    uintptr_t lines = word_at(code + layout->code_lines);
    uintptr_t bytes = code + layout->code_bytes;
    size_t units = word_at(code + 2 * sizeof(uintptr_t));
    if (!is_a(file, str) || !is_a(function, str) ||
        !is_a(lines, image_find_object(interpreter, "PyBytes_Type")) || at < bytes ||
        (at - bytes) / UNIT >= units)
        return false;
    size_t size = word_at(lines + 2 * sizeof(uintptr_t));
    if (size > sizeof table || !copy(table, lines + layout->bytes_data, size) ||
        !copy(&first, code + layout->code_first_line, sizeof first) ||
        !copy_text(layout, file, path, sizeof path) ||
        !copy_text(layout, function, name, sizeof name))
        return false;
    int number = line_of(table, size, first, (at - bytes) / UNIT);
    if (number <= 0)
        return false;
    write_text(line->text, name, path, number);
    line->next_low = at;
    line->next_high = at + UNIT;
    return true;
}

bool python_line_find(const struct module *interpreter, struct python_line *line) {
    lock_check_held(LOCK_LOADER);
    uintptr_t runtime = image_find_object(interpreter, "_PyRuntime");
    uintptr_t version = runtime ? image_find_object(interpreter, "Py_Version") : 0;
    unsigned long number = version ? word_at(version) : 0;
    for (size_t i = 0; number && i < sizeof layouts / sizeof layouts[0]; i++) {
        if (layouts[i].version != number >> 16)
            continue;
        uintptr_t thread = find_thread(&layouts[i], runtime);
        uintptr_t cframe = thread ? word_at(thread + layouts[i].thread_cframe) : 0;
        uintptr_t frame = cframe ? word_at(cframe + layouts[i].cframe_frame) : 0;
        return frame && describe(&layouts[i], interpreter, frame, line);
    }
    return false;
}
