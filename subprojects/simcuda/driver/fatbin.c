/* A fatbin holds one program in several forms: PTX, which is taken, and cubins of architectures.
 * The layout is what nvcc 11 to 13 write. */
#include "image.h"

#include "allocate.h"
#include "report.h"
#include "settings.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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

/* Loaded when it is first needed: the driver needs libc alone. NULL: the host has it not. */
static void *function_of(const char *library, const char *name) {
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);

    return handle != NULL ? dlsym(handle, name) : NULL;
}

/* As lz4.h has it. */
static bool decompress_lz4(const unsigned char *from, size_t size, unsigned char *to,
                           size_t full_size) {
    int (*decompress)(const char *, char *, int, int);

    *(void **)&decompress = function_of("liblz4.so.1", "LZ4_decompress_safe");
    if (decompress == NULL) {
        report_unserved("an image that is compressed with LZ4: there is no liblz4.so.1");
        return false;
    }
    return decompress((const char *)from, (char *)to, (int)size, (int)full_size) == (int)full_size;
}

/* As zstd.h has it. */
static bool decompress_zstd(const unsigned char *from, size_t size, unsigned char *to,
                            size_t full_size) {
    size_t (*decompress)(void *, size_t, const void *, size_t);

    *(void **)&decompress = function_of("libzstd.so.1", "ZSTD_decompress");
    if (decompress == NULL) {
        report_unserved("an image that is compressed with zstd: there is no libzstd.so.1");
        return false;
    }
    return decompress(to, full_size, from, size) == full_size;
}

/* The content as a program would have it, with a 0 behind it. Ownership goes to the caller. NULL:
 * it cannot be had. */
static unsigned char *content_of(const struct entry *entry, size_t *size) {
    bool is_lz4 = entry->header.flags & COMPRESSED_LZ4;
    bool compressed = is_lz4 || entry->header.flags & COMPRESSED_ZSTD;
    uint64_t stored = compressed ? entry->header.compressed_size : entry->header.size;
    uint64_t full = compressed ? entry->header.full_size : stored;
    unsigned char *content;

    if (stored > entry->header.size || stored > MOST_BYTES || full > MOST_BYTES)
        return NULL;
    content = allocate_zeroed(full + 1);
    *size = full;
    if (!compressed) {
        memcpy(content, entry->content, full);
    } else if (!(is_lz4 ? decompress_lz4 : decompress_zstd)(entry->content, stored, content,
                                                            full)) {
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
