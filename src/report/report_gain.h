/* What the run has gained by pooling: how a report begins. */
#ifndef POOLCUDA_REPORT_REPORT_GAIN_H
#define POOLCUDA_REPORT_REPORT_GAIN_H

#include "counters/page.h"
#include "report/emitter.h"

void report_gain(struct emitter *emitter, const struct stats_page *page);

#endif
