#include "interpose/unknown.h"

#include <string.h>

enum { LONGEST = 64 }; /* of the table's names, with room to spare; longer ones are forms of none */

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), wanted = strlen(end);
    return length >= wanted && strcmp(text + length - wanted, end) == 0;
}

bool unknown_is_per_thread(const char *symbol) {
    return ends_with(symbol, "_ptsz") || ends_with(symbol, "_ptds");
}

/* Cuts off what tells the forms of a function apart: _v2 and the like, and a per-thread ending. */
static void cut_to_base(char *name) {
    size_t length = strlen(name);
    if (unknown_is_per_thread(name))
        length -= sizeof "_ptsz" - 1;
    size_t end = length;
    while (end && name[end - 1] >= '0' && name[end - 1] <= '9')
        end--;
    if (end < length && end >= 2 && name[end - 1] == 'v' && name[end - 2] == '_')
        length = end - 2;
    name[length] = '\0';
}

/* The newest form that the table has of the function, NULL if it has none. */
static const struct entry *known_form(const char *name) {
    char base[LONGEST];
    const struct entry *newest = NULL;
    if (strlen(name) >= sizeof base)
        return NULL;
    memcpy(base, name, strlen(name) + 1);
    cut_to_base(base);
    for (unsigned i = entry_next_form(base, 0); i < ENTRIES; i = entry_next_form(base, i + 1))
        if (!newest || entry_points[i].since > newest->since)
            newest = &entry_points[i];
    return newest;
}

/* Whether the name is one of cuStreamBeginCapture, cuStreamBeginRecaptureToGraph and what else
 * there may come to be; with "cuStreamEnd", one of the ends. */
static bool is_about_capture(const char *name, const char *begins_with) {
    return strncmp(name, begins_with, strlen(begins_with)) == 0 && strstr(name, "apture");
}

struct entry unknown_entry(const char *name, bool per_thread) {
    const struct entry *known = known_form(name);
    struct entry entry = {
        .ours = OURS_call,
        .stream = per_thread ? STREAM_PER_THREAD : STREAM__,
        .work = WORK_unknown,
        .shows = SHOWS_yes,
        .memory = MEMORY_may,
        .host = HOST_may,
        .effect = known ? known->effect : EFFECT__,
    };
    if (is_about_capture(name, "cuStreamBegin"))
        entry.capture = CAPTURE_begins;
    else if (is_about_capture(name, "cuStreamEnd"))
        entry.capture = CAPTURE_ends;
    else if (known && known->capture == CAPTURE_asks)
        entry.capture = CAPTURE_asks;
    if (entry.capture) {
        entry.work = WORK__;
        entry.host = HOST__;
        entry.shows = SHOWS__;
    }
    return entry;
}
