/* What is left of the memory that a device uses. Mostly the driver says it. Where the device's
 * memory is the host's, cuMemGetInfo counts what the system keeps of files as used, and has been
 * seen to take milliseconds: there /proc/meminfo is read, and what the process's control groups
 * allow. For the device's own memory there may be a control group's limit, too (dmem). */
#include "pool/internal.h"

#include "format.h"
#include "raw_read.h"

#include <string.h>
#include <strings.h>

enum { MOST_TEXT = 2048, MOST_PATH = 512 };

/* Reads a file of the system's. False: it is not there. */
static bool read_file(const struct pool *pool, const char *path, char *text) {
    char name[MOST_PATH];
    const char *root = pool->config.system_files ? pool->config.system_files : "";
    int length = format(name, sizeof name, "%s%s", root, path);
    int file = length < (int)sizeof name ? raw_openat(AT_FDCWD, name, O_RDONLY | O_CLOEXEC, 0) : -1;
    if (file < 0)
        return false;
    ssize_t got = raw_read(file, text, MOST_TEXT - 1);
    close(file);
    text[got > 0 ? got : 0] = 0;
    return got > 0;
}

/* The number that the text begins with; UINT64_MAX for anything else ("max"). */
static uint64_t number_at(const char *text) {
    uint64_t number = 0;
    while (*text == ' ')
        text++;
    if (*text < '0' || *text > '9')
        return UINT64_MAX;
    for (; *text >= '0' && *text <= '9'; text++)
        number = number * 10 + (uint64_t)(*text - '0');
    return number;
}

/* The length of the text up to that letter, or the line's or the text's end. */
static size_t span(const char *text, char letter) {
    size_t length = 0;
    while (text[length] && text[length] != letter && text[length] != '\n')
        length++;
    return length;
}

/* The number of the line that begins with `name`, behind a space. UINT64_MAX: there is none. */
static uint64_t number_of(const char *text, const char *name) {
    size_t length = strlen(name);
    for (; text && *text; text = strchr(text, '\n'), text += text != NULL)
        if (strncmp(text, name, length) == 0)
            return number_at(text + length + span(text + length, ' '));
    return UINT64_MAX;
}

static void add(struct available *left, uint64_t bytes, uint64_t total) {
    if (left->count < AVAILABLE_MOST)
        left->of[left->count++] = (struct available_of){bytes < total ? bytes : total, total};
}

static bool add_host(const struct pool *pool, uint64_t held, const struct device *device,
                     struct available *left) {
    char text[MOST_TEXT];
    if (!read_file(pool, "/proc/meminfo", text))
        return false;
    uint64_t kib = number_of(text, "MemAvailable:");
    uint64_t most = device->total > held ? device->total - held : 0;
    if (kib == UINT64_MAX)
        return false;
    add(left, kib * 1024 < most ? kib * 1024 : most, device->total);
    return true;
}

/* The process's group in version 2 of control groups, without a slash at its end. */
static bool find_group(const struct pool *pool, char *group) {
    char text[MOST_TEXT];
    const char *line;
    if (!read_file(pool, "/proc/self/cgroup", text))
        return false;
    line = strncmp(text, "0::", 3) == 0 ? text : strstr(text, "\n0::");
    if (!line)
        return false;
    line = strchr(line, ':') + 2;
    size_t length = span(line, '\n');
    if (length >= MOST_PATH)
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
        const char *place = text + span(text, '/');
        place += *place == '/';
        while (*place == '0')
            place++;
        if (strncasecmp(place, device, length) == 0)
            return number_at(place + span(place, ' '));
    }
    return UINT64_MAX;
}

/* What one of the group's files says; `of`: of a device, NULL: in all. */
static uint64_t read_limit(const struct pool *pool, const char *group, const char *name,
                           const char *of) {
    char path[MOST_PATH], text[MOST_TEXT];
    int length = format(path, sizeof path, "/sys/fs/cgroup%s/%s", group, name);
    if (length >= (int)sizeof path || !read_file(pool, path, text))
        return UINT64_MAX;
    return of ? number_of_device(text, of) : number_at(text);
}

/* The group around it; false: that was the outermost. */
static bool leave_group(char *group) {
    char *end = strrchr(group, '/');
    if (end)
        *end = 0;
    return end;
}

/* The tightest limit of the group and those around it. */
static void add_groups(const struct pool *pool, struct available *left, const char *limit,
                       const char *current, const char *of) {
    char group[MOST_PATH];
    uint64_t least = UINT64_MAX, total = 0;
    bool more = find_group(pool, group);
    for (; more; more = leave_group(group)) {
        uint64_t most = read_limit(pool, group, limit, of);
        uint64_t used = most == UINT64_MAX ? UINT64_MAX : read_limit(pool, group, current, of);
        uint64_t room = most > used ? most - used : 0;
        if (used != UINT64_MAX && room < least) {
            least = room;
            total = most;
        }
    }
    if (total)
        add(left, least, total);
}

/* Whether a group counts what the process has of that memory. */
static bool is_limited(const struct pool *pool, const char *region) {
    char group[MOST_PATH];
    bool limited = false;
    for (bool more = find_group(pool, group); more && !limited; more = leave_group(group))
        limited = read_limit(pool, group, "dmem.current", region) != UINT64_MAX;
    return limited;
}

void available_learn(struct pool *pool, CUdevice ordinal, struct device_place *place) {
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
