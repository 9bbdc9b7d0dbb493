/* Where things lie in the structures of an interpreter of CPython. */
#ifndef POOLCUDA_INTERPOSE_PYTHON_LAYOUT_H
#define POOLCUDA_INTERPOSE_PYTHON_LAYOUT_H

#include "base/modules.h"

#include <stdbool.h>
#include <stdint.h>

/* Versions from which on something is otherwise. */
enum {
    PYTHON_3_8 = 0x0308,
    PYTHON_3_9,
    PYTHON_3_10, /* instructions are counted in units of two bytes */
    PYTHON_3_11, /* the interpreter's frames are no objects */
    PYTHON_3_12,
    PYTHON_3_13, /* the interpreter itself says where things lie, for debuggers */
    PYTHON_3_14,
    PYTHON_3_15,
};

/* All but version, ahead and text_shift are offsets in bytes: of a field, or, of text_ascii and
 * text_other, of a str's characters from its beginning. */
struct python_layout {
    uint16_t version;
    uint16_t thread_id, thread_cframe; /* 0: the frame is in the thread's state itself */
    uint16_t thread_frame, frame_code, frame_instruction;
    uint16_t frame_copy, code_copies; /* 0: instructions are not copied for each thread */
    uint16_t code_filename, code_name, code_lines, code_first_line, code_bytes;
    uint16_t object_type, object_size; /* of what every object begins with */
    uint16_t text_shift, text_ascii, text_other;
    uint16_t ahead; /* from the instruction that calls at most to the one that is next */
};

/* False: the module is no interpreter of a version that is known. LOCK_LOADER held. */
bool python_layout_find(const struct module *interpreter, struct python_layout *layout);

#endif
