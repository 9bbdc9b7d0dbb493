/* What pooling has saved at least: the calls of the driver's that were avoided, priced by those
 * that the run made itself. docs/reports.md says how, and what is left out. */
#ifndef POOLCUDA_REPORT_SAVING_H
#define POOLCUDA_REPORT_SAVING_H

#include "counters/page.h"

/* The saving of a checked page whose shards are folded. */
void saving_of(const struct stats_page *page, struct stats_saving *saving);

/* Adds `more` to `sum`. */
void saving_add(struct stats_saving *sum, const struct stats_saving *more);

/* How many calls were avoided, priced or not. */
uint64_t saving_avoided(const struct stats_page *page, enum stats_call call);

/* What the avoided calls would have taken at least, of all kinds of memory. */
uint64_t saving_ns(const struct stats_saving *saving, enum stats_call call);

/* The names of calls in the report and its JSON. */
extern const char saving_calls[STATS_CALLS][12];
extern const char saving_ns_names[STATS_MEMORIES][12];
extern const char saving_memories[STATS_MEMORIES + 2][8]; /* by stats_site.memory */

#endif
