/* The layout of the file that POOLCUDA_TRACE makes; docs/traces.md explains it.
 *
 * A header, then records, each a multiple of 8 bytes that begins with a record_head. All integers
 * are little-endian; a record is written before the first that refers to it. A file may end
 * anywhere: what a killed program leaves. */
#ifndef POOLCUDA_TRACE_RECORD_FORMAT_H
#define POOLCUDA_TRACE_RECORD_FORMAT_H

#include "base/command_line.h"

#include <stdint.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "these structs are the file's layout on little-endian machines only"
#endif

/* 16 bytes with the zero, so that a person who opens the file knows what it is. */
#define RECORD_MAGIC "poolcuda trace\n"

enum {
    RECORD_VERSION = 1, /* grows with every change that an older reader cannot take */
    RECORD_CLOCK_MONOTONIC = 1,
    RECORD_BUILD_ID_MAX = 64,
    RECORD_PATH_MAX = 4096,
    RECORD_NAME_MAX = 1 << 20,
    RECORD_DEPTH_MAX = 4,
    RECORD_HEADER_MAX = 64 + COMMAND_LINE_MAX,
};

struct record_header {
    char magic[16];
    uint32_t version;
    uint32_t header_size; /* where the first record begins */
    uint32_t clock;       /* of all times; they are in nanoseconds */
    uint32_t process;
    uint64_t start_ns;     /* that clock's value at time 0 */
    uint64_t wall_ns;      /* the time of day then, since 1970 */
    uint32_t command_line; /* bytes of a struct command_line's text, behind this header and ahead of
                            * the first record, or what else its size may be */
    uint32_t zero;
    uint64_t reserved;
};

enum record_kind {
    RECORD_ALLOC = 1,   /* value: bytes */
    RECORD_FREE,        /* of the block last allocated at the pointer */
    RECORD_FREE_FAILED, /* value: the number, from 0 among all events, of a free that failed */
    RECORD_KERNEL,      /* value: duration in nanoseconds, 0 if unknown */
    RECORD_COPY,        /* value: bytes */
    RECORD_STREAM_WAIT,
    RECORD_DEVICE_WAIT,
    RECORD_EVENTS_END, /* kinds below it are events */

    RECORD_MODULE = 32, /* small: size of the build id; number: length of the path. Both follow */
    RECORD_SITE,        /* small: depth; so many record_frames follow, innermost first */
    RECORD_SITE_NAME,   /* a site that is free text; number: its length. The text follows */
    RECORD_END,         /* the recorder has come to its end. A record_end; nothing follows */
};

/* What follows a head and is no multiple of 8 bytes is followed by zeros. */
struct record_head {
    uint8_t kind; /* enum record_kind */
    uint8_t zero;
    uint16_t small;  /* of events: the device */
    uint32_t number; /* of events: the site, from 1 in the order of their records; 0: unknown */
};

struct record_event {
    struct record_head head;
    uint64_t time_ns; /* since start_ns; never decreases */
    uint64_t pointer; /* of ALLOC, FREE and FREE_FAILED */
    uint64_t value;
    uint64_t stream; /* the program's handle, 0: the default stream */
};

struct record_frame {
    uint64_t offset; /* of the return address, from where the module is loaded */
    uint32_t module; /* from 1 in the order of their records; 0: unknown, offset is an address */
    uint32_t zero;
};

struct record_end {
    struct record_head head;
    uint64_t lost; /* events that could not be written */
};

_Static_assert(sizeof(struct record_header) == 64 && sizeof(struct record_head) == 8 &&
                   sizeof(struct record_event) == 40 && sizeof(struct record_frame) == 16 &&
                   sizeof(struct record_end) == 16,
               "the file's layout");

#endif
