#include "every_driver.h"

#if defined(__x86_64__)
#define TAKES(words, _) words
#else
#define TAKES(_, words) words
#endif

struct every_call every_call;
int (*every_inside)(void);

/* stack: the first word that is not in a register */
static int called(const char *name, unsigned words, const uint64_t *stack) {
    every_call.name = name;
    every_call.calls++;
    for (unsigned i = 0; i < MOST_WORDS; i++)
        every_call.words[i] = i < words ? stack[i] : 0;
    return every_inside ? every_inside() : 0;
}

enum {
#define ENTRY(symbol, ...) NUMBER_##symbol,
#include "interpose/entry_points.def"
#undef ENTRY
    ENTRIES,
};
static const unsigned char words[ENTRIES] = {
#define STACK(symbol, x86_64, aarch64) [NUMBER_##symbol] = TAKES(x86_64, aarch64),
#include "interpose/stack_arguments.def"
#undef STACK
};

#define FUNCTION(symbol, words)                                                                    \
    int symbol(void);                                                                              \
    int symbol(void) {                                                                             \
        return called(#symbol, words, __builtin_dwarf_cfa());                                      \
    }
/* Those with hooks are not there: without cuMemAlloc_v2 no pool is made, which would call them. */
#define FUNCTION__(symbol)
#define FUNCTION_hook(symbol)
#define FUNCTION_jump(symbol)           FUNCTION(symbol, words[NUMBER_##symbol])
#define FUNCTION_look(symbol)           FUNCTION_jump(symbol)
#define FUNCTION_peek(symbol)           FUNCTION_jump(symbol)
#define FUNCTION_call(symbol)           FUNCTION_jump(symbol)
#define ENTRY(symbol, since, ours, ...) FUNCTION_##ours(symbol)
#include "interpose/entry_points.def"
#undef ENTRY
#define UNKNOWN_FUNCTIONS(each)                                                                    \
    each(cuUnknown0, 0) each(cuUnknown1, 1) each(cuUnknown2, 2) each(cuUnknown3, 3)                \
        each(cuUnknown4, 4) each(cuUnknown6, 6) each(cuUnknown8, 8) each(cuUnknown10, 10)
UNKNOWN_FUNCTIONS(FUNCTION)

/* number: a row's, or ENTRIES and how many words it takes */
static const struct {
    const char *name;
    unsigned number;
} rows[] = {
#define ROW__(symbol)
#define ROW_hook(symbol)
#define ROW_jump(symbol)                {#symbol, NUMBER_##symbol},
#define ROW_look(symbol)                ROW_jump(symbol)
#define ROW_peek(symbol)                ROW_jump(symbol)
#define ROW_call(symbol)                ROW_jump(symbol)
#define ENTRY(symbol, since, ours, ...) ROW_##ours(symbol)
#include "interpose/entry_points.def"
#undef ENTRY
#define ROW_UNKNOWN(symbol, words) {#symbol, ENTRIES + (words)},
    UNKNOWN_FUNCTIONS(ROW_UNKNOWN)};

bool every_function(unsigned index, struct every_function *function) {
    if (index >= sizeof rows / sizeof rows[0])
        return false;
    unsigned number = rows[index].number;
    bool known = number < ENTRIES;
    *function =
        (struct every_function){rows[index].name, known ? words[number] : number - ENTRIES, known};
    return true;
}
