#include "report/shortage.h"

#include "base/modules.h"
#include "base/output_file.h"
#include "base/text.h"
#include "counters/own_page.h"
#include "counters/stats.h"
#include "report/human.h"
#include "site_tag.h"

#include <stdatomic.h>
#include <string.h>

enum { TEXT_SIZE = 1536, FIRST_REPORTS = 5 };

static struct known_file log_file = {.file = -1};

void shortage_open_log(const char *pattern, void (*say)(const char *line)) {
    log_file = output_file_know(*pattern ? output_file_append(pattern, "POOLCUDA_LOG", say) : -1);
}

static void add_site(struct text *text, const struct call_site *site) {
    const char *tag = site_tag_name(site);
    if (tag)
        text_add(text, "%s", tag);
    for (uintptr_t i = 0; !tag && i < site->depth; i++) {
        char name[MODULE_PATH_MAX];
        uint64_t offset = modules_name(site->frames[i], name, sizeof name);
        text_add(text, "%s%s+0x%llx", i ? " < " : "", name, (unsigned long long)offset);
    }
}

/* Whether the driver refused what by its own word is there. */
static bool is_refused(const struct shortage *shortage) {
    return shortage->requested && shortage->requested <= shortage->available;
}

/* What there would have to be more of for the call, at most: all that was requested, where it is
 * not known what limit the driver keeps. Of a call that does not say how much it needs, an amount
 * that matters on this device. */
static uint64_t lacking(const struct shortage *shortage) {
    if (!shortage->requested)
        return shortage->capacity / 64;
    return is_refused(shortage) ? shortage->requested : shortage->requested - shortage->available;
}

/* Whether live blocks would be so much smaller, and the call served, without these bytes. */
static bool matters(const struct shortage *shortage, uint64_t bytes) {
    return bytes > shortage->live / 8 && bytes >= lacking(shortage);
}

/* The one thing most worth trying, of what the figures bear out. */
static const char *remedy(const struct shortage *shortage, uint64_t others) {
    if (matters(shortage, shortage->oversize))
        return "reused blocks are much larger than their requests: lower POOLCUDA_REUSE_RATIO or "
               "POOLCUDA_MAX_WASTE";
    if (matters(shortage, shortage->waste))
        return "requests leave much of the driver's pages of 2 MiB unused: allocate fewer and "
               "larger blocks, or try POOLCUDA_PRESET=vmm, with which blocks share pages";
    if (is_refused(shortage))
        return "enough is free, but the driver refused it: a limit below the device's memory is "
               "likely, of MPS (CUDA_MPS_PINNED_DEVICE_MEM_LIMIT), a control group or a container; "
               "without one no free piece is that large: allocate the large blocks first";
    if (others > shortage->capacity / 2)
        return "most of the device is not this program's: end other processes or use another "
               "device";
    if (shortage->requested > shortage->available + shortage->live + shortage->idle)
        return "more was requested than the device has, even without what the program holds: "
               "request less at a time, or use a larger device";
    return "the program holds this much itself: free the blocks of the sites above earlier, or use "
           "smaller ones";
}

void shortage_text(const struct shortage *shortage, char *buffer, size_t size) {
    struct text text = {.start = buffer, .size = size};
    uint64_t known = shortage->available + shortage->live + shortage->idle;
    uint64_t others = shortage->capacity > known ? shortage->capacity - known : 0;
    *buffer = '\0';
    text_add(&text, "poolcuda: out of memory in %s on device %d: ", shortage->call,
             shortage->device);
    if (shortage->requested)
        text_add(&text, "%s requested, ", human(shortage->requested).text);
    text_add(&text, "nothing idle left to release\n");
    text_add(&text, "  capacity %s = %s free", human(shortage->capacity).text,
             human(shortage->available).text);
    text_add(&text, " + %s live", human(shortage->live).text);
    text_add(&text, " + %s idle", human(shortage->idle).text);
    text_add(&text, " + %s of other processes, contexts and code", human(others).text);
    text_add(&text, "; waste %s\n", human(shortage->waste).text);
    for (unsigned i = 0; i < shortage->site_count; i++) {
        text_add(&text, "  %s live in %llu block%s: ", human(shortage->sites[i].bytes).text,
                 (unsigned long long)shortage->sites[i].blocks, plural(shortage->sites[i].blocks));
        add_site(&text, &shortage->sites[i].key);
        text_add(&text, "\n");
    }
    text_add(&text, "  to try: %s\n", remedy(shortage, others));
}

void shortage_tell(const struct shortage *shortage) {
    static atomic_uint reported;
    char text[TEXT_SIZE];
    unsigned number = atomic_fetch_add(&reported, 1) + 1;
    shortage_text(shortage, text, sizeof text);
    stats_shortage(text);
    bool rare = number <= FIRST_REPORTS || (number & (number - 1)) == 0;
    if (log_file.file >= 0 && rare &&
        !(output_file_is(&log_file) && output_file_write(log_file.file, text, strlen(text))))
        stats_add(STATS_log_lost, 1);
}
