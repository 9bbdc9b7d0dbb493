/* Branches, calls, ends, barriers. */
#include "decode.h"

#include "handlers.h"

#include <string.h>

static void use_label(struct parser *parser, const struct token *name, uint32_t *target) {
    VECTOR_ADD(&parser->uses, ((struct label_use){.name = *name,
                                                  .instruction = (uint32_t)parser->code.count - 1,
                                                  .target = target,
                                                  .depth = parser->depth}));
}

/* bra.uni says that all threads take it, which nothing depends on. */
bool decode_branch(struct decoding *decoding) {
    has_modifier(decoding, "uni");
    if (!expect_operands(decoding, 1, 1))
        return false;
    if (decoding->operands[0].kind != OPERAND_NAME)
        return decode_fail(decoding, "a label is expected");
    decoding->made.run = run_branch;
    emit(decoding, &decoding->made);
    use_label(decoding->parser, &decoding->operands[0].name, NULL);
    return true;
}

/* brx.idx index, table */
bool decode_branch_by_index(struct decoding *decoding) {
    struct parser *parser = decoding->parser;
    struct instruction *made = &decoding->made;
    const struct local_name *name;
    struct extra *extra = need_extra(decoding);

    has_modifier(decoding, "uni");
    if (!has_modifier(decoding, "idx") || !expect_operands(decoding, 2, 2) ||
        !take_source(decoding, &decoding->operands[0], TYPE_U32, &made->a))
        return decode_fail(decoding, "it is brx.idx");
    name = decoding->operands[1].kind == OPERAND_NAME
               ? find_local(parser, &decoding->operands[1].name)
               : NULL;
    if (name == NULL || name->kind != NAME_TABLE)
        return decode_fail(decoding, "a list of labels is expected");
    extra->target_count = name->table->count;
    extra->targets =
        arena_take(&parser->program->arena, extra->target_count * sizeof *extra->targets);
    made->run = run_branch_by_index;
    emit(decoding, made);
    for (unsigned int i = 0; i < extra->target_count; i++)
        use_label(parser, &name->table->labels[i], &extra->targets[i]);
    return true;
}

/* --- calls --- */

static bool take_argument(struct decoding *decoding, const struct operand *operand,
                          const struct variable *formal, bool received, struct argument *argument) {
    argument->row = NO_ROW;
    if (operand->kind == OPERAND_SINK)
        return true;
    if (operand->kind == OPERAND_VARIABLE && operand->variable->space == SPACE_PARAM &&
        !operand->variable->in_kernel) {
        argument->variable = operand->variable;
        return true;
    }
    return received ? take_destination(decoding, operand, &argument->row)
                    : take_source(decoding, operand, formal != NULL ? formal->type : TYPE_B64,
                                  &argument->row);
}

static bool take_arguments(struct decoding *decoding, const struct operand *list,
                           const struct variable *formal, bool received,
                           struct argument **arguments, unsigned int *count) {
    *count = list->count;
    *arguments = arena_take(&decoding->parser->program->arena, (*count + 1) * sizeof **arguments);
    for (unsigned int i = 0; i < *count; i++) {
        if (!take_argument(decoding, &list->items[i], formal, received, &(*arguments)[i]))
            return false;
        formal = formal != NULL ? formal->next : NULL;
    }
    return true;
}

/* The last operand, where it names one: it says what a function that is called by its address
 * takes. */
static const struct prototype *find_prototype(struct decoding *decoding) {
    const struct operand *last = &decoding->operands[decoding->operand_count - 1];
    const struct local_name *name =
        last->kind == OPERAND_NAME ? find_local(decoding->parser, &last->name) : NULL;

    return name != NULL && name->kind == NAME_PROTOTYPE ? name->prototype : NULL;
}

/* call (results), function, (arguments), prototype */
bool decode_call(struct decoding *decoding) {
    struct parser *parser = decoding->parser;
    struct instruction *made = &decoding->made;
    struct extra *extra = need_extra(decoding);
    unsigned int at = decoding->operands[0].kind == OPERAND_LIST && decoding->operand_count > 1;
    const struct operand *callee = &decoding->operands[at];
    const struct operand none = {.kind = OPERAND_LIST};
    const struct operand *results = at != 0 ? &decoding->operands[0] : &none, *arguments = &none;
    const struct variable *formal_results = NULL, *formal_parameters = NULL;

    has_modifier(decoding, "uni");
    if (decoding->operand_count == 0)
        return decode_fail(decoding, "a function is expected");
    if (at + 1 < decoding->operand_count && decoding->operands[at + 1].kind == OPERAND_LIST)
        arguments = &decoding->operands[at + 1];
    if (callee->kind == OPERAND_FUNCTION) {
        extra->callee = callee->function;
        formal_results = callee->function->results;
        formal_parameters = callee->function->parameters;
        // NOLINTNEXTLINE(bugprone-sizeof-expression): they are pointers
        VECTOR_ADD(&parser->callees, callee->function);
    } else if (callee->kind == OPERAND_REGISTER) {
        const struct prototype *prototype = find_prototype(decoding);

        made->a = callee->row;
        parser->function->calls_by_address = true;
        formal_results = prototype != NULL ? prototype->results : NULL;
        formal_parameters = prototype != NULL ? prototype->parameters : NULL;
    } else {
        return decode_fail(decoding, "a function is expected");
    }
    if (!take_arguments(decoding, results, formal_results, true, &extra->received,
                        &extra->received_count) ||
        !take_arguments(decoding, arguments, formal_parameters, false, &extra->given,
                        &extra->given_count))
        return false;
    made->run = extra->callee != NULL ? run_call : run_call_by_address;
    return emit(decoding, made) != NULL;
}

static bool decode_plain(struct decoding *decoding, handler *run) {
    has_modifier(decoding, "uni");
    decoding->made.run = run;
    return expect_operands(decoding, 0, 0) && emit(decoding, &decoding->made) != NULL;
}

bool decode_return(struct decoding *decoding) {
    return decode_plain(decoding, run_return);
}

bool decode_exit(struct decoding *decoding) {
    return decode_plain(decoding, run_exit);
}

bool decode_trap(struct decoding *decoding) {
    return decode_plain(decoding, run_trap);
}

bool decode_breakpoint(struct decoding *decoding) {
    return decode_plain(decoding, run_breakpoint);
}

/* griddepcontrol.launch_dependents, .wait [PTX ISA, griddepcontrol]: a launch runs behind the
 * kernel before it whatever that lets begin, so that neither has anything to do. */
bool decode_grid_dependents(struct decoding *decoding) {
    static const char *const words[] = {"launch_dependents", "wait"};
    int which = take_modifier_of(decoding, words, 2);

    if (which < 0)
        return decode_fail(decoding, "it is .launch_dependents or .wait");
    if (which == 0)
        decoding->parser->function->lets_dependents_begin = true;
    return decode_plain(decoding, run_nothing);
}

bool decode_nanosleep(struct decoding *decoding) {
    take_modifier_type(decoding);
    decoding->made.run = run_nanosleep;
    return expect_operands(decoding, 1, 1) &&
           take_source(decoding, &decoding->operands[0], TYPE_U32, &decoding->made.a) &&
           emit(decoding, &decoding->made) != NULL;
}

/* --- barriers --- */

/* bar.warp.sync members */
static bool decode_warp_sync(struct decoding *decoding) {
    if (!has_modifier(decoding, "sync"))
        return decode_fail(decoding, "it is bar.warp.sync");
    decoding->made.run = run_warp_sync;
    return expect_operands(decoding, 1, 1) &&
           take_source(decoding, &decoding->operands[0], TYPE_B32, &decoding->made.a) &&
           emit(decoding, &decoding->made) != NULL;
}

/* bar.red.popc.u32 d, a, b, p; bar.red.and.pred p, a, b, q */
static bool decode_barrier_reduction(struct decoding *decoding) {
    static const char *const words[] = {"and", "or", "popc"};
    struct instruction *made = &decoding->made;
    int which = take_modifier_of(decoding, words, 3);
    enum type type = take_modifier_type(decoding);
    unsigned int last = decoding->operand_count - 1;

    if (which < 0 || type != (which == 2 ? TYPE_U32 : TYPE_PRED))
        return decode_fail(decoding, "its operation is .and, .or or .popc");
    made->mode = (uint8_t)which;
    made->run = run_barrier_reduce;
    if (!expect_operands(decoding, 3, 4) ||
        !(which == 2 ? take_destination(decoding, &decoding->operands[0], &made->d)
                     : take_predicate_result(decoding, &decoding->operands[0], &made->d)) ||
        !take_source(decoding, &decoding->operands[1], TYPE_U32, &made->a) ||
        (last == 3 && !take_source(decoding, &decoding->operands[2], TYPE_U32, &made->b)) ||
        !take_predicate(decoding, &decoding->operands[last], &made->c))
        return false;
    return emit(decoding, made) != NULL;
}

bool decode_barrier(struct decoding *decoding) {
    struct instruction *made = &decoding->made;
    bool arrives;

    if (has_modifier(decoding, "warp"))
        return decode_warp_sync(decoding);
    has_modifier(decoding, "cta");
    has_modifier(decoding, "aligned");
    if (has_modifier(decoding, "cluster"))
        return decode_fail(decoding, "clusters are not simulated");
    if (has_modifier(decoding, "red"))
        return decode_barrier_reduction(decoding);
    arrives = has_modifier(decoding, "arrive");
    if (!arrives)
        has_modifier(decoding, "sync");
    made->run = arrives ? run_barrier_arrive : run_barrier;
    return expect_operands(decoding, arrives ? 2 : 1, 2) &&
           take_source(decoding, &decoding->operands[0], TYPE_U32, &made->a) &&
           (decoding->operand_count == 1 ||
            take_source(decoding, &decoding->operands[1], TYPE_U32, &made->b)) &&
           emit(decoding, made) != NULL;
}
