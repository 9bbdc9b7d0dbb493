/* Memory that the host uses as well, pinned or managed: whole blocks, best fit, as the keeper
 * `site`, whatever POOLCUDA_POLICY says of device memory. */
#include "base/sizes.h"
#include "keep/site.h"

#define KEPT_WHOLE                                                                                 \
    .take = site_take, .give = site_give, .remove = site_remove, .surplus = site_surplus,          \
    .victim = site_largest, .largest = site_largest, .is_valid = site_is_valid

/* LARGEST_HOST_PAGE: of any host that has GPUs. */
enum { HOST_PAGE = 4096, LARGEST_HOST_PAGE = 65536 };

/* The driver's unit is the host's page. */
static size_t round_pinned(size_t bytes) {
    return round_up(bytes, HOST_PAGE);
}

/* The driver rounds advice to the host's pages, so no two blocks may share one. Pages that nobody
 * touches take no memory. */
static size_t round_managed(size_t bytes) {
    return round_up(bytes, LARGEST_HOST_PAGE);
}

const struct keeper keeper_host = {.round = round_pinned, KEPT_WHOLE};
const struct keeper keeper_managed = {.round = round_managed, KEPT_WHOLE};
