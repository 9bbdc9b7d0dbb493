/* What is left of the memory that a device uses. Mostly the driver says it. Where the device's
 * memory is the host's, cuMemGetInfo counts what the system keeps of files as used, and has been
 * seen to take milliseconds: there /proc/meminfo is read, and what the process's control groups
 * allow. For the device's own memory there may be a control group's limit, too (dmem). */
#include "base/format.h"
#include "base/raw_read.h"
#include "pool/internal.h"

#include <string.h>
#include <strings.h>

enum { TEXT = 2048, PATH = 512 }; /* bytes of a file's text, and of a path */

/* Reads a file of the system's. False: it is not there. */
static bool read_file(const struct pool *pool, const char *path, char *text) {
    char name[PATH];
    const char *root = pool->config.system_files ? pool->config.system_files : "";
    int length = format(name, sizeof name, "%s%s", root, path);
    int file = length < (int)sizeof name ? raw_openat(AT_FDCWD, name, O_RDONLY | O_CLOEXEC, 0) : -1;
    if (file < 0)
        return false;
    ssize_t got = raw_read(file, text, TEXT - 1);
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

/* The process's group in version 2 of control groups, without a slash at its end. */
static bool find_group(const struct pool *pool, char *group) {
    char text[TEXT];
    const char *line;
    if (!read_file(pool, "/proc/self/cgroup", text))
        return false;
    line = strncmp(text, "0::", 3) == 0 ? text : strstr(text, "\n0::");
    if (!line)
        return false;
    line = strchr(line, ':') + 2;
    size_t length = span(line, '\n');
    if (length >= PATH)
        return false;
    memcpy(group, line, length);
    group[length > 1 ? length : 0] = 0;
    return true;
}

/* The group around it; false: that was the outermost. */
static bool leave_group(char *group) {
    char *end = strrchr(group, '/');
    if (end)
        *end = 0;
    return end;
}

/* What one of the group's files says; `of`: of a device, NULL: in all. */
static uint64_t read_limit(const struct pool *pool, const char *group, const char *name,
                           const char *of) {
    char path[PATH], text[TEXT];
    int length = format(path, sizeof path, "/sys/fs/cgroup%s/%s", group, name);
    if (length >= (int)sizeof path || !read_file(pool, path, text))
        return UINT64_MAX;
    return of ? number_of_device(text, of) : number_at(text);
}

static void add(struct available *left, uint64_t bytes, uint64_t total) {
    if (left->count < AVAILABLE_MOST)
        left->of[left->count++] = (struct available_of){bytes < total ? bytes : total, total};
}

static bool add_host(const struct pool *pool, uint64_t held, const struct device *device,
                     struct available *left) {
    char text[TEXT];
    if (!read_file(pool, "/proc/meminfo", text))
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
    char group[PATH];
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

/* The device's name in such files: its place on the bus, without zeros before it, as in ":01:00.0/"
 * and "a:01:00.0/". */
static void name_device(const struct pool *pool, const struct device *device, char *name,
                        size_t size) {
    int domain = 0, bus = 0, slot = 0;
    CUresult (*ask)(int *, CUdevice_attribute, CUdevice) = pool->driver->device_get_attribute;
    ask(&domain, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, device->ordinal);
    ask(&bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, device->ordinal);
    ask(&slot, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, device->ordinal);
    format(name, size, "%x:%02x:%02x.0/", (unsigned)domain, (unsigned)bus & 0xff,
           (unsigned)slot & 0xff);
    memmove(name, name + (domain == 0), size - 1);
}

/* Whether a group counts what the process has of that memory. */
static bool is_limited(const struct pool *pool, const char *name) {
    char group[PATH];
    bool limited = false;
    for (bool more = find_group(pool, group); more && !limited; more = leave_group(group))
        limited = read_limit(pool, group, "dmem.current", name) != UINT64_MAX;
    return limited;
}

/* Most devices have no such limit: their files are looked at once. */
static void add_device_groups(const struct pool *pool, struct device *device,
                              struct available *left) {
    char name[32];
    if (atomic_load_explicit(&device->unlimited, memory_order_relaxed))
        return;
    name_device(pool, device, name, sizeof name);
    if (is_limited(pool, name))
        add_groups(pool, left, "dmem.max", "dmem.current", name);
    else
        atomic_store_explicit(&device->unlimited, true, memory_order_relaxed);
}

bool available_ask(struct pool *pool, struct device *device, uint64_t held,
                   struct available *left) {
    lock_check_none();
    size_t bytes = 0, total = 0;
    left->count = 0;
    bool unified = device->unified && add_host(pool, held, device, left);
    if (!unified && pool->driver->mem_get_info(&bytes, &total) == CUDA_SUCCESS)
        add(left, bytes, device->total);
    if (unified) {
        add_groups(pool, left, "memory.high", "memory.current", NULL);
        add_groups(pool, left, "memory.max", "memory.current", NULL);
    }
    add_device_groups(pool, device, left);
    return left->count > 0;
}
