/* Any PTX loads or is refused with a line, and what loads runs to an end or to an error: never past
 * its memory. The input is a text, or changes of one that is right: a byte says which. */
#include "simt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_TEXT = 1 << 16, MOST_TOKENS = 4096, ROOM = 1 << 16, MOST_ROUNDS = 1 };
static const uint64_t room_begin = 0x700000000000;

/* Each has a kernel `k` of one parameter, the address of ROOM bytes; all kinds of instructions are
 * in one of them. */
static const char *const texts[] = {
    ".version 8.6\n.target sm_90\n.address_size 64\n"
    ".visible .entry k(.param .u64 at) { .reg .u64 a, b; .reg .u32 x, y, z; .reg .pred p, q;\n"
    "ld.param.u64 a, [at]; mov.u32 x, %tid.x; mad.wide.u32 a, x, 16, a; ld.global.v4.u32 {x, y, z, "
    "_}, [a];\n"
    "add.cc.u32 x, x, y; addc.u32 y, y, 0; bfe.s32 z, z, 3, 7; prmt.b32 x, x, y, 0x5410; lop3.b32 "
    "y, x, y, z, 0xe8;\n"
    "shf.l.wrap.b32 z, x, y, 5; popc.b32 z, z; setp.lt.and.s32 p|q, x, y, q; @!p sub.u32 x, x, 1;\n"
    "selp.b32 y, x, z, q; mul.hi.u32 z, x, y; div.s32 z, z, y; vabsdiff4.u32.u32.u32 z, x, y, z; "
    "dp4a.u32.s32 z, x, y, z;\n"
    "st.global.v2.u32 [a+8], {y, z}; ret; }\n",
    ".version 8.6\n.target sm_90\n.address_size 64\n"
    ".visible .entry k(.param .u64 at) { .reg .u64 a; .reg .f32 f<4>; .reg .f64 d<3>; .reg .b16 "
    "h<4>; .reg .b32 r<5>; .reg .pred p;\n"
    "ld.param.u64 a, [at]; ld.global.f32 f0, [a]; ld.global.f64 d0, [a+8]; fma.rn.f32 f1, f0, "
    "0f3F800000, f0;\n"
    "div.rz.f64 d1, d0, d0; cvt.rzi.s32.f32 r0, f1; cvt.rn.f16.f32 h0, f1; add.rn.f16 h1, h0, h0; "
    "mov.b32 r1, {h0, h1};\n"
    "fma.rn.relu.bf16x2 r2, r1, r1, r1; sin.approx.f32 f2, f0; ex2.approx.ftz.f32 f2, f2; "
    "min.NaN.f32 f3, f2, f1; setp.geu.f64 p, d0, d1;\n"
    "cvt.rn.satfinite.e4m3x2.f32 h2, f0, f1; @p st.global.b16 [a+2], h2; st.global.f64 [a+16], d1; "
    "st.global.f32 [a], f3; exit; }\n",
    ".version 8.6\n.target sm_90\n.address_size 64\n"
    ".const .align 4 .u32 table[4] = {1, 2, 3, 4}; .global .align 8 .u64 pointer = table; .extern "
    ".shared .align 8 .b8 dynamic[];\n"
    ".func (.param .b32 r) twice(.param .b32 n) { .reg .u32 x; .reg .pred p; ld.param.b32 x, [n]; "
    "setp.gt.u32 p, x, 9; @p bra more; st.param.b32 [r], x; ret;\n"
    "more: shr.u32 x, x, 1; { .param .b32 m; .param .b32 q; st.param.b32 [m], x; call.uni (q), "
    "twice, (m); ld.param.b32 x, [q]; } st.param.b32 [r], x; ret; }\n"
    ".visible .entry k(.param .u64 at) .maxntid 64 { .reg .u64 a, b, f; .reg .u32 x, y; .shared "
    ".align 8 .b8 words[512]; .local .align 8 .b8 own[64];\n"
    "ld.param.u64 a, [at]; mov.u32 x, %tid.x; mov.u64 b, table; ld.const.u32 y, [b+4]; mov.u64 b, "
    "own; cvta.local.u64 b, b; st.u32 [b+4], y; ld.local.u32 y, [own+4];\n"
    "mov.u64 f, twice; { .param .b32 n; .param .b32 r; st.param.b32 [n], x; call (r), f, (n), "
    "types; ld.param.b32 y, [r]; }\n"
    "types: .callprototype (.param .b32 _) _ (.param .b32 _);\n"
    "mul.wide.u32 b, x, 4; mov.u64 f, words; add.u64 f, f, b; st.shared.u32 [f], y; bar.sync 0; "
    "ld.shared.u32 y, [words+8]; atom.shared.add.u32 x, [f], y;\n"
    "and.b32 y, x, 1; list: .branchtargets one, two; brx.idx y, list; one: red.global.max.u32 "
    "[a+4], x; bra.uni two; two: ret; }\n",
    ".version 8.6\n.target sm_90\n.address_size 64\n"
    ".visible .entry k(.param .u64 at) { .reg .u64 a, b; .reg .u32 x, y; .reg .pred p, q; .reg "
    ".b64 t;\n"
    "ld.param.u64 a, [at]; mov.u32 x, %laneid; again: shfl.sync.bfly.b32 y|p, x, 3, 31, "
    "0xffffffff; vote.sync.ballot.b32 x, p, -1; match.any.sync.b32 x, y, 0xffffffff;\n"
    "redux.sync.add.u32 x, y, 0xffffffff; activemask.b32 y; bar.red.popc.u32 y, 1, 64, p; "
    "bar.arrive 2, 64; barrier.sync 2, 64; bar.warp.sync 0xffffffff;\n"
    "setp.ne.u32 p, x, 0; @p bra done; isspacep.shared q, a; bra again; done: atom.global.cas.b64 "
    "b, [a], 0, 5; atom.add.noftz.f16x2 x, [a+8], y; fence.acq_rel.gpu;\n"
    "mov.u64 t, %clock64; nanosleep.u32 20; st.volatile.global.u64 [a+16], t; "
    "ld.acquire.gpu.global.u32 x, [a]; trap; }\n",
};

/* A text that is being made. Invariant: length < MOST_TEXT, and text[length] == 0. */
struct text {
    size_t length;
    char text[MOST_TEXT];
};

static void append(struct text *text, const char *from, size_t length) {
    if (length >= MOST_TEXT - text->length)
        return;
    memcpy(text->text + text->length, from, length);
    text->length += length;
    text->text[text->length] = '\0';
}

/* A token is a word with its dots, a number, or one other character. */
static size_t token_length(const char *at) {
    size_t word = strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_%$");

    return word ? word : at[0] != '\0';
}

static size_t find_tokens(const char *text, const char **tokens, size_t most) {
    size_t count = 0;

    while (*text && count < most) {
        if (*text != ' ' && *text != '\n')
            tokens[count++] = text;
        text += token_length(text);
    }
    return count;
}

struct input {
    const uint8_t *data;
    size_t size;
};

static uint32_t next_number(struct input *input, uint32_t below) {
    uint32_t number = 0;

    for (int i = 0; i < 2 && input->size; i++, input->size--)
        number = number << 8 | *input->data++;
    return below != 0 ? number % below : 0;
}

/* Some text in the place of a token: another one of any text, a number, a character. */
static void append_other(struct text *text, struct input *input) {
    static const char *const odd[] = {"-1",  "0xffffffff", "4294967297", "0",   "{",          "}",
                                      "(",   ")",          "[",          "]",   "!",          "@",
                                      ".b8", "64",         ".v4.",       "1e9", "0f7FC00000", "|",
                                      "<5>", "\"s\"",      "/*"};
    static const char *tokens[MOST_TOKENS];
    const char *other = texts[next_number(input, sizeof texts / sizeof texts[0])];
    size_t count = find_tokens(other, tokens, MOST_TOKENS);
    uint32_t which = next_number(input, 5);

    if (which == 0) {
        const char *word = odd[next_number(input, sizeof odd / sizeof odd[0])];

        append(text, word, strlen(word));
    } else if (which == 1) {
        char character = (char)next_number(input, 256);

        if (character != '\0')
            append(text, &character, 1);
    } else {
        const char *token = tokens[next_number(input, (uint32_t)count)];

        append(text, token, token_length(token));
    }
}

/* The text with changes of its tokens: each is two bytes of a place and what follows. */
static void change(struct text *text, const char *right, struct input *input) {
    static const char *tokens[MOST_TOKENS];
    static uint8_t changed[MOST_TOKENS];
    size_t count = find_tokens(right, tokens, MOST_TOKENS);

    memset(changed, 0, sizeof changed);
    for (uint32_t changes = 1 + next_number(input, 4); changes; changes--)
        changed[next_number(input, (uint32_t)count)] = (uint8_t)(1 + next_number(input, 4));
    for (size_t i = 0; i < count; i++) {
        const char *end = i + 1 < count ? tokens[i + 1] : tokens[i] + strlen(tokens[i]);
        size_t whole = (size_t)(end - tokens[i]), length = token_length(tokens[i]);

        if (changed[i] == 1) /* left out */
            continue;
        if (changed[i] == 2) /* twice */
            append(text, tokens[i], whole);
        if (changed[i] == 3) { /* another one */
            append_other(text, input);
            append(text, tokens[i] + length, whole - length);
            continue;
        }
        append(text, tokens[i], whole);
        if (changed[i] == 4) /* and another one */
            append_other(text, input);
    }
}

/* --- running --- */

static unsigned char *room;
static uint64_t changes;

static bool find(void *owner, uint64_t address, struct simt_range *range) {
    (void)owner;
    *range = (struct simt_range){room_begin, room_begin + ROOM, room, true};
    return address >= room_begin && address < room_begin + ROOM;
}

static void describe(void *owner, uint64_t address, char *text, size_t size) {
    (void)owner, (void)address;
    snprintf(text, size, "nothing");
}

static bool texture(void *owner, uint64_t handle, bool surface, struct simt_texture *found) {
    (void)owner, (void)handle, (void)surface, (void)found;
    return false;
}

static void print(void *owner, const char *text, size_t length) {
    (void)owner, (void)text, (void)length;
}

static void run(struct simt_module *module) {
    static const struct simt_memory memory = {
        .find = find, .describe = describe, .texture = texture, .changes = &changes};
    struct simt_kernel *kernel = simt_find_kernel(module, "k");
    struct simt_launch launch = {.kernel = kernel,
                                 .grid = {2, 1, 1},
                                 .block = {64, 1, 1},
                                 .dynamic_shared = 64,
                                 .processors = 1,
                                 .memory = &memory,
                                 .print = print,
                                 .most_rounds = MOST_ROUNDS};
    size_t bytes;
    unsigned char *parameters;

    if (kernel == NULL || simt_shared_bytes(kernel) > 1 << 20)
        return;
    bytes = simt_parameter_bytes(kernel);
    parameters = calloc(1, bytes + 8);
    memcpy(parameters, &room_begin, sizeof room_begin);
    launch.parameters = parameters;
    (void)simt_run(&launch);
    free(launch.accesses);
    free(parameters);
}

/* Each variable gets memory of its own, of which the kernels find only the room: so nothing behind
 * it can be reached. */
static void place_and_run(struct simt_program *program) {
    struct simt_module *module = simt_module_new(program);
    struct simt_variable variable = {0};
    unsigned char *memories[256];
    unsigned int count = 0;

    while (count < 256 && simt_next_variable(program, &variable)) {
        if (variable.size > 1 << 20)
            break;
        memories[count] = calloc(1, variable.size + 1);
        if (variable.initial != NULL)
            memcpy(memories[count], variable.initial, variable.size);
        simt_module_place(module, variable.index, room_begin + 256 * count, memories[count]);
        count++;
    }
    simt_module_placed(module);
    run(module);
    simt_module_end(module);
    while (count)
        free(memories[--count]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct text text;
    struct input input = {data, size};
    struct simt_failure failure = {0};
    struct simt_program *program;
    const char *linked[1] = {text.text};
    unsigned int which = 0;
    uint32_t seed;

    if (size == 0)
        return 0;
    text.length = 0;
    text.text[0] = '\0';
    seed = next_number(&input, sizeof texts / sizeof texts[0] + 1);
    if (seed < sizeof texts / sizeof texts[0])
        change(&text, texts[seed], &input);
    else
        append(&text, (const char *)input.data, strnlen((const char *)input.data, input.size));
    program = simt_parse(linked, 1, &failure, &which);
    if (program == NULL) {
        if (failure.line == 0 || failure.text[0] == '\0')
            abort(); /* refused without a reason */
        return 0;
    }
    room = calloc(1, ROOM);
    place_and_run(program);
    free(room);
    simt_drop(program);
    return 0;
}
