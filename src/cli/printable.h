/* Text from files, processes and users, made harmless to a terminal. */
#ifndef POOLCUDA_CLI_PRINTABLE_H
#define POOLCUDA_CLI_PRINTABLE_H

/* Replaces control characters, C1 controls and bytes that are not UTF-8 by '?', in place. Returns
 * text. */
char *printable(char *text);

/* A copy of text, made printable; NULL without memory. The caller frees it. */
char *printable_copy(const char *text);

/* text as one word of a shell command, printable, from which the shell makes the same bytes; NULL
 * without memory. The caller frees it. */
char *printable_word(const char *text);

#endif
