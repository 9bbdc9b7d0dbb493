/* The shells' completions, made from the tables of commands and options. */
#ifndef POOLCUDA_CLI_COMPLETIONS_H
#define POOLCUDA_CLI_COMPLETIONS_H

/* The name of an option of the table as `poolcuda set` takes it. */
static inline const char *option_without_prefix(const char *name) {
    return name + sizeof "POOLCUDA_" - 1;
}

/* Each prints a script to stdout, to be installed where its shell looks for completions of
 * poolcuda. */
void complete_bash(void);
void complete_zsh(void);
void complete_fish(void);

#endif
