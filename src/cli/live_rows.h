/* The rows of `poolcuda top`: what a person or a script reads of each process. */
#ifndef POOLCUDA_CLI_LIVE_ROWS_H
#define POOLCUDA_CLI_LIVE_ROWS_H

#include "cli/live.h"

#include <stdio.h>

/* The keys by which rows are sorted, as words of --sort and as keys on the screen. */
enum live_key {
    LIVE_KEY_HELD,
    LIVE_KEY_IDLE,
    LIVE_KEY_LIVE,
    LIVE_KEY_HITS,
    LIVE_KEY_ALLOCATIONS,
    LIVE_KEY_PID,
    LIVE_KEYS
};
struct live_key_name {
    char letter;
    const char *word;
};
extern const struct live_key_name live_key_names[LIVE_KEYS];

/* One process. Bytes are sums over its devices; rates are per second, since the rows before or, at
 * first, since the process began. */
struct live_row {
    const struct live_process *process;
    uint64_t in_use, idle, waste, held, capacity;
    double hit_rate, allocation_rate, wait_rate; /* hit_rate: 0 to 1, or -1: no allocation yet */
};

/* Makes the rows of `list`, sorted, into `rows` (as many as it has processes). `before` is the list
 * of an earlier look, or empty. The process id sorts upwards, all else downwards. */
void live_rows(const struct live_list *list, const struct live_list *before, enum live_key key,
               struct live_row *rows);

/* The table's head, and a row of it, in one line without newline, harmless to a terminal. users:
 * with the column of users. */
enum { LIVE_LINE = 640 };
void live_head_line(bool users, char line[LIVE_LINE]);
void live_row_line(const struct live_row *row, bool users, char line[LIVE_LINE]);

/* All processes in one line: how many, and the sums. */
void live_sum_line(const struct live_row *rows, size_t count, char line[LIVE_LINE]);

/* JSON: an object with the array "processes". */
void live_json(FILE *out, const struct live_row *rows, size_t count);

/* Prometheus' text format, version 0.0.4, which node_exporter reads. */
void live_prometheus(FILE *out, const struct live_row *rows, size_t count);

/* OpenMetrics 1.0: the same figures under the same names. */
void live_openmetrics(FILE *out, const struct live_row *rows, size_t count);

#endif
