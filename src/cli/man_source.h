/* The man pages' generated parts. */
#ifndef POOLCUDA_CLI_MAN_SOURCE_H
#define POOLCUDA_CLI_MAN_SOURCE_H

#include <stdbool.h>

/* Copies the template of a page from stdin to stdout, as scdoc reads it. Lines that are one of
 * these words are replaced by what the tables of commands and options say:
 *   @head@       title, NAME and SYNOPSIS of the page poolcuda-NAME
 *   @doc@        what NAME's argp says that it does
 *   @options@    NAME's options, those of the command itself for the page poolcuda
 *   @commands@   all commands
 *   @variables@  libpoolcuda.so's options
 *   @presets@    its presets
 * `page` is poolcuda, poolcuda-NAME or libpoolcuda. False after a
 * line on stderr. */
bool man_source(const char *page);

#endif
