/* POOLCUDA_STATS_FILE: a file with the stats page, written now and then while the program runs, and
 * with the report in its place at the end; or a stream, which gets the report alone.
 *
 * The file is never mapped: whoever cuts it short would end the program by SIGBUS. So what a killed
 * program leaves in it is as old as the last write. The page itself, where it is shared, outlives
 * the program, and whoever clears it away writes it to the file (share_clear). */
#ifndef POOLCUDA_COUNTERS_PAGE_FILE_H
#define POOLCUDA_COUNTERS_PAGE_FILE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct stats_page;

/* MISSED: one was asked for and cannot be written to; the text goes to standard error. */
enum page_file { PAGE_FILE_NONE, PAGE_FILE_MISSED, PAGE_FILE_STREAM, PAGE_FILE_REGULAR };

/* Makes the file, with the names of output_file.h; "" or NULL: there is none. If it cannot be made,
 * says so in one line. */
enum page_file page_file_open(const char *pattern, void (*say)(const char *line));

/* To be called first: what cannot be written to the file goes nowhere. */
void page_file_stands_alone(void);

/* What it is now: programs close what they do not know. */
enum page_file page_file_look(void);

/* Its absolute path; "" if it is not known. */
const char *page_file_path(void);

/* Writes the page to the regular file, even after the program has closed it. What cannot be
 * written is left as it is. Nothing happens where another thread is just writing. */
void page_file_write(const struct stats_page *page);

/* When the file is to get the page again, in nanoseconds since the page was made; UINT64_MAX:
 * never.
 */
extern _Atomic uint64_t page_file_due;
/* As page_file_write; the next time is in a moment at first, as most programs that are killed early
 * have just begun, then a tenth of a second later. */
void page_file_write_due(const struct stats_page *page, uint64_t now);
/* Whether a shortage is a reason to write now: many a program ends by its first. Shortages have a
 * pace of their own, since the write of a moment ago knows nothing of this one. */
bool page_file_may_write_shortage(uint64_t now);
/* As page_file_write, for the last time before the report. */
void page_file_write_last(const struct stats_page *page);

/* The descriptor that the report is to be written to; -1: none. A regular file's beginning, which
 * no page is written to any more; page_file_end_report cuts off what is left of it. */
int page_file_begin_report(void);
void page_file_end_report(void);

/* In a forked child: the file is the parent's. */
void page_file_forget(void);

/* Writes the page of a process that has ended to that process's file, if it still is there. */
void page_file_save(const struct stats_page *page);

#endif
