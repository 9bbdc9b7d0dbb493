/* The line of Python is read from structures as each version has them, and from anything else that
 * lies there nothing is read which faults. This program takes the interpreter's place. */
#include "interpose/python_line.h"

#include "interpose/python_layout.h"
#include "interpose/safe_read.h"

/* cmocka.h needs the others before it. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

static const uint64_t cookie = 0x7970677562656478; /* "xdebugpy" */
enum { PAGE = 4096, ARENA = 4 * PAGE, WORD = sizeof(uint64_t), UNIT = 2, DATA = 16 };

/* What an interpreter exports. */
#define EXPORTED __attribute__((visibility("default")))
extern unsigned char _PyRuntime[1024];
extern unsigned long Py_Version;
extern unsigned char PyCode_Type[8], PyUnicode_Type[8], PyBytes_Type[8];
EXPORTED unsigned char _PyRuntime[1024]; // NOLINT(bugprone-reserved-identifier)
EXPORTED unsigned long Py_Version;
EXPORTED unsigned char PyCode_Type[8], PyUnicode_Type[8], PyBytes_Type[8];

/* What a thread of later versions has; earlier ones have it by a key. */
static _Thread_local uintptr_t state_of_thread;
static pthread_key_t key;

static struct module interpreter;
static unsigned char *arena; /* behind it nothing can be read */

static int set_up(void **state) {
    (void)state;
    assert_int_equal(pthread_key_create(&key, NULL), 0);
    arena = mmap(NULL, ARENA + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(arena, MAP_FAILED);
    assert_int_equal(mprotect(arena + ARENA, PAGE, PROT_NONE), 0);
    return 0;
}

static void put(uintptr_t address, uint64_t value) {
    memcpy((void *)address, &value, sizeof value);
}

static void put_object(const struct python_layout *layout, uintptr_t object, const void *type,
                       uint64_t size) {
    put(object + layout->object_type, (uintptr_t)type);
    put(object + layout->object_size, size);
}

static void put_text(const struct python_layout *layout, uintptr_t text, const char *characters) {
    enum { COMPACT_ASCII_OF_ONE_BYTE = 1 << 2 | 1 << 5 | 1 << 6 };
    put_object(layout, text, PyUnicode_Type, strlen(characters));
    put(text + layout->object_size + DATA,
        (uint64_t)COMPACT_ASCII_OF_ONE_BYTE << layout->text_shift);
    memcpy((void *)(text + layout->text_ascii), characters, strlen(characters));
}

static void put_bytes(const struct python_layout *layout, uintptr_t bytes, const void *data,
                      size_t size) {
    put_object(layout, bytes, PyBytes_Type, size);
    memcpy((void *)(bytes + layout->object_size + DATA), data, size);
}

/* The interpreter executes the second unit of a function whose first line is 40, and which has its
 * instructions from line 42 on. Returns where that unit lies. */
static uintptr_t put_all(const struct python_layout *layout) {
    enum { STATE = 64, CFRAME = 512, FRAME = 600, CODE = 1024, FILE_NAME = 2048, NAME = 2304 };
    enum { LINES = 2560, BYTES = 3072, COPIES = 3328, COPY = 3584 };
    static const char steps[] = {0, 2}, ranges[] = {16, 2}, locations[] = {(char)0xef, 4};
    uintptr_t begin = (uintptr_t)arena, at;
    memset(arena, 0, ARENA);
    put(begin + STATE + layout->thread_id, (uintptr_t)pthread_self());
    put(begin + STATE + layout->thread_cframe, begin + CFRAME);
    put(begin + (layout->thread_cframe ? CFRAME : STATE) + layout->thread_frame, begin + FRAME);
    put(begin + FRAME + layout->frame_code,
        (begin + CODE) | (layout->version >= PYTHON_3_14)); /* as references there are marked */
    put_object(layout, begin + CODE, PyCode_Type, 8);
    put(begin + CODE + layout->code_filename, begin + FILE_NAME);
    put(begin + CODE + layout->code_name, begin + NAME);
    put(begin + CODE + layout->code_lines, begin + LINES);
    put_text(layout, begin + FILE_NAME, "/some/file.py");
    put_text(layout, begin + NAME, "name");
    put_bytes(layout, begin + LINES,
              layout->version < PYTHON_3_10   ? steps
              : layout->version < PYTHON_3_11 ? ranges
                                              : locations,
              2);
    memcpy((void *)(begin + CODE + layout->code_first_line), &(int){40}, sizeof(int));
    if (layout->version < PYTHON_3_11) {
        put(begin + CODE + layout->code_bytes, begin + BYTES);
        put_bytes(layout, begin + BYTES, "0123456789abcdef", 16);
        at = begin + BYTES + layout->object_size + DATA + UNIT;
        int number = layout->version < PYTHON_3_10 ? UNIT : 1;
        memcpy((void *)(begin + FRAME + layout->frame_instruction), &number, sizeof number);
    } else {
        at = begin + CODE + layout->code_bytes + UNIT;
        if (layout->frame_copy) {
            at = begin + COPY + UNIT;
            put(begin + COPIES, 2);
            put(begin + COPIES + 2 * sizeof(uint64_t), begin + COPY);
            put(begin + CODE + layout->code_copies, begin + COPIES);
            memcpy((void *)(begin + FRAME + layout->frame_copy), &(int){1}, sizeof(int));
        }
        put(begin + FRAME + layout->frame_instruction, at);
    }
    state_of_thread = begin + STATE;
    return at;
}

/* What an interpreter says of itself, with offsets of a build with or without the global lock. */
static void say(unsigned long version, bool free_threaded) {
    static const struct {
        uint16_t where_3_13, where_3_14, where_3_15, offset, free_threaded;
    } offsets[] = {
        {192, 216, 240, 152, 168}, /* thread_state.thread_id */
        {184, 208, 208, 72, 80},   /* thread_state.current_frame */
        {240, 264, 328, 0, 0},     /* interpreter_frame.executable */
        {248, 272, 336, 56, 56},   /* interpreter_frame.instr_ptr */
        {0, 304, 368, 0, 72},      /* interpreter_frame.tlbc_index */
        {280, 320, 384, 112, 128}, /* code_object.filename */
        {288, 328, 392, 120, 136}, /* code_object.name */
        {304, 344, 408, 136, 152}, /* code_object.linetable */
        {312, 352, 416, 68, 84},   /* code_object.firstlineno */
        {344, 384, 448, 208, 240}, /* code_object.co_code_adaptive */
        {0, 392, 456, 0, 224},     /* code_object.co_tlbc */
        {352, 400, 464, 16, 32},   /* pyobject.size */
        {360, 408, 472, 8, 24},    /* pyobject.ob_type */
        {560, 640, 736, 40, 56},   /* unicode_object.asciiobject_size */
    };
    memset(_PyRuntime, 0xff, sizeof _PyRuntime);
    memcpy(_PyRuntime, &cookie, sizeof cookie);
    memcpy(_PyRuntime + 8, &version, sizeof version);
    memcpy(_PyRuntime + 16, &(uint64_t){free_threaded}, sizeof(uint64_t));
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        uint16_t where = version >> 16 == PYTHON_3_13   ? offsets[i].where_3_13
                         : version >> 16 == PYTHON_3_14 ? offsets[i].where_3_14
                                                        : offsets[i].where_3_15;
        uint64_t offset = free_threaded ? offsets[i].free_threaded : offsets[i].offset;
        if (where)
            memcpy(_PyRuntime + where, &offset, sizeof offset);
    }
    Py_Version = version;
}

struct build {
    unsigned version;
    bool free_threaded;
};
static const struct build builds[] = {
    {PYTHON_3_8, false},  {PYTHON_3_9, false},  {PYTHON_3_10, false}, {PYTHON_3_11, false},
    {PYTHON_3_12, false}, {PYTHON_3_13, false}, {PYTHON_3_14, false}, {PYTHON_3_15, false},
    {PYTHON_3_13, true},  {PYTHON_3_14, true},  {PYTHON_3_15, true},
};
enum { BUILDS = sizeof builds / sizeof builds[0] };

static struct python_layout become(const struct build *build) {
    struct python_layout layout;
    say((unsigned long)build->version << 16 | 0x05f0, build->free_threaded);
    assert_true(modules_find((uintptr_t)become, &interpreter));
    assert_true(python_layout_find(&interpreter, &layout));
    return layout;
}

static void each_version_has_its_line(void **state) {
    (void)state;
    for (size_t i = 0; i < BUILDS; i++) {
        struct python_layout layout = become(&builds[i]);
        uintptr_t at = put_all(&layout);
        struct python_line line;
        assert_int_equal(python_line_find(&interpreter, &line), PYTHON_LINE_FOUND);
        assert_string_equal(line.text, "name (/some/file.py:42)");
        assert_int_equal(line.next_low, at);
        assert_in_range(line.next_high, at + UNIT, at + 4 * UNIT);
    }
}

static void the_thread_s_state_may_have_a_key(void **state) {
    (void)state;
    struct python_layout layout = become(&builds[0]);
    struct python_line line;
    put_all(&layout);
    assert_int_equal(pthread_setspecific(key, (void *)state_of_thread), 0);
    assert_ptr_equal(pthread_getspecific(key), (void *)state_of_thread);
    state_of_thread = 0;
    assert_int_equal(python_line_find(&interpreter, &line), PYTHON_LINE_FOUND);
    assert_string_equal(line.text, "name (/some/file.py:42)");
    assert_int_equal(pthread_setspecific(key, NULL), 0);
    assert_int_equal(python_line_find(&interpreter, &line), PYTHON_LINE_NONE);
}

static void a_table_of_another_interpreter_is_not_believed(void **state) {
    (void)state;
    struct python_layout layout;
    say(0x030d05f0, false);
    Py_Version = 0x030d06f0;
    assert_false(python_layout_find(&interpreter, &layout));
    say(0x030d05f0, false);
    _PyRuntime[0] = 'X';
    assert_false(python_layout_find(&interpreter, &layout));
    say(0x03ff00f0, false);
    assert_false(python_layout_find(&interpreter, &layout));
}

static void only_what_is_there_is_read(void **state) {
    (void)state;
    unsigned char bytes[2 * PAGE];
    uintptr_t end = (uintptr_t)arena + ARENA;
    memset(arena, 7, ARENA);
    assert_true(safe_read(bytes, end - sizeof bytes, sizeof bytes));
    assert_int_equal(bytes[0] + bytes[sizeof bytes - 1], 14);
    assert_true(safe_read(bytes, end - 1, 1));
    assert_false(safe_read(bytes, end - sizeof bytes, sizeof bytes + 1));
    assert_false(safe_read(bytes, end - 7, 8));
    assert_false(safe_read(bytes, end, 1));
    assert_false(safe_read(bytes, 0, 1));
    assert_false(safe_read(bytes, UINTPTR_MAX - 3, 8));
    assert_false(safe_read(bytes, UINTPTR_MAX, 1));
    assert_false(safe_read(bytes, (uintptr_t)arena, UINTPTR_MAX));
}

static uint64_t next_random(void) {
    static uint64_t random = 88172645463325252u;
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    return random;
}

/* A word that may take a reader astray. */
static uint64_t astray(void) {
    uintptr_t begin = (uintptr_t)arena;
    switch (next_random() % 8) {
    case 0:
        return next_random();
    case 1:
        return next_random() % 256;
    case 2:
        return begin + ARENA - next_random() % 64;
    case 3:
        return begin + ARENA + next_random() % PAGE;
    case 4:
        return UINTPTR_MAX - next_random() % PAGE;
    case 5:
        return begin - next_random() % 64;
    case 6:
        return (uint64_t)1 << next_random() % 64;
    default:
        return begin + next_random() % ARENA;
    }
}

/* Any word that matters lies among the first 512 of the arena, or in what the interpreter says. */
static void nothing_that_lies_there_is_read_past_its_end(void **state) {
    (void)state;
    enum { ROUNDS = 3000, WORDS = 512 };
    size_t found = 0, missed = 0;
    for (size_t i = 0; i < BUILDS; i++)
        for (int round = 0; round < ROUNDS; round++) {
            struct python_layout layout = become(&builds[i]);
            struct python_line line = {.text = ""};
            put_all(&layout);
            for (uint64_t n = 1 + next_random() % 32; n; n--)
                put((uintptr_t)arena + next_random() % WORDS * WORD, astray());
            if (next_random() % 4 == 0)
                put((uintptr_t)_PyRuntime + (3 + next_random() % 100) * WORD, astray());
            if (next_random() % 4 == 0) /* its last bytes are the last that can be read */
                state_of_thread = (uintptr_t)arena + ARENA - next_random() % 300;
            bool is = python_line_find(&interpreter, &line) == PYTHON_LINE_FOUND;
            assert_true(strlen(line.text) < sizeof line.text);
            found += is;
            missed += !is;
        }
    assert_true(found > BUILDS && missed > BUILDS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_version_has_its_line),
        cmocka_unit_test(the_thread_s_state_may_have_a_key),
        cmocka_unit_test(a_table_of_another_interpreter_is_not_believed),
        cmocka_unit_test(only_what_is_there_is_read),
        cmocka_unit_test(nothing_that_lies_there_is_read_past_its_end),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
