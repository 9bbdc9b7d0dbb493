/* The readers of traces: what each format means, and that whatever is wrong with a file is told in
 * one line that names the file, the place and what was expected. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "trace/record_format.h"
#include "trace/trace.h"
#include "trace/write_csv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>
#ifdef HAVE_ZSTD
#include <zstd.h>
#endif

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define CSV          "t_us,op,id,size,stream,site\n"
#define CSV_DEVICES  "t_us,op,id,size,stream,site,device\n"
#define RMM          "Thread,Time,Action,Pointer,Size,Stream\n"

enum { ROOM = 1 << 16 };

struct bytes {
    size_t size;
    unsigned char data[ROOM];
};

static char path[64];
static int file_of_bytes;
static char said[4096];
static int lines;

static int make_file(void **state) {
    (void)state;
    file_of_bytes = memfd_create("trace", 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file_of_bytes);
    return file_of_bytes < 0;
}

static void say(const char *line) {
    lines++;
    snprintf(said, sizeof said, "%s", line);
}

static struct trace *read_path(const char *from) {
    said[0] = '\0';
    lines = 0;
    struct trace *trace = trace_read(from, say);
    assert_int_equal(lines, trace ? 0 : 1);
    assert_null(strchr(said, '\n'));
    return trace;
}

static struct trace *read_bytes(const void *data, size_t size) {
    assert_int_equal(ftruncate(file_of_bytes, 0), 0);
    assert_int_equal(pwrite(file_of_bytes, data, size, 0), size);
    return read_path(path);
}

static void gzip_member(struct bytes *packed, const void *data, size_t size) {
    z_stream stream = {0};
    assert_int_equal(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    stream.next_in = (unsigned char *)(uintptr_t)data;
    stream.avail_in = (unsigned)size;
    stream.next_out = packed->data + packed->size;
    stream.avail_out = (unsigned)(ROOM - packed->size);
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    packed->size = ROOM - stream.avail_out;
    deflateEnd(&stream);
}

#ifdef HAVE_ZSTD
static void zstd_frame(struct bytes *packed, const void *data, size_t size) {
    ZSTD_CCtx *context = ZSTD_createCCtx();
    assert_non_null(context);
    ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
    size_t made =
        ZSTD_compress2(context, packed->data + packed->size, ROOM - packed->size, data, size);
    assert_false(ZSTD_isError(made));
    packed->size += made;
    ZSTD_freeCCtx(context);
}
#endif

/* The ways in which a file's bytes may be stored. */
enum { PLAIN, GZIP, GZIP_MEMBERS, ZSTD, ZSTD_FRAMES, FORMS };

static bool pack(struct bytes *packed, int form, const void *data, size_t size) {
    size_t half = size / 2;
    packed->size = 0;
    if (form == PLAIN) {
        memcpy(packed->data, data, packed->size = size);
    } else if (form == GZIP) {
        gzip_member(packed, data, size);
    } else if (form == GZIP_MEMBERS) {
        gzip_member(packed, data, half);
        gzip_member(packed, (const char *)data + half, size - half);
#ifdef HAVE_ZSTD
    } else if (form == ZSTD) {
        zstd_frame(packed, data, size);
    } else if (form == ZSTD_FRAMES) {
        zstd_frame(packed, data, half);
        zstd_frame(packed, (const char *)data + half, size - half);
#endif
    } else {
        return false;
    }
    return true;
}

/* A trace in words: an event is its time, operation, then what it has of block, value, stream,
 * device and site. */
static const char *words(const struct trace *trace) {
    static char text[4096];
    size_t length = 0;
    text[0] = '\0';
    for (size_t i = 0; i < trace->event_count; i++) {
        const struct trace_event *event = &trace->events[i];
        bool block = event->op <= TRACE_FREE;
        length += (size_t)snprintf(text + length, sizeof text - length, "%llu%c",
                                   (unsigned long long)event->time_ns, "AFKCSD"[event->op]);
        if (block)
            length += (size_t)snprintf(text + length, sizeof text - length, "%u", event->block);
        if (event->op != TRACE_FREE)
            length += (size_t)snprintf(text + length, sizeof text - length, " %llu",
                                       (unsigned long long)event->value);
        if (event->stream)
            length += (size_t)snprintf(text + length, sizeof text - length, " s%u", event->stream);
        if (event->device)
            length += (size_t)snprintf(text + length, sizeof text - length, " d%u", event->device);
        if (*trace->sites[event->site].name)
            length += (size_t)snprintf(text + length, sizeof text - length, " [%s]",
                                       trace->sites[event->site].name);
        length += (size_t)snprintf(text + length, sizeof text - length, "; ");
    }
    return text;
}

static void text_means_what_it_says(void **state) {
    (void)state;
    static const struct {
        const char *text, *words;
    } cases[] = {
        {CSV, ""},
        {"\xef\xbb\xbf" CSV, ""},
        {"t_us,op,id,size,stream,site", ""},
        {CSV "0,A,7,100,,here\n1,K,,5,3,\n2,C,,64,,\n2,S,,,3,\n3,D,,,,\n4.5,F,7,,,\n",
         "0A0 100 [here]; 1000K 5000 s1; 2000C 64; 2000S 0 s1; 3000D 0; 4500F0; "},
        {CSV "0,K,,,,\n0,K,,1.5,,\n0,K,,0,,\n", "0K 0; 0K 1500; 0K 0; "},
        {CSV "\r\n5,A,1,1,,\r\n\n5,F,1,,,\r\n", "5000A0 1; 5000F0; "},
        {CSV "0,A,1,1,,\"a, \"\"b\"\"\"\n0, A , 2 ,1,,\t c d \n",
         "0A0 1 [a, \"b\"]; 0A1 1 [c d]; "},
        {CSV "0,A,18446744073709551615,18446744073709551614,18446744073709551615,x\n0,A,0,1,,x",
         "0A0 18446744073709551614 s1 [x]; 0A1 1 [x]; "},
        {CSV "0,A,3,1,9,x\n1,F,3,,,\n2,A,3,2,8,y\n3,F,3,,9,\n",
         "0A0 1 s1 [x]; 1000F0; 2000A1 2 s2 [y]; 3000F1 s1; "},
        {CSV "18446744073709551.615,D,,,,\n", "18446744073709551615D 0; "},
        {CSV "0.0019999,D,,,,\n", "1D 0; "},
        {CSV_DEVICES "0,A,1,8,,x,3\n0,A,2,8,,x,\n1,F,1,,,,\n2,D,,,,,65535\n",
         "0A0 8 d3 [x]; 0A1 8 [x]; 1000F0 d3; 2000D 0 d65535; "},
        {RMM, ""},
        {RMM "1,10:00:00.000001,allocate,0x7f00,256,0x0\n"
             "2,10:00:00.000003,free,0x7f00,256,0x0\n",
         "0A0 256; 2000F0; "},
        {RMM "1,10:00:00:000001,allocate,7F00,256,0\n1,10:00:01:000001,free,0X7f00,256,0xaa\n",
         "0A0 256; 1000000000F0 s1; "},
        {RMM "1,1.5,allocate,0x10,1,0x2\n1,2,allocate,0x20,2,0x1\n1,2.25,free,0x10,1,0x2\n",
         "0A0 1 s1; 500000000A1 2; 750000000F0 s1; "},
        /* Failures and requests of nothing leave no event. */
        {RMM "1,10:00:00,allocate failure,(nil),99,0x0\n1,10:00:00,allocate,(nil),0,0x0\n"
             "1,10:00:01,free,(nil),0,0x0\n1,10:00:02,allocate,0x5,0,0x0\n"
             "1,10:00:02,free,0x5,0,0x0\n1,10:00:03,allocate,0x1,3,(nil)\n",
         "3000000000A0 3; "},
        {RMM "1,23:59:59.5,allocate,0x1,3,0x0\n1,00:00:00.5,free,0x1,3,0x0\n",
         "0A0 3; 1000000000F0; "},
        /* Threads that wrote in another order than they looked at the clock. */
        {RMM "1,10:00:00.5,allocate,0x1,3,0x0\n2,10:00:00.4,allocate,0x2,3,0x0\n"
             "1,10:00:00.6,free,0x1,3,0x0\n",
         "0A0 3; 0A1 3; 100000000F0; "},
    };
    static struct bytes packed;
    for (size_t i = 0; i < COUNT(cases); i++)
        for (int form = 0; form < FORMS; form++) {
            if (!pack(&packed, form, cases[i].text, strlen(cases[i].text)))
                continue;
            struct trace *trace = read_bytes(packed.data, packed.size);
            assert_string_equal(said, "");
            assert_string_equal(words(trace), cases[i].words);
            assert_false(trace->cut_off);
            trace_free(trace);
        }
}

static void figures_of_a_trace_add_up(void **state) {
    (void)state;
    static const char text[] = CSV_DEVICES "0,A,1,100,5,a,0\n0,A,2,50,6,b,2\n1,F,1,,,,\n"
                                           "2,A,3,60,5,a,0\n3,F,3,,,,\n";
    struct trace *trace = read_bytes(text, strlen(text));
    assert_int_equal(trace->event_count, 5);
    assert_int_equal(trace->block_count, 3);
    assert_int_equal(trace->peak_live_bytes, 150);
    assert_int_equal(trace->stream_count, 3);
    assert_int_equal(trace->device_count, 3);
    assert_int_equal(trace->site_count, 3); /* a, b and the frees' */
    assert_int_equal(trace->lost_events, 0);
    trace_free(trace);
}

/* What is said of the file, whose name comes before it. */
static void assert_said(const char *what) {
    char expected[640];
    snprintf(expected, sizeof expected, "%s:%s", path, what);
    assert_string_equal(said, expected);
}

static void what_is_wrong_with_text_is_told_in_one_line(void **state) {
    (void)state;
    static const char no_header[] =
        ", expected a poolcuda trace or the header t_us,op,id,size,stream,site or "
        "Thread,Time,Action,Pointer,Size,Stream";
    static const char six[] = "2: expected 6 fields: t_us,op,id,size,stream,site";
    static const char rmm_six[] = "2: expected 6 fields: Thread,Time,Action,Pointer,Size,Stream";
    static const struct {
        const char *text, *said, *more;
    } cases[] = {
        {"hello\n", "1: \"hello\"", no_header},
        {"\n" CSV, "1: \"\"", no_header},
        {"\xef\xbb\xbf", "1: \"\"", no_header},
        {"t_us,op,id,size,stream", "1: \"t_us,op,id,size,stream\"", no_header},
        {"t_us,op,id,size,stream,site,device,more",
         "1: \"t_us,op,id,size,stream,site,device,more\"", no_header},
        {"t_us,op,id,size,stream,where", "1: \"t_us,op,id,size,stream,where\"", no_header},
        {"Thread,Time,Action,Pointer,Size\n", "1: \"Thread,Time,Action,Pointer,Size\"", no_header},
        {"\033[31m\"\x80 and so on, longer than what is shown of a line",
         "1: \"?[31m?? and so on, longer than what is shown of ...\"", no_header},
        {"poolcuda trade\n", "1: \"poolcuda trade\"", no_header},

        {CSV "0,A,1,1,\n", six, ""},
        {CSV "0,A,1,1,,,\n", six, ""},
        {CSV "0,A,1,1,,\"site\n", six, ""},
        {CSV "0,A,1,1,,\"site\"s\n", six, ""},
        {CSV_DEVICES "0,A,1,1,,\n", "2: expected 7 fields: t_us,op,id,size,stream,site,device", ""},
        {CSV "0,A,1,1,,\n0,X,1,,,\n", "3: operation \"X\", expected A, F, K, C, S or D", ""},
        {CSV "0,AA,1,1,,\n", "2: operation \"AA\", expected A, F, K, C, S or D", ""},
        {CSV "0,,1,1,,\n", "2: operation \"\", expected A, F, K, C, S or D", ""},
        {CSV "-1,A,1,1,,\n", "2: time \"-1\", expected microseconds", ""},
        {CSV ",A,1,1,,\n", "2: time \"\", expected microseconds", ""},
        {CSV "1e3,A,1,1,,\n", "2: time \"1e3\", expected microseconds", ""},
        {CSV "1.2.3,A,1,1,,\n", "2: time \"1.2.3\", expected microseconds", ""},
        {CSV "18446744073709551.616,D,,,,\n",
         "2: time \"18446744073709551.616\", expected microseconds", ""},
        {CSV "18446744073709552,D,,,,\n", "2: time \"18446744073709552\", expected microseconds",
         ""},
        {CSV "2,A,1,1,,\n1.999,F,1,,,\n", "3: time \"1.999\", expected none before the line above",
         ""},
        {CSV "0,A,,1,,\n", "2: id \"\", expected a whole number", ""},
        {CSV "0,F,x,,,\n", "2: id \"x\", expected a whole number", ""},
        {CSV "0,K,x,,,\n", "2: id \"x\", expected a whole number", ""},
        {CSV "0,A,18446744073709551616,1,,\n",
         "2: id \"18446744073709551616\", expected a whole number", ""},
        {CSV "0,A,1,,,\n", "2: an allocation of 0 bytes, expected at least 1", ""},
        {CSV "0,A,1,0,,\n", "2: an allocation of 0 bytes, expected at least 1", ""},
        {CSV "0,A,1,many,,\n", "2: size \"many\", expected a whole number of bytes", ""},
        {CSV "0,A,1,1.5,,\n", "2: size \"1.5\", expected a whole number of bytes", ""},
        {CSV "0,A,1,-5,,\n", "2: size \"-5\", expected a whole number of bytes", ""},
        {CSV "0,A,1,18446744073709551616,,\n",
         "2: size \"18446744073709551616\", expected a whole number of bytes", ""},
        {CSV "0,K,,long,,\n", "2: size \"long\", expected microseconds", ""},
        {CSV "0,A,1,1,x,\n", "2: stream \"x\", expected a whole number", ""},
        {CSV "0,F,1,,,\n", "2: free of 1, expected the id of a live block", ""},
        {CSV "0,A,1,1,,\n1,F,1,,,\n2,F,1,,,\n", "4: free of 1, expected the id of a live block",
         ""},
        {CSV "0,A,1,1,,\n\n1,A,1,1,,\n", "4: allocation of 1, expected an id that is not live", ""},
        {CSV "0,A,1,18446744073709551615,,\n0,A,2,1,,\n",
         "3: 1 bytes, expected less than 2^64 bytes live at once", ""},
        {CSV_DEVICES "0,A,1,1,,,65536\n", "2: device \"65536\", expected a number below 65536", ""},
        {CSV_DEVICES "0,A,1,1,,,gpu\n", "2: device \"gpu\", expected a number below 65536", ""},

        {RMM "1,10:00:00,allocate,0x1,3\n", rmm_six, ""},
        {RMM "1,10:00:00,allocate,0x1,3,0x0,4\n", rmm_six, ""},
        {RMM "1,noon,free,0x1,3,0x0\n", "2: time \"noon\", expected HH:MM:SS.uuuuuu", ""},
        {RMM "1,-1,free,0x1,3,0x0\n", "2: time \"-1\", expected HH:MM:SS.uuuuuu", ""},
        {RMM "1,10:00,free,0x1,3,0x0\n", "2: time \"10:00\", expected HH:MM:SS.uuuuuu", ""},
        {RMM "1,24:00:00,free,0x1,3,0x0\n", "2: time \"24:00:00\", expected HH:MM:SS.uuuuuu", ""},
        {RMM "1,10:60:00,free,0x1,3,0x0\n", "2: time \"10:60:00\", expected HH:MM:SS.uuuuuu", ""},
        {RMM "1,10:00:61,free,0x1,3,0x0\n", "2: time \"10:00:61\", expected HH:MM:SS.uuuuuu", ""},
        {RMM "1,10:00:00:x,free,0x1,3,0x0\n", "2: time \"10:00:00:x\", expected HH:MM:SS.uuuuuu",
         ""},
        {RMM "1,10:00:0012,free,0x1,3,0x0\n", "2: time \"10:00:0012\", expected HH:MM:SS.uuuuuu",
         ""},
        {RMM "1,23:59:18446744073,free,0x1,3,0x0\n",
         "2: time \"23:59:18446744073\", expected HH:MM:SS.uuuuuu", ""},
        {RMM "1,10:00:00,resize,0x1,3,0x0\n",
         "2: action \"resize\", expected allocate, free or allocate failure", ""},
        {RMM "1,10:00:00,allocate,here,3,0x0\n",
         "2: pointer \"here\", expected a hexadecimal number", ""},
        {RMM "1,10:00:00,allocate,0x,3,0x0\n", "2: pointer \"0x\", expected a hexadecimal number",
         ""},
        {RMM "1,10:00:00,allocate,0x10000000000000000,3,0x0\n",
         "2: pointer \"0x10000000000000000\", expected a hexadecimal number", ""},
        {RMM "1,10:00:00,allocate,0x1,-3,0x0\n", "2: size \"-3\", expected a whole number of bytes",
         ""},
        {RMM "1,10:00:00,allocate,0x1,,0x0\n", "2: size \"\", expected a whole number of bytes",
         ""},
        {RMM "1,10:00:00,allocate,0x1,3,main\n",
         "2: stream \"main\", expected a hexadecimal number", ""},
        {RMM "1,10:00:00,free,0x1,3,0x0\n", "2: free of 0x1, expected the pointer of a live block",
         ""},
        {RMM "1,10:00:00,allocate,0x1,3,0x0\n1,10:00:00,allocate,0x1,3,0x0\n",
         "3: allocation of 0x1, expected a pointer that is not live", ""},
        {RMM "1,1,allocate,0x1,18446744073709551615,0x0\n1,1,allocate,0x2,1,0x0\n",
         "3: 1 bytes, expected less than 2^64 bytes live at once", ""},
    };
    static struct bytes packed;
    for (size_t i = 0; i < COUNT(cases); i++)
        for (int form = 0; form < FORMS; form++) {
            if (!pack(&packed, form, cases[i].text, strlen(cases[i].text)))
                continue;
            char expected[512];
            snprintf(expected, sizeof expected, "%s%s", cases[i].said, cases[i].more);
            struct trace *trace = read_bytes(packed.data, packed.size);
            assert_null(trace);
            assert_said(expected);
        }
}

static void a_zero_byte_is_no_text(void **state) {
    (void)state;
    static const char csv[] = CSV "0,A,1,1,\0,\n", rmm[] = RMM "1,10:00:00,free\0,0x1,3,0x0\n";
    static const char header[] = "t_us,op,id,size,stream,site\0\n";
    assert_null(read_bytes(csv, sizeof csv - 1));
    assert_said("2: a zero byte, expected text");
    assert_null(read_bytes(rmm, sizeof rmm - 1));
    assert_said("2: a zero byte, expected text");
    assert_null(read_bytes(header, sizeof header - 1));
    assert_non_null(strstr(said, ":1: \"t_us,op,id,size,stream,site\", expected"));
}

static void a_line_may_be_long_but_not_endless(void **state) {
    (void)state;
    enum { LONG = 1 << 17, ENDLESS = 1 << 24 };
    char *text = malloc(ENDLESS + 64);
    assert_non_null(text);
    int length = sprintf(text, CSV "0,A,1,1,,");
    memset(text + length, 'x', ENDLESS - 1);
    struct trace *trace = read_bytes(text, (size_t)length + LONG);
    assert_non_null(trace);
    assert_int_equal(strlen(trace->sites[0].name), LONG);
    trace_free(trace);
    assert_null(read_bytes(text, (size_t)length + ENDLESS - 1));
    assert_said("2: a line of 16 MiB or more, expected a shorter one");
    free(text);
}

/* Our own format. */

static void put(struct bytes *file, const void *data, size_t size) {
    assert_true(file->size + size <= ROOM);
    memcpy(file->data + file->size, data, size);
    file->size += size;
}

static void put_header(struct bytes *file) {
    struct record_header header = {.magic = RECORD_MAGIC,
                                   .version = RECORD_VERSION,
                                   .header_size = sizeof header,
                                   .clock = RECORD_CLOCK_MONOTONIC,
                                   .process = 1234};
    file->size = 0;
    put(file, &header, sizeof header);
}

static void put_text(struct bytes *file, struct record_head head, const char *id,
                     const char *text) {
    static const char zeros[8];
    put(file, &head, sizeof head);
    put(file, id, strlen(id));
    put(file, text, strlen(text));
    put(file, zeros, -(strlen(id) + strlen(text)) & 7);
}

static void put_module(struct bytes *file, const char *id, const char *module) {
    put_text(file,
             (struct record_head){RECORD_MODULE, 0, (uint16_t)strlen(id), (uint32_t)strlen(module)},
             id, module);
}

static void put_site(struct bytes *file, uint16_t depth, const struct record_frame *frames) {
    struct record_head head = {RECORD_SITE, 0, depth, 0};
    put(file, &head, sizeof head);
    put(file, frames, depth * sizeof *frames);
}

static void put_event(struct bytes *file, uint8_t kind, uint64_t time, uint32_t site,
                      uint64_t pointer, uint64_t value, uint64_t stream) {
    struct record_event event = {{kind, 0, 0, site}, time, pointer, value, stream};
    put(file, &event, sizeof event);
}

static void put_end(struct bytes *file, uint64_t lost) {
    struct record_end end = {{.kind = RECORD_END}, lost};
    put(file, &end, sizeof end);
}

/* Every kind of record. */
static void put_all_kinds(struct bytes *file) {
    put_header(file);
    put_event(file, RECORD_ALLOC, 0, 0, 0x1000, 64, 0);
    put_module(file, "\x12\x34\x56", "/usr/bin/app");
    put_site(file, 1, (struct record_frame[]){{0x12ff, 1, 0}});
    put_event(file, RECORD_ALLOC, 10, 1, 0x2000, 100, 0x77);
    put_event(file, RECORD_FREE, 10, 0, 0x1000, 0, 0);
    put_module(file, "", "/opt/libone.so");
    put_site(file, 2, (struct record_frame[]){{0x20, 2, 0}, {0xffffffffffffffff, 0, 0}});
    put_text(file, (struct record_head){RECORD_SITE_NAME, 0, 0, 9}, "", "layer\n\"a\"");
    put_event(file, RECORD_ALLOC, 15, 2, 0x3000, 5, 1); /* 1: the legacy stream's other handle */
    put_event(file, RECORD_FREE, 16, 0, 0x3000, 0, 0x88);
    put_event(file, RECORD_FREE_FAILED, 17, 0, 0x3000, 4, 0);
    put_event(file, RECORD_ALLOC, 18, 3, 0x4000, 6, 0);
    put_event(file, RECORD_FREE, 18, 0, 0x9000, 0, 0);  /* of memory that was never recorded */
    put_event(file, RECORD_ALLOC, 19, 1, 0x4000, 7, 0); /* whose context has ended meanwhile */
    put_event(file, RECORD_KERNEL, 20, 0, 0, 2500, 0x77);
    put_event(file, RECORD_COPY, 21, 0, 0, 4096, 0);
    put_event(file, RECORD_STREAM_WAIT, 22, 0, 0, 0, 0x77);
    put_event(file, RECORD_DEVICE_WAIT, 23, 0, 0, 0, 0);
    put_end(file, 3);
}

static const char all_words[] =
    "0A0 64; 10A1 100 s1 [app+0x12ff]; 10F0; "
    "15A2 5 [libone.so+0x20 < (unknown)+0xffffffffffffffff]; 18A3 6 [layer?\"a\"]; "
    "19F3 [app+0x12ff]; 19A4 7 [app+0x12ff]; 20K 2500 s1; 21C 4096; 22S 0 s1; 23D 0; ";

static void records_mean_what_they_say(void **state) {
    (void)state;
    static struct bytes file, packed;
    put_all_kinds(&file);
    for (int form = 0; form < FORMS; form++) {
        if (!pack(&packed, form, file.data, file.size))
            continue;
        struct trace *trace = read_bytes(packed.data, packed.size);
        assert_string_equal(said, "");
        assert_string_equal(words(trace), all_words);
        assert_false(trace->cut_off);
        assert_int_equal(trace->lost_events, 3);
        trace_free(trace);
    }
}

static void records_behind_a_longer_header_are_found(void **state) {
    (void)state;
    static struct bytes file;
    put_header(&file);
    put(&file, (char[16]){1, 2, 3}, 16);
    ((struct record_header *)file.data)->header_size += 16;
    put_event(&file, RECORD_COPY, 1, 0, 0, 9, 0);
    struct trace *trace = read_bytes(file.data, file.size);
    assert_non_null(trace);
    assert_string_equal(words(trace), "1C 9; ");
    trace_free(trace);
}

/* A header with that command line, of which `size` bytes follow. */
static void put_command_line(struct bytes *file, uint32_t told, const char *text, size_t size) {
    put_header(file);
    put(file, text, size);
    ((struct record_header *)file->data)->header_size += (uint32_t)size;
    ((struct record_header *)file->data)->command_line = told;
}

static void the_command_line_stands_behind_the_header(void **state) {
    (void)state;
    static struct bytes file;
    static const char text[24] = "/w\0./app\0./app\0\xff\n\0";
    const size_t used = sizeof "/w" + 2 * sizeof "./app" + sizeof "\xff\n";
    put_command_line(&file, (uint32_t)used, text, sizeof text);
    put_event(&file, RECORD_COPY, 1, 0, 0, 9, 0);
    struct trace *trace = read_bytes(file.data, file.size);
    assert_non_null(trace);
    assert_string_equal(words(trace), "1C 9; ");
    assert_int_equal(trace->command_line.size, used);
    assert_memory_equal(trace->command_line.text, text, used);
    trace_free(trace);
    /* Cut off within: as what a killed program leaves. */
    for (size_t size = sizeof(struct record_header); size < file.size; size++) {
        trace = read_bytes(file.data, size);
        assert_non_null(trace);
        assert_true(command_line_is_sound(&trace->command_line));
        trace_free(trace);
    }
    put_command_line(&file, COMMAND_LINE_TOO_LONG, "", 0);
    trace = read_bytes(file.data, file.size);
    assert_non_null(trace);
    assert_int_equal(trace->command_line.size, COMMAND_LINE_TOO_LONG);
    trace_free(trace);
}

static void a_damaged_command_line_is_told(void **state) {
    (void)state;
    static struct bytes file;
    static const char damaged[] =
        " offset 0: a damaged command line, expected texts that each end with a zero";
    put_command_line(&file, 8, "/w\0./ap", 8); /* does not end */
    ((char *)file.data)[file.size - 1] = 'p';
    assert_null(read_bytes(file.data, file.size));
    assert_said(damaged);
    put_command_line(&file, 3, "/w\0\0\0\0\0", 8); /* one text alone */
    assert_null(read_bytes(file.data, file.size));
    assert_said(damaged);
    put_command_line(&file, 9, "/w\0./ap", 8);
    assert_null(read_bytes(file.data, file.size));
    assert_said(" offset 0: a command line of 9 bytes, expected at most 8");
    put_command_line(&file, UINT32_MAX - 1, "/w\0./ap", 8);
    assert_null(read_bytes(file.data, file.size));
    assert_said(" offset 0: a command line of 4294967294 bytes, expected at most 8");
}

static void modules_of_one_name_are_told_apart_by_their_paths(void **state) {
    (void)state;
    static struct bytes file;
    put_header(&file);
    put_module(&file, "", "/a/lib.so");
    put_module(&file, "", "/a/lib.so"); /* loaded again elsewhere: the same */
    put_site(&file, 1, (struct record_frame[]){{1, 1, 0}});
    put_site(&file, 1, (struct record_frame[]){{1, 2, 0}});
    put_event(&file, RECORD_ALLOC, 0, 1, 1, 1, 0);
    put_event(&file, RECORD_ALLOC, 0, 2, 2, 1, 0);
    struct trace *trace = read_bytes(file.data, file.size);
    assert_string_equal(words(trace), "0A0 1 [lib.so+0x1]; 0A1 1 [lib.so+0x1]; ");
    trace_free(trace);
    put_module(&file, "", "/b/lib.so");
    put_site(&file, 1, (struct record_frame[]){{1, 3, 0}});
    put_event(&file, RECORD_ALLOC, 0, 3, 3, 1, 0);
    trace = read_bytes(file.data, file.size);
    assert_string_equal(words(trace),
                        "0A0 1 [/a/lib.so+0x1]; 0A1 1 [/a/lib.so+0x1]; 0A2 1 [/b/lib.so+0x1]; ");
    trace_free(trace);
}

/* What a killed program leaves can be read, however little stands behind the header. */
static void every_beginning_of_a_recording_is_a_recording(void **state) {
    (void)state;
    static struct bytes file, packed;
    size_t events = 0;
    put_all_kinds(&file);
    for (size_t size = 1; size <= file.size; size++)
        for (int form = 0; form < FORMS; form++) {
            if (!pack(&packed, form, file.data, size))
                continue;
            struct trace *trace = read_bytes(packed.data, packed.size);
            if (size < sizeof(struct record_header)) {
                assert_null(trace);
                assert_non_null(strstr(said, ", expected a header of 64 bytes"));
                continue;
            }
            assert_string_equal(said, "");
            assert_int_equal(trace->cut_off, size < file.size);
            assert_true(trace->event_count + 1 >= events); /* a failed free takes its event back */
            events = trace->event_count;
            trace_free(trace);
        }
    assert_int_equal(events, 11);
}

static void what_is_missing_of_a_recording_is_told(void **state) {
    (void)state;
    static struct bytes file;
    put_all_kinds(&file);
    struct trace *trace = read_bytes(file.data, file.size);
    said[0] = '\0';
    trace_tell_loss(trace, "x", say);
    assert_string_equal(said, "x: the last 3 events could not be written and are missing");
    trace->lost_events = 1;
    trace_tell_loss(trace, "x", say);
    assert_string_equal(said, "x: the last event could not be written and is missing");
    trace->lost_events = 0;
    said[0] = '\0';
    trace_tell_loss(trace, "x", say);
    assert_string_equal(said, "");
    trace_free(trace);
    trace = read_bytes(file.data, file.size - 1);
    trace_tell_loss(trace, "x", say);
    assert_string_equal(said, "x: cut off: the last events are missing");
    trace_free(trace);
}

static void what_is_wrong_with_a_record_is_told_with_its_offset(void **state) {
    (void)state;
    enum { AT = sizeof(struct record_header) };
    static struct bytes file;
    struct record_header *header = (struct record_header *)file.data;
    struct record_event *event = (struct record_event *)(file.data + AT);
    struct record_head *head = &event->head;
    struct {
        const char *said;
        uint8_t kind, zero;
        uint16_t small;
        uint32_t number;
        uint64_t time, pointer, value;
    } cases[] = {
        {" offset 64: a record of kind 0, expected an event or a description of one", 0, 0, 0, 0, 0,
         0, 0},
        {" offset 64: a record of kind 8, expected an event or a description of one",
         RECORD_EVENTS_END, 0, 0, 0, 0, 0, 0},
        {" offset 64: a record of kind 1, expected an event or a description of one", RECORD_ALLOC,
         1, 0, 0, 0, 1, 1},
        {" offset 64: a record of kind 35, expected an event or a description of one", RECORD_END,
         0, 1, 0, 0, 0, 0},
        {" offset 64: site 1, expected at most 0", RECORD_ALLOC, 0, 0, 1, 0, 1, 1},
        {" offset 64: an allocation of 0 bytes, expected at least 1", RECORD_ALLOC, 0, 0, 0, 0, 1,
         0},
        {" offset 104: time 5, expected none before that of the event before", RECORD_ALLOC, 0, 0,
         0, 6, 1, 1},
        {" offset 64: a free that failed, event 0, expected the number of a free of its pointer",
         RECORD_FREE_FAILED, 0, 0, 0, 0, 1, 0},
        {" offset 104: a free that failed, event 0, expected the number of a free of its pointer",
         RECORD_FREE, 0, 0, 0, 0, 2, 0},
        {" offset 64: a module with a build id of 65 and a path of 0 bytes, expected at most 64 "
         "and 4096",
         RECORD_MODULE, 0, 65, 0, 0, 0, 0},
        {" offset 64: a module with a build id of 0 and a path of 4097 bytes, expected at most 64 "
         "and 4096",
         RECORD_MODULE, 0, 0, 4097, 0, 0, 0},
        {" offset 64: damaged text, expected 3 bytes and then zeros", RECORD_MODULE, 0, 0, 3,
         0x41004141, 0, 0},
        {" offset 64: damaged text, expected 3 bytes and then zeros", RECORD_MODULE, 0, 0, 3,
         0x41424344, 0, 0},
        {" offset 64: a site of depth 0, expected 1 to 4", RECORD_SITE, 0, 0, 0, 0, 0, 0},
        {" offset 64: a site of depth 5, expected 1 to 4", RECORD_SITE, 0, 5, 0, 0, 0, 0},
        {" offset 64: a site in module 1, expected at most 0", RECORD_SITE, 0, 1, 0, 0, 1, 0},
        {" offset 64: a site's name of 1048577 bytes, expected at most 1048576", RECORD_SITE_NAME,
         0, 0, RECORD_NAME_MAX + 1, 0, 0, 0},
        {" offset 80: more data, expected nothing behind the last record", RECORD_END, 0, 0, 0, 0,
         0, 0},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        put_header(&file);
        *head = (struct record_head){cases[i].kind, cases[i].zero, cases[i].small, cases[i].number};
        event->time_ns = cases[i].time;
        event->pointer = cases[i].pointer;
        event->value = cases[i].value;
        event->stream = 0;
        file.size += sizeof *event;
        put_event(&file, RECORD_FREE_FAILED, 5, 0, 1, 0, 0);
        assert_null(read_bytes(file.data, file.size));
        assert_said(cases[i].said);
    }
    put_header(&file);
    header->version = 2;
    assert_null(read_bytes(file.data, file.size));
    assert_said(" offset 0: version 2 of the format, expected 1");
    put_header(&file);
    header->clock = 9;
    assert_null(read_bytes(file.data, file.size));
    assert_said(" offset 0: a header of 64 bytes with clock 9, expected 64 and 1");
    put_header(&file);
    header->header_size = 56;
    assert_null(read_bytes(file.data, file.size));
    assert_said(" offset 0: a header of 56 bytes with clock 1, expected 64 and 1");
    put_header(&file);
    put_event(&file, RECORD_ALLOC, 5, 0, 1, UINT64_MAX, 0);
    put_event(&file, RECORD_ALLOC, 5, 0, 2, 1, 0);
    assert_null(read_bytes(file.data, file.size));
    assert_non_null(strstr(said, ": 1 bytes, expected less than 2^64 bytes live at once"));
}

/* Writing. */

static size_t write_text(const struct trace *trace, char *text) {
    FILE *out = fmemopen(text, ROOM, "w");
    assert_non_null(out);
    assert_true(trace_write_csv(trace, out));
    assert_int_equal(fclose(out), 0);
    return strlen(text);
}

static void assert_same_trace(const struct trace *trace, const struct trace *other) {
    assert_int_equal(trace->event_count, other->event_count);
    for (size_t i = 0; i < trace->event_count; i++) {
        const struct trace_event *event = &trace->events[i], *of_other = &other->events[i];
        assert_int_equal(event->time_ns, of_other->time_ns);
        assert_int_equal(event->value, of_other->value);
        assert_int_equal(event->block, of_other->block);
        assert_int_equal(event->site, of_other->site);
        assert_int_equal(event->stream, of_other->stream);
        assert_int_equal(event->device, of_other->device);
        assert_int_equal(event->op, of_other->op);
    }
    assert_int_equal(trace->site_count, other->site_count);
    for (size_t i = 0; i < trace->site_count; i++)
        assert_string_equal(trace->sites[i].name, other->sites[i].name);
    assert_int_equal(trace->block_count, other->block_count);
    assert_int_equal(trace->stream_count, other->stream_count);
    assert_int_equal(trace->device_count, other->device_count);
    assert_int_equal(trace->peak_live_bytes, other->peak_live_bytes);
}

/* A trace of any format, given as the bytes of its file. */
static void assert_written_as_it_was_read(const void *data, size_t size) {
    static char once[ROOM], twice[ROOM];
    struct trace *trace = read_bytes(data, size);
    assert_string_equal(said, "");
    size_t length = write_text(trace, once);
    struct trace *again = read_bytes(once, length);
    assert_string_equal(said, "");
    assert_same_trace(trace, again);
    write_text(again, twice);
    assert_string_equal(once, twice);
    trace_free(trace);
    trace_free(again);
}

static void what_is_written_reads_back_the_same(void **state) {
    (void)state;
    static const char *const texts[] = {
        CSV,
        CSV "0,A,1,1,,\"a, \"\"b\"\"\"\n1,A,2,1,,\"\"\"\"\"\"\n2,A,3,1,,say \"hi\n",
        CSV "0,A,1,1,,\" blank, around \t\"\n1,A,2,1,,\"\r\"\n2,A,3,1,,\"x\r\"\r\n3,A,4,1,,a\rb\n",
        CSV "0,A,1,1,,\xc3\xa9\x1b[1m\n1,A,2,1,,<lambda>\n",
        CSV "0,K,,0.001,,\n1,K,,1.5,,\n2,K,,18446744073709551.615,,\n3,K,,0,,\n4.001,K,,,7,k\n",
        CSV
        "0,A,9,1,5,here\n1.25,F,9,,6,there\n2,C,,64,6,here\n2,C,,,6,\n3,S,,,5,wait\n4,D,,12,,all\n",
        CSV "0,A,18446744073709551615,18446744073709551614,18446744073709551615,x\n",
        CSV_DEVICES "0,A,1,8,,x,3\n0,A,2,8,4,,\n1,F,1,,,,\n2,K,,5,,,1\n2,D,,,,,65535\n",
        CSV_DEVICES "0,A,1,8,,x,0\n",
        RMM "1,1.5,allocate,0x10,1,0x2\n1,2,allocate,0x20,2,0x1\n1,2.25,free,0x10,1,0x2\n",
    };
    static struct bytes file;
    for (size_t i = 0; i < COUNT(texts); i++)
        assert_written_as_it_was_read(texts[i], strlen(texts[i]));
    put_all_kinds(&file);
    assert_written_as_it_was_read(file.data, file.size);
}

static void a_newline_in_a_name_does_not_end_its_row(void **state) {
    (void)state;
    static char text[ROOM];
    struct trace_event event = {.op = TRACE_ALLOC, .value = 1};
    struct trace *trace = trace_new();
    assert_true(trace_name_site(trace, "two\nlines", &event.site));
    assert_true(trace_append(trace, &event));
    write_text(trace, text);
    trace_free(trace);
    assert_string_equal(text, CSV "0,A,0,1,0,\"two?lines\"\n");
}

static void a_write_that_fails_is_told(void **state) {
    (void)state;
    struct trace *trace = trace_new();
    FILE *full = fopen("/dev/full", "w");
    assert_non_null(full);
    setbuf(full, NULL);
    assert_false(trace_write_csv(trace, full));
    fclose(full);
    trace_free(trace);
}

/* Files that cannot be read as such. */

static void a_file_that_is_none_is_told(void **state) {
    (void)state;
    static struct bytes packed;
    assert_null(read_path("/nowhere/at/all"));
    assert_string_equal(said,
                        "/nowhere/at/all: No such file or directory, expected a readable trace");
    assert_null(read_path("/proc/self"));
    assert_string_equal(said, "/proc/self: a folder, expected a trace file");
    for (int form = 0; form < FORMS; form++)
        if (pack(&packed, form, "", 0)) {
            assert_null(read_bytes(packed.data, packed.size));
            assert_said(" empty, expected a trace");
        }
}

static void a_name_that_breaks_the_line_does_not(void **state) {
    (void)state;
    assert_null(read_path("/nowhere/a\nb\033[31m"));
    assert_string_equal(said,
                        "/nowhere/a?b?[31m: No such file or directory, expected a readable trace");
}

static void compressed_data_that_ends_early_is_told(void **state) {
    (void)state;
    static const char text[] = CSV "0,A,1,1,,here\n0,F,1,,,\n";
    static const struct {
        int form;
        size_t magic;
        const char *name;
    } cases[] = {{GZIP, 2, "gzip"}, {ZSTD, 4, "zstd"}};
    static struct bytes packed;
    for (size_t i = 0; i < COUNT(cases); i++) {
        if (!pack(&packed, cases[i].form, text, strlen(text)))
            continue;
        for (size_t size = cases[i].magic; size < packed.size; size++) {
            char expected[128];
            assert_null(read_bytes(packed.data, size));
            snprintf(expected, sizeof expected,
                     ": %s data that ends early, expected a whole %s file", cases[i].name,
                     cases[i].name);
            assert_non_null(strstr(said, path));
            assert_non_null(strstr(said, expected));
        }
    }
}

/* Whatever bit turns over: the trace is the same, as some bits of a header mean nothing, or one
 * line says that something is wrong. */
static void compressed_data_that_is_damaged_is_told(void **state) {
    (void)state;
    static const char text[] = CSV "0,A,1,1,,here\n0,A,2,1,,there\n0,F,1,,,\n0,F,2,,,\n";
    static const char meaning[] = "0A0 1 [here]; 0A1 1 [there]; 0F0; 0F1; ";
    static struct bytes packed;
    for (int form = GZIP; form < FORMS; form++) {
        if (!pack(&packed, form, text, strlen(text)))
            continue;
        unsigned refused = 0;
        for (size_t bit = 0; bit < 8 * packed.size; bit++) {
            packed.data[bit / 8] ^= (unsigned char)(1 << bit % 8);
            struct trace *trace = read_bytes(packed.data, packed.size);
            if (trace)
                assert_string_equal(words(trace), meaning);
            else
                assert_non_null(strstr(said, path));
            refused += !trace;
            trace_free(trace);
            packed.data[bit / 8] ^= (unsigned char)(1 << bit % 8);
        }
        assert_true(refused > packed.size * 6);
        put(&packed, "more", 4);
        assert_null(read_bytes(packed.data, packed.size));
        assert_non_null(strstr(said, form <= GZIP_MEMBERS
                                         ? "damaged gzip data, expected a whole gzip file"
                                         : "damaged zstd data, expected a whole zstd file"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_means_what_it_says),
        cmocka_unit_test(figures_of_a_trace_add_up),
        cmocka_unit_test(what_is_wrong_with_text_is_told_in_one_line),
        cmocka_unit_test(a_zero_byte_is_no_text),
        cmocka_unit_test(a_line_may_be_long_but_not_endless),
        cmocka_unit_test(records_mean_what_they_say),
        cmocka_unit_test(records_behind_a_longer_header_are_found),
        cmocka_unit_test(the_command_line_stands_behind_the_header),
        cmocka_unit_test(a_damaged_command_line_is_told),
        cmocka_unit_test(modules_of_one_name_are_told_apart_by_their_paths),
        cmocka_unit_test(every_beginning_of_a_recording_is_a_recording),
        cmocka_unit_test(what_is_missing_of_a_recording_is_told),
        cmocka_unit_test(what_is_wrong_with_a_record_is_told_with_its_offset),
        cmocka_unit_test(what_is_written_reads_back_the_same),
        cmocka_unit_test(a_newline_in_a_name_does_not_end_its_row),
        cmocka_unit_test(a_write_that_fails_is_told),
        cmocka_unit_test(a_file_that_is_none_is_told),
        cmocka_unit_test(a_name_that_breaks_the_line_does_not),
        cmocka_unit_test(compressed_data_that_ends_early_is_told),
        cmocka_unit_test(compressed_data_that_is_damaged_is_told),
    };
    return cmocka_run_group_tests(tests, make_file, NULL);
}
