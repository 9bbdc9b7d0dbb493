/* The command line that a program was started with, kept so that it can be typed again. */
#ifndef POOLCUDA_BASE_COMMAND_LINE_H
#define POOLCUDA_BASE_COMMAND_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { COMMAND_LINE_MAX = 16 << 10 };

/* The `size` of a line whose text is not kept. */
#define COMMAND_LINE_TOO_LONG UINT32_MAX

/* Texts, each ended by a zero, which are any bytes else: the folder that the program was started in
 * ("": not known), what a shell is to call it by, then argv[0], argv[1], ... (argv[0] may be
 * anything, or absent). Invariant of what command_line_is_sound: size is 0 (not known),
 * COMMAND_LINE_TOO_LONG, or that of text, which has at least the first two. */
struct command_line {
    uint32_t size;
    char text[COMMAND_LINE_MAX];
};

/* To be called with what the program's constructors get, before the program can change any of it:
 * programs permute argv (getopt) and write a title over it (setproctitle). */
void command_line_take(int argc, char *const *argv);

/* The command line of this process. */
const struct command_line *command_line_own(void);

bool command_line_is_sound(const struct command_line *line);

/* The bytes of text that are used. */
static inline size_t command_line_used(const struct command_line *line) {
    return line->size == COMMAND_LINE_TOO_LONG ? 0 : line->size;
}

/* The first text, of a sound one that is known; the one after `text`, NULL behind the last. */
static inline const char *command_line_first(const struct command_line *line) {
    return command_line_used(line) ? line->text : NULL;
}
const char *command_line_next(const struct command_line *line, const char *text);

/* Puts a text behind the others. What does not fit makes it COMMAND_LINE_TOO_LONG for good. */
void command_line_add(struct command_line *line, const char *text);

#endif
