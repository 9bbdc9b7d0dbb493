/* Makes the calls of a recorded allocation trace through the runtime API.
 *
 * trace_player FILE [unchecked]: gzipped or plain CSV, `t_us,op,id,size,stream,site`. Every
 * recorded call site gets a call site of its own here. Every block is written to when it is
 * allocated and read back before it is freed; all bytes read must be those written. With
 * "unchecked" only the recorded calls are made: to measure, as the reads wait for the device. */
#include "sample.h"

#include <stdbool.h>
#include <string.h>
#include <zlib.h>

enum { SITES = 256, STREAMS = 64, EDGE = 4096, MAX_SPOTS = 8, SPOT = 64 };

/* A call site for each number: distinct functions, so distinct return addresses. */
typedef int allocate_function(void **pointer, size_t bytes);
#define SITE(n)                                                                                    \
    __attribute__((noinline)) static int allocate_##n(void **pointer, size_t bytes) {              \
        int result = (int)cudaMalloc(pointer, bytes);                                              \
        __asm__ volatile("" : : "r"(n) : "memory"); /* distinct code, and not a tail call */       \
        return result;                                                                             \
    }
/* Lists, which clang-format takes for statements. */
// clang-format off
#define SITES_4(x)  SITE(x##0) SITE(x##1) SITE(x##2) SITE(x##3)
#define SITES_16(x) SITES_4(x##0) SITES_4(x##1) SITES_4(x##2) SITES_4(x##3)
#define SITES_64(x) SITES_16(x##0) SITES_16(x##1) SITES_16(x##2) SITES_16(x##3)
SITES_64(10) SITES_64(11) SITES_64(12) SITES_64(13)

#define NAME_4(x)  allocate_##x##0, allocate_##x##1, allocate_##x##2, allocate_##x##3,
#define NAME_16(x) NAME_4(x##0) NAME_4(x##1) NAME_4(x##2) NAME_4(x##3)
#define NAME_64(x) NAME_16(x##0) NAME_16(x##1) NAME_16(x##2) NAME_16(x##3)
static allocate_function *const allocate_at[SITES] = {
    NAME_64(10) NAME_64(11) NAME_64(12) NAME_64(13)
};
// clang-format on

struct block {
    void *pointer;
    size_t size;
    uint32_t serial;
};

struct player {
    const char *path;
    bool unchecked; /* blocks are neither written nor read */
    long line;
    struct kernels kernels;
    cudaStream_t streams[STREAMS];
    struct block *blocks; /* by id */
    size_t block_count;
    char *sites[SITES];
    struct block *last; /* allocated or written last and still live: what copies copy within */
    uint32_t serial;
    unsigned long long allocations, frees, verified;
    uint64_t checksum;
};

static void fail(const struct player *player, const char *expected) {
    fprintf(stderr, "trace_player: %s:%ld: expected %s; stopped\n", player->path, player->line,
            expected);
    exit(2);
}

/* The places of a block that are written and read back: its edges and some spots between. */
struct span {
    size_t offset, length;
};

static int spans(size_t size, struct span *list) {
    int count = 0;
    if (size <= 2 * EDGE) {
        list[count++] = (struct span){0, size};
        return count;
    }
    list[count++] = (struct span){0, EDGE};
    size_t step = (size - 2 * EDGE) / (MAX_SPOTS + 1);
    for (size_t i = 1; i <= MAX_SPOTS && step > SPOT; i++) /* spots must not overlap */
        list[count++] = (struct span){EDGE + step * i, SPOT};
    list[count++] = (struct span){size - EDGE, EDGE};
    return count;
}

static void pattern(unsigned char *bytes, const struct block *block, struct span span) {
    uint64_t state = mix(block->serial + 1u, span.offset + 1);
    for (size_t i = 0; i < span.length; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        bytes[i] = (unsigned char)(state >> 56);
    }
}

static void write_block(const struct block *block) {
    struct span list[MAX_SPOTS + 2];
    unsigned char bytes[2 * EDGE];
    int count = spans(block->size, list);
    for (int i = 0; i < count; i++) {
        pattern(bytes, block, list[i]);
        CHECK(cudaMemcpy((char *)block->pointer + list[i].offset, bytes, list[i].length,
                         cudaMemcpyHostToDevice));
    }
}

static void verify_block(struct player *player, const struct block *block) {
    struct span list[MAX_SPOTS + 2];
    unsigned char written[2 * EDGE], read[2 * EDGE];
    int count = spans(block->size, list);
    for (int i = 0; i < count; i++) {
        pattern(written, block, list[i]);
        CHECK(cudaMemcpy(read, (char *)block->pointer + list[i].offset, list[i].length,
                         cudaMemcpyDeviceToHost));
        if (memcmp(written, read, list[i].length) != 0) {
            fprintf(stderr, "trace_player: %s:%ld: block %u of %zu bytes has changed at +%zu\n",
                    player->path, player->line, block->serial, block->size, list[i].offset);
            exit(1);
        }
        for (size_t b = 0; b < list[i].length; b++)
            player->checksum = mix(player->checksum, read[b]);
        player->verified += list[i].length;
    }
}

static struct block *block_of(struct player *player, const char *id) {
    char *end;
    unsigned long long number = strtoull(id, &end, 10);
    if (end == id || *end || number > 100000000)
        fail(player, "a block's number as id");
    if (number >= player->block_count) {
        size_t count = (number + 1) * 2;
        player->blocks = realloc(player->blocks, count * sizeof *player->blocks);
        if (!player->blocks)
            fail(player, "fewer blocks than the host has memory for");
        memset(player->blocks + player->block_count, 0,
               (count - player->block_count) * sizeof *player->blocks);
        player->block_count = count;
        player->last = NULL;
    }
    return &player->blocks[number];
}

/* The number of a recorded site, in order of appearance; sites beyond the table share its last. */
static int site_number(struct player *player, const char *name) {
    for (int i = 0; i < SITES - 1; i++) {
        if (!player->sites[i])
            player->sites[i] = strdup(name);
        if (player->sites[i] && strcmp(player->sites[i], name) == 0)
            return i;
    }
    return SITES - 1;
}

static size_t size_of(struct player *player, const char *text) {
    char *end;
    unsigned long long size = strtoull(text, &end, 10);
    if (*text == '-' || *end)
        fail(player, "a size in bytes");
    return (size_t)size; /* an empty one is 0 */
}

static cudaStream_t stream_of(struct player *player, const char *text) {
    size_t number = size_of(player, text);
    if (number >= STREAMS)
        fail(player, "a stream below 64");
    if (number && !player->streams[number])
        CHECK(cudaStreamCreate(&player->streams[number]));
    return player->streams[number]; /* 0 is the default stream */
}

static void allocate(struct player *player, const char *id, const char *size, const char *site) {
    struct block *block = block_of(player, id);
    if (block->pointer)
        fail(player, "an id that is not live");
    block->size = size_of(player, size);
    if (!block->size)
        fail(player, "an allocation of at least one byte");
    block->serial = ++player->serial;
    CHECK(allocate_at[site_number(player, site)](&block->pointer, block->size));
    if (!player->unchecked)
        write_block(block);
    player->allocations++;
    player->last = block;
}

static void release(struct player *player, const char *id) {
    struct block *block = block_of(player, id);
    if (!block->pointer)
        fail(player, "the id of a live block");
    if (!player->unchecked)
        verify_block(player, block);
    CHECK(cudaFree(block->pointer));
    *block = (struct block){0};
    player->frees++;
    if (player->last == block)
        player->last = NULL;
}

/* A kernel of the recorded duration; where that is unknown, one that ends at once. */
static void run_kernel(struct player *player, const char *duration, cudaStream_t stream) {
    uint64_t nanoseconds = size_of(player, duration) * 1000;
    void *arguments[] = {&nanoseconds};
    launch(player->kernels.spin, arguments, stream);
}

/* A copy of the recorded size onto the same bytes, which leaves them as they are. */
static void copy(struct player *player, const char *size, cudaStream_t stream) {
    size_t bytes = size_of(player, size);
    struct block *block = player->last;
    if (!block || !bytes)
        return;
    if (bytes > block->size)
        bytes = block->size;
    if (bytes > (1 << 20)) /* the order of calls matters here, not how long the host is busy */
        bytes = 1 << 20;
    void *host = malloc(bytes);
    if (!host)
        fail(player, "a copy that the host has memory for");
    CHECK(cudaMemcpyAsync(host, block->pointer, bytes, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaMemcpyAsync(block->pointer, host, bytes, cudaMemcpyHostToDevice, stream));
    CHECK(cudaStreamSynchronize(stream));
    free(host);
}

static void play_line(struct player *player, char *line) {
    enum { TIME, OP, ID, SIZE, STREAM, SITE_NAME, FIELDS };
    char *fields[FIELDS];
    line[strcspn(line, "\r\n")] = '\0';
    for (int i = 0; i < FIELDS; i++) {
        fields[i] = line ? line : NULL;
        if (!line)
            fail(player, "six fields: t_us,op,id,size,stream,site");
        line = i < FIELDS - 1 ? strchr(line, ',') : NULL;
        if (line)
            *line++ = '\0';
    }
    if (strchr(fields[SITE_NAME], ','))
        fail(player, "six fields: t_us,op,id,size,stream,site");
    if (!*fields[TIME] || fields[TIME][strspn(fields[TIME], "0123456789.")])
        fail(player, "a time in microseconds as t_us");
    if (strlen(fields[OP]) != 1)
        fail(player, "an operation A, F, K, C, S or D");
    switch (*fields[OP]) {
    case 'A':
        allocate(player, fields[ID], fields[SIZE], fields[SITE_NAME]);
        break;
    case 'F':
        release(player, fields[ID]);
        break;
    case 'K':
        run_kernel(player, fields[SIZE], stream_of(player, fields[STREAM]));
        break;
    case 'C':
        copy(player, fields[SIZE], stream_of(player, fields[STREAM]));
        break;
    case 'S':
        CHECK(cudaStreamSynchronize(stream_of(player, fields[STREAM])));
        break;
    case 'D':
        CHECK(cudaDeviceSynchronize());
        break;
    default:
        fail(player, "an operation A, F, K, C, S or D");
    }
}

int main(int argc, char **argv) {
    static char line[4096];
    bool unchecked = argc == 3 && strcmp(argv[2], "unchecked") == 0;
    bool good = argc == 2 || unchecked;
    struct player player = {.path = argc > 1 ? argv[1] : "", .unchecked = unchecked};
    gzFile file = good ? gzopen(argv[1], "rb") : NULL;
    if (!good)
        fprintf(stderr, "usage: trace_player FILE.csv[.gz] [unchecked]\n");
    else if (!file)
        fprintf(stderr, "trace_player: %s: cannot be opened\n", player.path);
    if (!file)
        return 2;
    player.kernels = kernels_load();
    double started = now_seconds();
    while (gzgets(file, line, sizeof line)) {
        player.line++;
        if (player.line == 1) {
            if (strncmp(line, "t_us,op,id,size,stream,site", 27) != 0)
                fail(&player, "the header t_us,op,id,size,stream,site");
        } else {
            play_line(&player, line);
        }
    }
    if (player.line == 0 || !gzeof(file))
        fail(&player, "a whole trace file");
    gzclose(file);
    CHECK(cudaDeviceSynchronize());
    printf("allocations %llu frees %llu bytes verified %llu\n", player.allocations, player.frees,
           player.verified);
    finish("trace", player.checksum, started);
    return 0;
}
