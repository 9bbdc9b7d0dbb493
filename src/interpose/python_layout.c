#include "interpose/python_layout.h"

#include "base/lock.h"
#include "interpose/image.h"
#include "interpose/safe_read.h"

#include <string.h>

enum { UNIT = 2 /* bytes of an instruction */, OFFSET_MAX = 1 << 14 };

/* offsetof() with each version's headers, on machines of 64 bits. Tests run 3.9 and 3.11; 3.8, 3.10
 * and 3.12 have been tried by hand. */
static const struct python_layout known[] = {
    {PYTHON_3_8, 176, 0, 24, 32, 104, 0, 0, 104, 112, 120, 40, 48, 8, 16, 0, 48, 72, 2 * UNIT},
    {PYTHON_3_9, 176, 0, 24, 32, 104, 0, 0, 104, 112, 120, 40, 48, 8, 16, 0, 48, 72, 2 * UNIT},
    {PYTHON_3_10, 176, 0, 24, 32, 96, 0, 0, 104, 112, 120, 40, 48, 8, 16, 0, 48, 72, 2 * UNIT},
    {PYTHON_3_11, 152, 56, 8, 32, 56, 0, 0, 112, 120, 136, 72, 184, 8, 16, 0, 48, 72, UNIT},
    {PYTHON_3_12, 136, 56, 0, 0, 56, 0, 0, 112, 120, 136, 68, 192, 8, 16, 0, 40, 56, UNIT},
};

/* Where in _Py_DebugOffsets, with which _PyRuntime begins, an interpreter says where things lie.
 * Tests run 3.13 and 3.14; 3.15 has been tried by hand, and builds without the global lock nowhere.
 */
static const struct said {
    uint16_t version;
    uint16_t thread_id, thread_frame, frame_code, frame_instruction, frame_copy;
    uint16_t code_filename, code_name, code_lines, code_first_line, code_bytes, code_copies;
    uint16_t object_type, object_size, text_ascii;
} said[] = {
    {PYTHON_3_13, 192, 184, 240, 248, 0, 280, 288, 304, 312, 344, 0, 360, 352, 560},
    {PYTHON_3_14, 216, 208, 264, 272, 304, 320, 328, 344, 352, 384, 392, 408, 400, 640},
    {PYTHON_3_15, 240, 208, 328, 336, 368, 384, 392, 408, 416, 448, 456, 472, 464, 736},
};

/* What a release before 3.11 is known by: a function that it is the first to have. */
static const struct {
    char function[32];
    uint16_t version;
} firsts[] = {
    {"PyIter_Send", PYTHON_3_10},
    {"PyFrame_GetBack", PYTHON_3_9},
    {"PyCode_NewWithPosOnlyArgs", PYTHON_3_8},
};

/* Reads the offset that the interpreter says at `where`; false: it says nothing likely. */
static bool read_offset(uintptr_t runtime, uint16_t where, uint16_t *offset) {
    uint64_t number = 0;
    if (!safe_read(&number, runtime + where, sizeof number) || number >= OFFSET_MAX)
        return false;
    *offset = (uint16_t)number;
    return true;
}

/* `number`: Py_Version, so that a table of another interpreter's is not believed. */
static bool ask_interpreter(uintptr_t runtime, uint64_t number, const struct said *row,
                            struct python_layout *layout) {
    struct {
        char cookie[8];
        uint64_t version, free_threaded;
    } head;
    *layout = (struct python_layout){.version = row->version, .ahead = 4 * UNIT};
    if (!safe_read(&head, runtime, sizeof head) || memcmp(head.cookie, "xdebugpy", 8) != 0 ||
        head.version != number || !read_offset(runtime, row->thread_id, &layout->thread_id) ||
        !read_offset(runtime, row->thread_frame, &layout->thread_frame) ||
        !read_offset(runtime, row->frame_code, &layout->frame_code) ||
        !read_offset(runtime, row->frame_instruction, &layout->frame_instruction) ||
        !read_offset(runtime, row->code_filename, &layout->code_filename) ||
        !read_offset(runtime, row->code_name, &layout->code_name) ||
        !read_offset(runtime, row->code_lines, &layout->code_lines) ||
        !read_offset(runtime, row->code_first_line, &layout->code_first_line) ||
        !read_offset(runtime, row->code_bytes, &layout->code_bytes) ||
        !read_offset(runtime, row->object_type, &layout->object_type) ||
        !read_offset(runtime, row->object_size, &layout->object_size) ||
        !read_offset(runtime, row->text_ascii, &layout->text_ascii))
        return false;
    layout->text_other = layout->text_ascii + 2 * sizeof(uintptr_t);
    if (!head.free_threaded || row->version < PYTHON_3_14)
        return true;
    layout->text_shift = 6;
    return read_offset(runtime, row->frame_copy, &layout->frame_copy) &&
           read_offset(runtime, row->code_copies, &layout->code_copies);
}

bool python_layout_find(const struct module *interpreter, struct python_layout *layout) {
    lock_check_held(LOCK_LOADER);
    uintptr_t runtime = image_find_object(interpreter, "_PyRuntime");
    uintptr_t stated = runtime ? image_find_object(interpreter, "Py_Version") : 0;
    uint64_t number = stated ? safe_read_word(stated) : 0;
    unsigned version = (unsigned)(number >> 16);
    for (size_t i = 0; runtime && !stated && !version && i < sizeof firsts / sizeof firsts[0]; i++)
        if (image_find_function(interpreter, firsts[i].function, NULL))
            version = firsts[i].version;
    for (size_t i = 0; version && i < sizeof known / sizeof known[0]; i++)
        if (known[i].version == version) {
            *layout = known[i];
            return true;
        }
    for (size_t i = 0; version && i < sizeof said / sizeof said[0]; i++)
        if (said[i].version == version)
            return ask_interpreter(runtime, number, &said[i], layout);
    return false;
}
