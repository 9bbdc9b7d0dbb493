/* Whose program this is. One that has rights which its caller has not (set-user-id, set-group-id,
 * file capabilities) must not use them for who wrote its environment. */
#ifndef POOLCUDA_INTERPOSE_RIGHTS_H
#define POOLCUDA_INTERPOSE_RIGHTS_H

#include <stdbool.h>

/* To be called before main, with what main gets. Takes the options that name files out of the
 * environment of such a program, as the loader does with its own variables: programs that it starts
 * with all of its rights would obey them. */
void rights_take(int argc, char **argv);

/* Whether the program was started with rights that its caller has not. It stays so, whatever users
 * the process becomes later: the environment is the caller's. A program that gives up or changes
 * rights of its own (a daemon of root's) is none: its environment came from who had them. */
bool rights_are_lent(void);

#endif
