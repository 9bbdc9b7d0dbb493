/* What is left of the memory that a device uses. Mostly the driver says it. Where the device's
 * memory is the host's, cuMemGetInfo counts what the system keeps of files as used, and has been
 * seen to take milliseconds: there /proc/meminfo is read, and what the process's control groups
 * allow. For the device's own memory there may be a control group's limit, too (dmem). */
#include "pool/internal.h"
#include "pool/place.h"

#include <string.h>

/* The number of the line that begins with `name`, behind a space. UINT64_MAX: there is none. */
static uint64_t number_of(const char *text, const char *name) {
    size_t length = strlen(name);
    for (; text && *text; text = strchr(text, '\n'), text += text != NULL)
        if (strncmp(text, name, length) == 0)
            return place_number_at(text + length + place_span(text + length, ' '));
    return UINT64_MAX;
}

static void add(struct available *left, uint64_t bytes, uint64_t total) {
    if (left->count < AVAILABLE_MOST)
        left->of[left->count++] = (struct available_of){bytes < total ? bytes : total, total};
}

static bool add_host(const struct pool *pool, uint64_t held, const struct device *device,
                     struct available *left) {
    char text[PLACE_TEXT];
    if (!place_read_file(pool, "/proc/meminfo", text))
        return false;
    uint64_t kib = number_of(text, "MemAvailable:");
    uint64_t most = device->total > held ? device->total - held : 0;
    if (kib == UINT64_MAX)
        return false;
    add(left, kib * 1024 < most ? kib * 1024 : most, device->total);
    return true;
}

/* The tightest limit of the group and those around it. */
static void add_groups(const struct pool *pool, struct available *left, const char *limit,
                       const char *current, const char *of) {
    char group[PLACE_PATH];
    uint64_t least = UINT64_MAX, total = 0;
    bool more = place_find_group(pool, group);
    for (; more; more = place_leave_group(group)) {
        uint64_t most = place_read_limit(pool, group, limit, of);
        uint64_t used =
            most == UINT64_MAX ? UINT64_MAX : place_read_limit(pool, group, current, of);
        uint64_t room = most > used ? most - used : 0;
        if (used != UINT64_MAX && room < least) {
            least = room;
            total = most;
        }
    }
    if (total)
        add(left, least, total);
}

bool available_ask(struct pool *pool, const struct device *device, uint64_t held,
                   struct available *left) {
    lock_check_none();
    size_t bytes = 0, total = 0;
    left->count = 0;
    bool unified = device->place.unified && add_host(pool, held, device, left);
    if (!unified && pool->driver->mem_get_info(&bytes, &total) == CUDA_SUCCESS)
        add(left, bytes, device->total);
    if (unified) {
        add_groups(pool, left, "memory.high", "memory.current", NULL);
        add_groups(pool, left, "memory.max", "memory.current", NULL);
    }
    if (device->place.limited)
        add_groups(pool, left, "dmem.max", "dmem.current", device->place.region);
    return left->count > 0;
}
