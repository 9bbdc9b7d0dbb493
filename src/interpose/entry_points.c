#include "interpose/entry_points.h"

#include <string.h>

const struct entry entry_points[ENTRIES] = {
#define ENTRY(symbol, since, ours, stream, work, shows, sync, capture, memory, host, code, effect) \
    {since,         OURS_##ours, STREAM_##stream,   WORK_##work,                                   \
     SHOWS_##shows, SYNC_##sync, CAPTURE_##capture, MEMORY_##memory,                               \
     HOST_##host,   CODE_##code, EFFECT_##effect},
#include "interpose/entry_points.def"
#undef ENTRY
};

/* One string after the other and where each begins: pointers would have to be relocated at the
 * start of every process. */
static const struct {
#define ENTRY(symbol, ...) char symbol[sizeof #symbol];
#include "interpose/entry_points.def"
#undef ENTRY
} names = {
#define ENTRY(symbol, ...) #symbol,
#include "interpose/entry_points.def"
#undef ENTRY
};
static const uint16_t name_offsets[ENTRIES] = {
#define ENTRY(symbol, ...) offsetof(__typeof__(names), symbol),
#include "interpose/entry_points.def"
#undef ENTRY
};

const char *entry_name(unsigned number) {
    return (const char *)&names + name_offsets[number];
}

unsigned entry_find(const char *symbol) {
    unsigned number = 0;
    while (number < ENTRIES && strcmp(symbol, entry_name(number)) != 0)
        number++;
    return number;
}

static bool is_form(const char *symbol, const char *base) {
    size_t length = strlen(base);
    const char *rest = symbol + length;
    if (strncmp(symbol, base, length) != 0)
        return false;
    if (rest[0] == '_' && rest[1] == 'v')
        for (rest += 2; *rest >= '0' && *rest <= '9'; rest++) {
        }
    return !*rest || strcmp(rest, "_ptsz") == 0 || strcmp(rest, "_ptds") == 0;
}

unsigned entry_next_form(const char *base, unsigned number) {
    while (number < ENTRIES && !is_form(entry_name(number), base))
        number++;
    return number;
}

bool entry_escapes(const struct entry *entry) {
    switch ((enum entry_work)entry->work) {
    case WORK_graph:
    case WORK_host:
    case WORK_value:
    case WORK_signal:
    case WORK_unknown:
        return true;
    default:
        return entry->stream == STREAM_each ||
               (entry->stream == STREAM_context && entry->sync == SYNC_waits);
    }
}

bool entry_submits(const struct entry *entry) {
    return entry->work != WORK__ || entry->sync == SYNC_waits;
}

bool entry_marks(const struct entry *entry) {
    return entry->sync == SYNC_records && entry->stream && entry->stream != STREAM_context;
}

bool entry_pays(const struct entry *entry) {
    return entry->shows == SHOWS_maybe || (entry->shows == SHOWS_yes && !entry_submits(entry)) ||
           (entry->sync == SYNC_records && !entry_marks(entry));
}

bool entry_writes(const struct entry *entry) {
    switch ((enum entry_work)entry->work) {
    case WORK_kernel:
    case WORK_copy:
    case WORK_copies:
    case WORK_device:
    case WORK_set:
    case WORK_graph:
    case WORK_host: /* its function may write to managed memory */
    case WORK_value:
    case WORK_unpack:
    case WORK_unknown:
        return entry->host != HOST_yes;
    default:
        return false;
    }
}

bool entry_awaits(const struct entry *entry) {
    switch ((enum entry_sync)entry->sync) {
    case SYNC_event:
    case SYNC_stream:
    case SYNC_context:
    case SYNC_copy:
        return true;
    default:
        return false;
    }
}
