/* What every function of the driver does: the table of entry_points.def, which says what its
 * columns and their words mean. */
#ifndef POOLCUDA_INTERPOSE_ENTRY_POINTS_H
#define POOLCUDA_INTERPOSE_ENTRY_POINTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum entry_ours { OURS__, OURS_hook, OURS_jump, OURS_look, OURS_peek, OURS_call };

/* A word of the column `stream`: which sort it is, the argument's position, and whether a null
 * stream is the calling thread's. */
enum entry_stream {
    STREAM__ = 0,
    STREAM_DEFAULT = 0x10,
    STREAM_ARGUMENT = 0x20,
    STREAM_INSIDE = 0x30,
    STREAM_each = 0x40,
    STREAM_context = 0x50,
    STREAM_SORT = 0x70,
    STREAM_POSITION = 0x0f,
    STREAM_PER_THREAD = 0x80,
    STREAM_L = STREAM_DEFAULT,
    STREAM_L0 = STREAM_ARGUMENT,
    STREAM_L1,
    STREAM_L2,
    STREAM_L3,
    STREAM_L4,
    STREAM_L5,
    STREAM_L6,
    STREAM_L7,
    STREAM_L8,
    STREAM_Lin0 = STREAM_INSIDE,
    STREAM_Lin2 = STREAM_INSIDE + 2,
    STREAM_T = STREAM_DEFAULT | STREAM_PER_THREAD,
    STREAM_T0 = STREAM_ARGUMENT | STREAM_PER_THREAD,
    STREAM_T1,
    STREAM_T2,
    STREAM_T3,
    STREAM_T4,
    STREAM_T5,
    STREAM_T6,
    STREAM_T7,
    STREAM_T8,
    STREAM_Tin0 = STREAM_INSIDE | STREAM_PER_THREAD,
    STREAM_Tin2 = STREAM_Tin0 + 2,
};

/* unknown: of a function that the table does not have; it may be any of them. */
enum entry_work {
    WORK__,
    WORK_kernel,
    WORK_copy,
    WORK_copies,
    WORK_device,
    WORK_set,
    WORK_graph,
    WORK_upload,
    WORK_host,
    WORK_value,
    WORK_wait,
    WORK_signal,
    WORK_unpack,
    WORK_pages,
    WORK_map,
    WORK_memory,
    WORK_unknown,
};

enum entry_shows { SHOWS__, SHOWS_order, SHOWS_legacy, SHOWS_maybe, SHOWS_yes };

enum entry_sync {
    SYNC__,
    SYNC_records,
    SYNC_waits,
    SYNC_asks,
    SYNC_event,
    SYNC_stream,
    SYNC_context,
    SYNC_copy,
};

enum entry_capture {
    CAPTURE__,
    CAPTURE_begins,
    CAPTURE_begins_unseen,
    CAPTURE_ends,
    CAPTURE_asks,
    CAPTURE_edits,
    CAPTURE_mode,
};

enum entry_memory {
    MEMORY__,
    MEMORY_may,
    MEMORY_device,
    MEMORY_host,
    MEMORY_managed,
    MEMORY_array,
    MEMORY_address,
};

enum entry_host { HOST__, HOST_may, HOST_yes };

enum entry_code { CODE__, CODE_function, CODE_graph, CODE_node, CODE_object, CODE_notice };

enum entry_effect {
    EFFECT__,
    EFFECT_stream,
    EFFECT_green_stream,
    EFFECT_stream_ends,
    EFFECT_context,
    EFFECT_green_context,
    EFFECT_context_ends,
    EFFECT_memory_pool,
    EFFECT_memory_pool_ends,
    EFFECT_pinned,
    EFFECT_registered,
    EFFECT_unregistered,
    EFFECT_managed,
    EFFECT_global,
    EFFECT_attaches,
    EFFECT_advises,
    EFFECT_prefetches,
    EFFECT_prefetches_each,
    EFFECT_discards_each,
    EFFECT_imported,
    EFFECT_exported,
    EFFECT_peer,
    EFFECT_reaches,
    EFFECT_frees,
    EFFECT_export_table,
};

/* One row; each member holds a word of the enum of that name. */
struct entry {
    uint16_t since;
    uint8_t ours, stream, work, shows, sync, capture, memory, host, code, effect;
};

enum {
#define ENTRY(symbol, ...) ENTRY_NUMBER_##symbol,
#include "interpose/entry_points.def"
#undef ENTRY
    ENTRIES,
};

extern const struct entry entry_points[ENTRIES] __attribute__((visibility("hidden")));

const char *entry_name(unsigned number);
/* The row of that symbol, ENTRIES if there is none. */
unsigned entry_find(const char *symbol);
/* The next row from `number` on that is a form of `base`: the same name, or with _v2 and the like
 * or a per-thread ending; ENTRIES if there is none. */
unsigned entry_next_form(const char *base, unsigned number);

static inline bool entry_has_stub(const struct entry *entry) {
    return entry->ours != OURS__ && entry->ours != OURS_hook;
}

static inline bool entry_begins_capture(const struct entry *entry) {
    return entry->capture == CAPTURE_begins || entry->capture == CAPTURE_begins_unseen;
}

/* Whether a null stream is the calling thread's. */
static inline bool entry_is_per_thread(const struct entry *entry) {
    return entry->stream & STREAM_PER_THREAD;
}

/* Whether what it submits may reach the host without a further call, or run past the legacy
 * stream's order. */
bool entry_escapes(const struct entry *entry);
/* Whether it submits work to the device, of which waiting for an event is some. */
bool entry_submits(const struct entry *entry);
/* Whether it records an event in one stream. */
bool entry_marks(const struct entry *entry);
/* Whether a wait that is owed has to be paid before it. What tells something by the end of its own
 * work, which the order of streams puts behind all that is owed, has not. */
bool entry_pays(const struct entry *entry);
/* Whether the host waits for all work of the current context. */
static inline bool entry_waits_for_context(const struct entry *entry) {
    return entry->sync == SYNC_context && !entry->stream;
}
/* Whether what it submits may write to device memory. */
bool entry_writes(const struct entry *entry);
/* Whether the host waits until work is done. */
bool entry_awaits(const struct entry *entry);

#endif
