#include "cli/gzip.h"

#include <stdint.h>
#include <zlib.h>

/* The most that zlib takes at once: it counts in 32 bits. */
enum { GZIP_WINDOW = 15 + 16, MEMORY = 8, MOST = 1 << 30 };

bool gzip_write(FILE *file, const void *bytes, size_t size) {
    z_stream stream = {.next_in = (Bytef *)(uintptr_t)bytes};
    if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, MEMORY,
                     Z_DEFAULT_STRATEGY) != Z_OK)
        return false;
    int state = Z_OK;
    while (state == Z_OK) {
        uint8_t piece[16384];
        if (!stream.avail_in) {
            stream.avail_in = (uInt)(size < MOST ? size : MOST);
            size -= stream.avail_in;
        }
        stream.next_out = piece;
        stream.avail_out = sizeof piece;
        state = deflate(&stream, size ? Z_NO_FLUSH : Z_FINISH);
        fwrite(piece, 1, sizeof piece - stream.avail_out, file);
    }
    deflateEnd(&stream);
    return state == Z_STREAM_END;
}
