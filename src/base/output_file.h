/* The files that a process writes about itself, as POOLCUDA_STATS_FILE, POOLCUDA_TRACE and
 * POOLCUDA_LOG name them. None of them may damage what is there, nor hold the program up or end it.
 *
 * In a pattern stand %p for the process id, %h for the host, %e for the executable's name, %t for
 * the seconds since 1970, %r for the rank in MPI, Slurm and the like (0 outside), %q{NAME} for an
 * environment variable, %n for the smallest number from 0 that gives a new name, %% for %. Anything
 * else stays as it is. Where there is a rank that the pattern does not tell apart, by %r, %p or
 * %q{...}, ".rank" and the rank are appended. */
#ifndef POOLCUDA_BASE_OUTPUT_FILE_H
#define POOLCUDA_BASE_OUTPUT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { OUTPUT_PATH_SIZE = 4200 };

/* The path that `pattern` gives, with `number` for %n. Returns its length, 0 if it does not fit. */
size_t output_file_name(char *path, size_t size, const char *pattern, unsigned number);

/* Makes a new file: of the first name that is free, which is one with another %n or else one with
 * .1, .2, ... appended. What the pattern names and is no file (a device, a pipe, /dev/stdout,
 * /dev/fd/N) is written to as it is; then *stream is set, and all is to be written by
 * output_file_write. Nobody is waited for: a pipe must have a reader. Returns the descriptor, with
 * its path in path[OUTPUT_PATH_SIZE]; -1 and errno if there is none. */
int output_file_create(const char *pattern, char *path, bool *stream);

/* Opens a file, or what else there is, to append to; "stderr" is standard error. If it cannot be
 * opened, or is a report or a trace, which would be destroyed, says so in one line, with the
 * option's name, and uses standard error, too. */
int output_file_append(const char *pattern, const char *option, void (*say)(const char *line));

/* A descriptor that is used later, and which file it was: programs close what they do not know, and
 * open files of their own, which get the number. */
struct known_file {
    int file;
    dev_t device;
    ino_t inode; /* 0: it was not open */
};
struct known_file output_file_know(int file);
bool output_file_is(const struct known_file *known);

/* Remembers what standard error is: to be called before the program runs. From then on nothing is
 * written there once the program has put another file in its place. */
void output_file_know_standard_error(void);

/* Writes all, to whatever it is. A pipe's reader that has gone is no signal to the program, and one
 * that takes nothing delays it by a second at most, and only once. Returns false, and errno, if
 * something is lost. */
bool output_file_write(int file, const void *bytes, size_t size);

/* In a program that shuts itself in by seccomp no signal can be held off any more. To be called
 * before that: from then on only what is no pipe, and no file that has a limit, is written to, or
 * where the program ignores the signal. */
void output_file_shut_in(void);
/* Whether that holds of the file. */
bool output_file_may_write_later(int file);

/* What makes a file unusable, by errno. */
struct output_file_fault {
    char text[48];
};
struct output_file_fault output_file_fault(int error);

/* This process's rank among those that were started together; -1: it is alone. */
int output_file_rank(void);

/* The batch job that this process is of, and its step: "" if there is none. What does not fit is
 * cut off. */
void output_file_job(char *job, size_t job_size, char *step, size_t step_size);

/* The host's name, "" if it is not known. */
void output_file_host(char *name, size_t size);

#endif
