/* All policies, in the order of POOLCUDA_POLICY's words. */
#include "policy/policy.h"

const struct policy *const policies[] = {&policy_site, &policy_tag,         &policy_bins,
                                         &policy_bfc,  &policy_driver_pool, &policy_vmm};
const size_t policy_count = sizeof policies / sizeof policies[0];
