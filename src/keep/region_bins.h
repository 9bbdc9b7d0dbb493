/* What region.c calls of region_bins.c. */
#ifndef POOLCUDA_KEEP_REGION_BINS_H
#define POOLCUDA_KEEP_REGION_BINS_H

#include "keep/region.h"

/* How many bytes of an idle block the driver could have back: whole chunks can be unmapped, all of
 * a region be freed. What it is for a block in a bin does not change. */
size_t region_releasable(const struct pool_block *block);
/* To be called before a region gets other blocks or another size, unless it is about to go; and
 * when it has them: it may be wholly idle. */
void region_note_change(struct idle_store *store, struct region *region);
void region_note_whole(struct idle_store *store, struct region *region);

/* For tests: whether an idle block is kept where it belongs; how many bins keep; whether each
 * region that is noted as wholly idle says so. */
bool region_is_in_place(struct regions *regions, struct pool_block *block);
size_t region_count_kept(struct regions *regions);
bool region_notes_agree(struct regions *regions);

#endif
