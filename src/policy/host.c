/* Pinned host memory: whole blocks, best fit, as the policy `site`, whatever POOLCUDA_POLICY says
 * of device memory. The driver's unit is the host's page. */
#include "policy/round.h"
#include "policy/site.h"

enum { HOST_PAGE = 4096 };

static size_t round_to_pages(size_t bytes) {
    return round_up(bytes, HOST_PAGE);
}

const struct policy policy_host = {
    .name = "host",
    .round = round_to_pages,
    .take = site_take,
    .give = site_give,
    .remove = site_remove,
    .surplus = site_surplus,
    .victim = site_largest,
    .figures = site_figures,
    .is_valid = site_is_valid,
};
