/* What the run has gained by pooling: how a report begins. */
#ifndef POOLCUDA_OBSERVE_REPORT_GAIN_H
#define POOLCUDA_OBSERVE_REPORT_GAIN_H

#include "observe/emitter.h"
#include "observe/page.h"

void report_gain(struct emitter *emitter, const struct stats_page *page);

#endif
