#include "pool/place.h"

#include "base/format.h"
#include "base/raw_read.h"
#include "pool/internal.h"

#include <string.h>
#include <strings.h>

bool place_read_file(const struct pool *pool, const char *path, char *text) {
    char name[PLACE_PATH];
    const char *root = pool->config.system_files ? pool->config.system_files : "";
    int length = format(name, sizeof name, "%s%s", root, path);
    int file = length < (int)sizeof name ? raw_openat(AT_FDCWD, name, O_RDONLY | O_CLOEXEC, 0) : -1;
    if (file < 0)
        return false;
    ssize_t got = raw_read(file, text, PLACE_TEXT - 1);
    close(file);
    text[got > 0 ? got : 0] = 0;
    return got > 0;
}

uint64_t place_number_at(const char *text) {
    uint64_t number = 0;
    while (*text == ' ')
        text++;
    if (*text < '0' || *text > '9')
        return UINT64_MAX;
    for (; *text >= '0' && *text <= '9'; text++)
        number = number * 10 + (uint64_t)(*text - '0');
    return number;
}

size_t place_span(const char *text, char letter) {
    size_t length = 0;
    while (text[length] && text[length] != letter && text[length] != '\n')
        length++;
    return length;
}

bool place_find_group(const struct pool *pool, char *group) {
    char text[PLACE_TEXT];
    const char *line;
    if (!place_read_file(pool, "/proc/self/cgroup", text))
        return false;
    line = strncmp(text, "0::", 3) == 0 ? text : strstr(text, "\n0::");
    if (!line)
        return false;
    line = strchr(line, ':') + 2;
    size_t length = place_span(line, '\n');
    if (length >= PLACE_PATH)
        return false;
    memcpy(group, line, length);
    group[length > 1 ? length : 0] = 0;
    return true;
}

/* The number of a device's line: DRIVER/DEVICE/MEMORY NUMBER, where the driver is drm or, of
 * NVIDIA's from release 615 on, nvidia. Zeros that the device begins with do not count.
 * UINT64_MAX: there is none. */
static uint64_t number_of_device(const char *text, const char *device) {
    size_t length = strlen(device);
    for (; text && *text; text = strchr(text, '\n'), text += text != NULL) {
        const char *place = text + place_span(text, '/');
        place += *place == '/';
        while (*place == '0')
            place++;
        if (strncasecmp(place, device, length) == 0)
            return place_number_at(place + place_span(place, ' '));
    }
    return UINT64_MAX;
}

uint64_t place_read_limit(const struct pool *pool, const char *group, const char *name,
                          const char *of) {
    char path[PLACE_PATH], text[PLACE_TEXT];
    int length = format(path, sizeof path, "/sys/fs/cgroup%s/%s", group, name);
    if (length >= (int)sizeof path || !place_read_file(pool, path, text))
        return UINT64_MAX;
    return of ? number_of_device(text, of) : place_number_at(text);
}

bool place_leave_group(char *group) {
    char *end = strrchr(group, '/');
    if (end)
        *end = 0;
    return end;
}

/* Whether a group counts what the process has of that memory. */
static bool is_limited(const struct pool *pool, const char *region) {
    char group[PLACE_PATH];
    bool limited = false;
    for (bool more = place_find_group(pool, group); more && !limited;
         more = place_leave_group(group))
        limited = place_read_limit(pool, group, "dmem.current", region) != UINT64_MAX;
    return limited;
}

void place_learn(struct pool *pool, CUdevice ordinal, struct device_place *place) {
    lock_check_none();
    int integrated = 0, host_tables = 0, domain = 0, bus = 0, slot = 0;
    CUresult (*ask)(int *, CUdevice_attribute, CUdevice) = pool->driver->device_get_attribute;
    ask(&integrated, CU_DEVICE_ATTRIBUTE_INTEGRATED, ordinal);
    ask(&host_tables, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, ordinal);
    ask(&domain, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, ordinal);
    ask(&bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, ordinal);
    ask(&slot, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, ordinal);
    place->unified = integrated || host_tables;
    format(place->region, sizeof place->region, "%x:%02x:%02x.0/", (unsigned)domain,
           (unsigned)bus & 0xff, (unsigned)slot & 0xff);
    memmove(place->region, place->region + (domain == 0), sizeof place->region - 1);
    place->limited = is_limited(pool, place->region);
}
