/* One buffer of plain bytes in front of the file or a decompressor. */
#include "trace/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#ifdef HAVE_ZSTD
#include <zstd.h>
#endif

enum { BUFFER = 1 << 16, LONGEST_LINE = 1 << 24 };

/* Compressed data may make so many bytes, or MOST_RATIO times its own size if that is more: real
 * traces shrink to a tenth or a hundredth, data made to fill memory to less than a thousandth. A
 * plain file is read whatever its size, which everybody sees. */
static const uint64_t ALWAYS_READ = 256 << 20;
enum { MOST_RATIO = 100 };

enum form { FORM_PLAIN, FORM_GZIP, FORM_ZSTD };

/* Invariant: plain[start, end) has not been handed out; packed[packed_start, packed_end) has not
 * been decompressed. inside: a gzip member or zstd frame has begun and not ended. */
struct input {
    int file;
    enum form form;
    const char *problem;
    bool file_ended, inside;
    z_stream gzip;
#ifdef HAVE_ZSTD
    ZSTD_DStream *zstd;
#endif
    size_t packed_start, packed_end, start, end;
    uint64_t read, unpacked; /* bytes of the file so far, and what became of them */
    char *line;
    size_t line_room;
    unsigned char packed[BUFFER], plain[BUFFER];
};

/* Sets problem, or file_ended at the end. Returns the bytes read. */
static size_t read_file(struct input *input, unsigned char *to, size_t size) {
    ssize_t got;
    do
        got = read(input->file, to, size);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        input->problem = errno == EISDIR ? "a folder, expected a trace file"
                                         : "cannot be read any further, expected a whole file";
    input->file_ended = got <= 0;
    input->read += got > 0 ? (uint64_t)got : 0;
    return got > 0 ? (size_t)got : 0;
}

static bool refill_packed(struct input *input) {
    if (input->packed_start == input->packed_end && !input->file_ended) {
        input->packed_start = 0;
        input->packed_end = read_file(input, input->packed, BUFFER);
    }
    return input->packed_start < input->packed_end;
}

/* These two decompress from the packed buffer to `to` and return how many bytes that made. */

static size_t unpack_gzip(struct input *input, unsigned char *to, size_t size) {
    z_stream *gzip = &input->gzip;
    if (!input->inside)
        inflateReset(gzip);
    gzip->next_in = input->packed + input->packed_start;
    gzip->avail_in = (uInt)(input->packed_end - input->packed_start);
    gzip->next_out = to;
    gzip->avail_out = (uInt)size;
    int result = inflate(gzip, Z_NO_FLUSH);
    input->packed_start = input->packed_end - gzip->avail_in;
    input->inside = result != Z_STREAM_END;
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
        input->problem = "damaged gzip data, expected a whole gzip file";
    return size - gzip->avail_out;
}

#ifdef HAVE_ZSTD
static size_t unpack_zstd(struct input *input, unsigned char *to, size_t size) {
    ZSTD_inBuffer from = {input->packed, input->packed_end, input->packed_start};
    ZSTD_outBuffer out = {to, size, 0};
    size_t result = ZSTD_decompressStream(input->zstd, &out, &from);
    input->packed_start = from.pos;
    input->inside = result != 0;
    if (ZSTD_isError(result))
        input->problem = "damaged zstd data, expected a whole zstd file";
    return out.pos;
}
#else
static size_t unpack_zstd(struct input *input, unsigned char *to, size_t size) {
    (void)to;
    (void)size;
    input->problem =
        "zstd-compressed, expected plain or gzip: this poolcuda was built without zstd";
    return 0;
}
#endif

/* Refuses a file that is small, but would fill the memory. */
static void bound(struct input *input, size_t made) {
    input->unpacked += made;
    if (input->unpacked > ALWAYS_READ && input->unpacked / MOST_RATIO > input->read)
        input->problem =
            "unpacks to more than 256 MiB and 100 times its size, expected less; if that "
            "is what it should hold, unpack it first: a plain file is read whatever "
            "its size";
}

/* A decompressor may hold output back when its input is used up: it is asked until it has none. */
static size_t unpack(struct input *input, unsigned char *to, size_t size) {
    size_t made = 0;
    while (!made && !input->problem && (refill_packed(input) || input->inside)) {
        bool dry = input->packed_start == input->packed_end;
        if (input->problem)
            return 0;
        made =
            input->form == FORM_GZIP ? unpack_gzip(input, to, size) : unpack_zstd(input, to, size);
        bound(input, made);
        if (dry && !made && input->inside && !input->problem)
            input->problem = input->form == FORM_GZIP
                                 ? "gzip data that ends early, expected a whole gzip file"
                                 : "zstd data that ends early, expected a whole zstd file";
    }
    return made;
}

/* Adds to the plain buffer, which must have room. Returns false at the end. */
static bool fill(struct input *input) {
    if (input->problem)
        return false;
    if (input->start == input->end)
        input->start = input->end = 0;
    unsigned char *to = input->plain + input->end;
    size_t room = BUFFER - input->end, got = 0;
    if (input->form != FORM_PLAIN)
        got = unpack(input, to, room);
    else if (!input->file_ended)
        got = read_file(input, to, room);
    input->end += got;
    return got > 0;
}

static bool start_form(struct input *input, const char **problem) {
    static const unsigned char gzip_magic[] = {0x1f, 0x8b}, zstd_magic[] = {0x28, 0xb5, 0x2f, 0xfd};
    size_t got;
    const unsigned char *first = input_peek(input, sizeof zstd_magic, &got);
    if (got >= sizeof gzip_magic && memcmp(first, gzip_magic, sizeof gzip_magic) == 0)
        input->form = FORM_GZIP;
    else if (got >= sizeof zstd_magic && memcmp(first, zstd_magic, sizeof zstd_magic) == 0)
        input->form = FORM_ZSTD;
    else
        return true;
    input->packed_end = input->end;
    memcpy(input->packed, input->plain, input->end);
    input->end = 0;
    *problem = "cannot be decompressed: out of memory";
#ifdef HAVE_ZSTD
    if (input->form == FORM_ZSTD)
        return (input->zstd = ZSTD_createDStream()) != NULL;
#endif
    return inflateInit2(&input->gzip, 15 + 16) == Z_OK; /* 15: the largest window; 16: gzip */
}

struct input *input_open(const char *path, const char **problem) {
    struct input *input = calloc(1, sizeof *input);
    *problem = "out of memory";
    if (!input)
        return NULL;
    input->file = open(path, O_RDONLY | O_CLOEXEC);
    if (input->file < 0)
        *problem = strerror(errno);
    else if (start_form(input, problem))
        return input;
    input_close(input);
    return NULL;
}

void input_close(struct input *input) {
    if (!input)
        return;
    if (input->gzip.state)
        inflateEnd(&input->gzip);
#ifdef HAVE_ZSTD
    ZSTD_freeDStream(input->zstd);
#endif
    if (input->file >= 0)
        close(input->file);
    free(input->line);
    free(input);
}

bool input_is_compressed(const struct input *input) {
    return input->form != FORM_PLAIN;
}

const char *input_problem(const struct input *input) {
    return input->problem;
}

const unsigned char *input_peek(struct input *input, size_t size, size_t *got) {
    if (input->start + size > BUFFER) {
        memmove(input->plain, input->plain + input->start, input->end - input->start);
        input->end -= input->start;
        input->start = 0;
    }
    while (input->end - input->start < size && fill(input)) {
    }
    size_t there = input->end - input->start;
    *got = there < size ? there : size;
    return input->plain + input->start;
}

size_t input_read(struct input *input, void *to, size_t size) {
    size_t done = 0;
    while (done < size && (input->start < input->end || fill(input))) {
        size_t piece = input->end - input->start;
        if (piece > size - done)
            piece = size - done;
        memcpy((char *)to + done, input->plain + input->start, piece);
        input->start += piece;
        done += piece;
    }
    return done;
}

/* Adds to the line, which is `length` long so far. */
static bool extend_line(struct input *input, size_t length, const unsigned char *piece,
                        size_t size) {
    if (length + size >= LONGEST_LINE) {
        input->problem = "a line of 16 MiB or more, expected a shorter one";
        return false;
    }
    if (length + size + 1 > input->line_room) {
        size_t room = 2 * (length + size + 1);
        char *line = realloc(input->line, room);
        if (!line) {
            input->problem = "out of memory for a long line, expected a shorter one";
            return false;
        }
        input->line = line;
        input->line_room = room;
    }
    memcpy(input->line + length, piece, size);
    input->line[length + size] = '\0';
    return true;
}

char *input_line(struct input *input, size_t *length) {
    const unsigned char *end = NULL;
    bool any = false;
    *length = 0;
    while (!end && (input->start < input->end || fill(input))) {
        const unsigned char *piece = input->plain + input->start;
        size_t size = input->end - input->start;
        end = memchr(piece, '\n', size);
        if (end)
            size = (size_t)(end - piece);
        if (!extend_line(input, *length, piece, size))
            return NULL;
        *length += size;
        input->start += size + (end != NULL);
        any = true;
    }
    return any && !input->problem ? input->line : NULL;
}
