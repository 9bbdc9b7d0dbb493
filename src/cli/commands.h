/* The subcommands. Each gets its own arguments, argv[0] being "poolcuda NAME", and returns the exit
 * status: 0, or 1 if something could not be done. Bad usage ends the process (argp). */
#ifndef POOLCUDA_CLI_COMMANDS_H
#define POOLCUDA_CLI_COMMANDS_H

int command_report(int argc, char **argv);
int command_options(int argc, char **argv);
int command_replay(int argc, char **argv);
int command_tune(int argc, char **argv);
int command_compare(int argc, char **argv);
int command_convert(int argc, char **argv);

#endif
