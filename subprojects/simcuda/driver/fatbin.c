/* A fatbin holds one program in several forms: PTX, which is taken, and cubins of architectures.
 * The layout is what nvcc 11 to 13 write. */
#include "image.h"

#include "allocate.h"
#include "report.h"
#include "settings.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef SIMCUDA_LZ4
#include <lz4.h>
#endif
#ifdef SIMCUDA_ZSTD
#include <zstd.h>
#endif

enum { KIND_PTX = 1, KIND_CUBIN = 2 };
enum { COMPRESSED_LZ4 = 0x2000, COMPRESSED_ZSTD = 0x8000 };
enum { MOST_BYTES = 1 << 30 };

struct fatbin_header {
    uint32_t magic;
    uint16_t version;
    uint16_t header_size; /* bytes */
    uint64_t size;        /* bytes behind the header */
};

struct entry_header {
    uint16_t kind;
    uint16_t version;
    uint32_t header_size; /* bytes */
    uint64_t size;        /* bytes behind the header */
    uint32_t compressed_size;
    uint32_t unknown;
    uint16_t minor;
    uint16_t major;
    uint32_t architecture; /* compute capability, times 10 */
    uint32_t name_offset;
    uint32_t name_size;
    uint64_t flags;
    uint64_t unknown_too;
    uint64_t full_size; /* bytes, once it is decompressed */
};

/* One form of the program. */
struct entry {
    struct entry_header header;
    const unsigned char *content;
};

/* *at: behind the entry. False: there is none, or it goes beyond the end. */
static bool next_entry(const unsigned char **at, const unsigned char *end, struct entry *entry) {
    size_t left = (size_t)(end - *at);

    if (left < sizeof entry->header)
        return false;
    memcpy(&entry->header, *at, sizeof entry->header);
    if (entry->header.header_size < sizeof entry->header || entry->header.header_size > left ||
        entry->header.size > left - entry->header.header_size)
        return false;
    entry->content = *at + entry->header.header_size;
    *at = entry->content + entry->header.size;
    return true;
}

static bool decompress(const struct entry *entry, const unsigned char *from, size_t size,
                       unsigned char *to, size_t full_size) {
    (void)from, (void)size, (void)to, (void)full_size; /* without either library */
#ifdef SIMCUDA_LZ4
    if (entry->header.flags & COMPRESSED_LZ4)
        return LZ4_decompress_safe((const char *)from, (char *)to, (int)size, (int)full_size) ==
               (int)full_size;
#endif
#ifdef SIMCUDA_ZSTD
    if (entry->header.flags & COMPRESSED_ZSTD)
        return ZSTD_decompress(to, full_size, from, size) == full_size;
#endif
    report_unserved(entry->header.flags & COMPRESSED_LZ4
                        ? "an image that is compressed with LZ4: built without liblz4"
                        : "an image that is compressed with zstd: built without libzstd");
    return false;
}

/* The content as a program would have it, with a 0 behind it. Ownership goes to the caller. NULL:
 * it cannot be had. */
static unsigned char *content_of(const struct entry *entry, size_t *size) {
    bool compressed = entry->header.flags & (COMPRESSED_LZ4 | COMPRESSED_ZSTD);
    uint64_t stored = compressed ? entry->header.compressed_size : entry->header.size;
    uint64_t full = compressed ? entry->header.full_size : stored;
    unsigned char *content;

    if (stored > entry->header.size || stored > MOST_BYTES || full > MOST_BYTES)
        return NULL;
    content = allocate_zeroed(full + 1);
    *size = full;
    if (!compressed) {
        memcpy(content, entry->content, full);
    } else if (!decompress(entry, entry->content, stored, content, full)) {
        free(content);
        return NULL;
    }
    return content;
}

/* PTX that the device can run, before a cubin, which it can at best load; of several the one for
 * the newest device. */
static bool is_better(const struct entry *entry, const struct entry *best) {
    bool is_ptx = entry->header.kind == KIND_PTX;

    if (!is_ptx && entry->header.kind != KIND_CUBIN)
        return false;
    if (is_ptx && entry->header.architecture > settings()->cc) {
        report_unserved("PTX for a newer device: SIMCUDA_CC says what this one is");
        return false;
    }
    if (best->content == NULL || is_ptx != (best->header.kind == KIND_PTX))
        return best->content == NULL || is_ptx;
    return entry->header.architecture > best->header.architecture;
}

CUresult fatbin_read(struct image *image, const unsigned char *code, size_t limit) {
    struct entry entry, best = {.content = NULL};
    struct fatbin_header header;
    const unsigned char *at, *end;
    unsigned char *content;
    CUresult result;
    size_t size;

    if (limit < sizeof header)
        return CUDA_ERROR_INVALID_IMAGE;
    memcpy(&header, code, sizeof header);
    if (header.header_size < sizeof header || header.header_size > limit ||
        header.size > limit - header.header_size || header.size > 1ull << 40)
        return CUDA_ERROR_INVALID_IMAGE;
    at = code + header.header_size;
    end = at + header.size;
    while (next_entry(&at, end, &entry))
        if (is_better(&entry, &best))
            best = entry;
    if (best.content == NULL)
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    content = content_of(&best, &size);
    if (content == NULL)
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    result = best.header.kind == KIND_PTX ? image_read_ptx(image, (const char *)content)
                                          : cubin_read(image, content, size);
    free(content);
    return result;
}
