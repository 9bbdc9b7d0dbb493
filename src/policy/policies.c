/* All policies, in the order of POOLCUDA_POLICY's words. */
#include "policy/policy.h"

const struct policy *const policies[] = {&policy_site, &policy_tag, &policy_bins};
const size_t policy_count = sizeof policies / sizeof policies[0];
