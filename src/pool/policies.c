/* All policies, in the order of POOLCUDA_POLICY's words. */
#include "pool/policy.h"

const struct policy policies[] = {{"site", &keeper_site, &source_plain},
                                  {"tag", &keeper_tag, &source_plain},
                                  {"bins", &keeper_bins, &source_plain},
                                  {"bfc", &keeper_best_fit, &source_regions},
                                  {"segments", &keeper_segments, &source_segments},
                                  {"async", &keeper_none, &source_driver_pool},
                                  {"vmm", &keeper_mapped, &source_mapped},
                                  {"expandable", &keeper_expandable, &source_mapped}};
const size_t policy_count = sizeof policies / sizeof policies[0];
