/* From an instruction as it is written to one that runs. */
#ifndef SIMCUDA_PTX_DECODE_H
#define SIMCUDA_PTX_DECODE_H

#include "parser.h"

enum { MOST_MODIFIERS = 24, MOST_OPERANDS = 12 };

/* An instruction that is being decoded. What nobody takes of its modifiers, it cannot have. */
struct decoding {
    struct parser *parser;
    struct token opcode;
    struct token modifiers[MOST_MODIFIERS];
    bool taken[MOST_MODIFIERS];
    unsigned int modifier_count;
    struct operand operands[MOST_OPERANDS];
    unsigned int operand_count;
    struct token parts[MOST_OPERANDS]; /* of a video instruction: what stands behind an operand */
    bool minus[MOST_OPERANDS];         /* and whether a minus stands before it */
    struct instruction made;
};

/* An instruction that a table says all of. */
struct form {
    const char *text; /* opcode and modifiers, without those of `modes` */
    handler *run;
    /* One letter for each operand: D a destination, P a predicate that is one; p a predicate; h, i,
     * l, q: 16, 32, 64 and 128 bits; f, g: f32 and f64; ? stands before one that may be missing.
     * They become d, a, b, c, and further ones extra->rows. */
    const char *operands;
    /* What modifiers it may have besides: r a rounding (mode), i one to
     * an integral number (mode, mode2 & 8), f .ftz (flag), s .sat (flag2), u
     * .relu (flag3), n .NaN (mode2 & 1), x .xorsign.abs (mode2 & 2), F .satfinite (mode2 & 4) */
    const char *modes;
};

extern const struct form integer_forms[], float_forms[], half_forms[], convert_forms[],
    other_forms[];

__attribute__((format(printf, 2, 3))) bool decode_fail(struct decoding *decoding,
                                                       const char *format, ...);

bool has_modifier(struct decoding *decoding, const char *word);        /* takes it */
bool has_modifier_prefix(struct decoding *decoding, const char *word); /* takes all that begin so */
enum type take_modifier_type(struct decoding *decoding); /* TYPE_NONE: there is none */
/* Which one of several words is there, by its number. -1: none. */
int take_modifier_of(struct decoding *decoding, const char *const *words, unsigned int count);

/* All of these: false, failed. */
bool take_source(struct decoding *decoding, const struct operand *operand, enum type type,
                 operand_row *row);
bool take_destination(struct decoding *decoding, const struct operand *operand, operand_row *row);
bool take_predicate(struct decoding *decoding, const struct operand *operand, operand_row *row);
bool take_predicate_result(struct decoding *decoding, const struct operand *operand,
                           operand_row *row);
/* A vector's parts, or the one operand; sources, or destinations, of which `_` is NO_ROW. */
bool take_parts(struct decoding *decoding, const struct operand *operand, enum type type,
                bool destination, operand_row *rows, unsigned int *count);
/* The address in made.a and made.offset, whether it is the frame's in made.in_frame. */
bool take_address(struct decoding *decoding, const struct operand *operand, enum space space);
bool expect_operands(struct decoding *decoding, unsigned int least, unsigned int most);

struct extra *need_extra(struct decoding *decoding);
struct instruction *emit(struct decoding *decoding, const struct instruction *instruction);

typedef bool decoder(struct decoding *decoding);

/* decode_memory.c */
decoder decode_load, decode_store, decode_atomic, decode_reduction, decode_prefetch, decode_fence,
    decode_is_in_space, decode_to_address;
/* decode_flow.c */
decoder decode_branch, decode_branch_by_index, decode_call, decode_return, decode_exit,
    decode_barrier, decode_trap, decode_breakpoint, decode_nanosleep;
/* decode_other.c */
decoder decode_move, decode_set_predicate, decode_set, decode_select, decode_shuffle, decode_vote,
    decode_match, decode_reduce_lanes, decode_activemask, decode_elect, decode_lop3,
    decode_select_by_sign;
/* decode_video.c */
bool is_video(const struct token *opcode);
bool take_video_operand(struct decoding *decoding, unsigned int operand);
decoder decode_video, decode_video_mad;
/* decode_fetch.c */
decoder decode_texture, decode_gather, decode_surface_load, decode_surface_store, decode_query;

#endif
