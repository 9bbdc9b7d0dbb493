/* Texture and surface accesses. CUDA C++ programming guide, "Texture Fetching". */
#include "fetch.h"

#include "arithmetic.h"
#include "handlers.h"
#include "machine.h"

#include <math.h>
#include <string.h>

/* What an object is bound to. NULL: the lane's launch has failed. */
static const struct simt_texture *find(struct warp *warp, const struct instruction *instruction,
                                       unsigned int lane, bool surface) {
    struct worker *worker = warp->worker;
    const struct simt_memory *memory = worker->launch->asked->memory;
    uint64_t handle = source(warp, instruction->a)[lane];

    if (worker->has_texture && worker->texture_handle == handle &&
        worker->texture_is_surface == surface)
        return &worker->texture;
    worker->has_texture = memory->texture != NULL &&
                          memory->texture(memory->owner, handle, surface, &worker->texture);
    worker->texture_handle = handle;
    worker->texture_is_surface = surface;
    if (worker->has_texture)
        return &worker->texture;
    fault(warp, instruction, lane, SIMT_ILLEGAL_ADDRESS,
          "names no texture that can be read:", handle, 0);
    return NULL;
}

/* --- texels --- */

static unsigned int channel_size(enum simt_channel channel) {
    static const unsigned char sizes[] = {1, 2, 4, 1, 2, 4, 2, 4};

    return sizes[channel];
}

/* The bits of a channel, extended to 32 as its type is. */
static uint32_t channel_bits(const unsigned char *at, enum simt_channel channel) {
    uint32_t bits = 0;

    memcpy(&bits, at, channel_size(channel));
    if (channel == SIMT_S8)
        return (uint32_t)(int32_t)(int8_t)bits;
    return channel == SIMT_S16 ? (uint32_t)(int32_t)(int16_t)bits : bits;
}

static float channel_float(const struct simt_texture *texture, const unsigned char *at) {
    uint32_t bits = channel_bits(at, texture->channel);
    float value;

    switch (texture->channel) {
    case SIMT_F32:
        return ptx_float(bits);
    case SIMT_F16:
        return ptx_half((uint16_t)bits);
    case SIMT_U8:
        return (float)bits / 255.0f;
    case SIMT_U16:
        return (float)bits / 65535.0f;
    case SIMT_S8:
        value = (float)(int32_t)bits / 127.0f;
        return value < -1 ? -1 : value;
    case SIMT_S16:
        value = (float)(int32_t)bits / 32767.0f;
        return value < -1 ? -1 : value;
    default:
        return ptx_float(bits);
    }
}

static float linear_of_srgb(float value) {
    return value <= 0.04045f ? value / 12.92f : powf((value + 0.055f) / 1.055f, 2.4f);
}

static size_t extent(const struct simt_texture *texture, unsigned int dimension) {
    size_t size = dimension == 0   ? texture->width
                  : dimension == 1 ? texture->height
                                   : texture->depth;

    return size != 0 ? size : 1;
}

/* The element that an index is by the address mode. False: it is outside, at the border. */
static bool wrap_index(const struct simt_texture *texture, unsigned int dimension, int64_t *index) {
    int64_t size = (int64_t)extent(texture, dimension), period;

    if (*index >= 0 && *index < size)
        return true;
    if (size <= 0)
        return false; /* which it never is */
    switch (texture->normalized                       ? texture->mode[dimension]
            : texture->mode[dimension] == SIMT_BORDER ? SIMT_BORDER
                                                      : SIMT_CLAMP) {
    case SIMT_WRAP:
        *index = (*index % size + size) % size;
        return true;
    case SIMT_MIRROR:
        period = (*index % (2 * size) + 2 * size) % (2 * size);
        *index = period < size ? period : 2 * size - 1 - period;
        return true;
    case SIMT_BORDER:
        return false;
    default:
        *index = *index < 0 ? 0 : size - 1;
        return true;
    }
}

struct texel {
    uint32_t bits[4];
    float values[4];
};

static void border(const struct simt_texture *texture, struct texel *texel) {
    for (int i = 0; i < 4; i++) {
        texel->values[i] = texture->border[i];
        texel->bits[i] = 0;
    }
}

static void read_texel(struct worker *worker, const struct simt_texture *texture, size_t layer,
                       int64_t index[3], struct texel *texel) {
    unsigned int size = channel_size(texture->channel);
    size_t offset;

    for (unsigned int i = 0; i < 3; i++)
        if (!wrap_index(texture, i, &index[i])) {
            border(texture, texel);
            return;
        }
    offset = (size_t)index[0] * size * texture->channels + (size_t)index[1] * texture->pitch +
             ((size_t)index[2] + layer) * texture->slice;
    record_access(worker, texture->address + offset,
                  texture->address + offset + (uint64_t)size * texture->channels, false);
    for (unsigned int i = 0; i < 4; i++) {
        const unsigned char *at = texture->memory + offset + (size_t)i * size;

        texel->bits[i] = i < texture->channels ? channel_bits(at, texture->channel) : i == 3;
        texel->values[i] = i < texture->channels ? channel_float(texture, at) : i == 3;
        if (texture->srgb && i < 3 && i < texture->channels)
            texel->values[i] = linear_of_srgb(texel->values[i]);
    }
}

/* --- tex --- */

/* A place between elements. */
struct coordinates {
    size_t layer;
    float at[3];
    bool whole; /* they are indices */
    int64_t index[3];
};

static size_t clamp_layer(const struct simt_texture *texture, int64_t layer) {
    int64_t most = (int64_t)(texture->layers != 0 ? texture->layers : 1) - 1;

    return (size_t)(layer < 0 ? 0 : layer > most ? most : layer);
}

static struct coordinates take_coordinates(const struct warp *warp,
                                           const struct instruction *instruction,
                                           const struct simt_texture *texture, unsigned int lane) {
    const struct extra *extra = instruction->extra;
    struct coordinates place = {.whole = instruction->type2 == TYPE_S32};
    unsigned int first = instruction->flag2;

    if (instruction->flag2)
        place.layer = clamp_layer(texture, (int32_t)source(warp, extra->rows[0])[lane]);
    for (unsigned int i = 0; i < instruction->count; i++) {
        uint32_t bits = (uint32_t)source(warp, extra->rows[first + i])[lane];

        place.index[i] = (int32_t)bits;
        place.at[i] = ptx_float(bits);
        if (texture->normalized)
            place.at[i] *= (float)extent(texture, i);
    }
    return place;
}

static int64_t floor_index(float value) {
    return value >= -1e15f && value <= 1e15f ? (int64_t)floorf(value) : 0;
}

/* The weights of linear filtering have 8 bits behind the point. */
static float weight(float value) {
    return floorf((value - floorf(value)) * 256.0f + 0.5f) / 256.0f;
}

static void fetch_linear(struct worker *worker, const struct simt_texture *texture,
                         const struct coordinates *place, unsigned int dimensions,
                         struct texel *texel) {
    memset(texel, 0, sizeof *texel);
    for (unsigned int corner = 0; corner < 1u << dimensions; corner++) {
        int64_t index[3] = {0};
        struct texel part;
        float share = 1;

        for (unsigned int i = 0; i < dimensions; i++) {
            float at = place->at[i] - 0.5f, far = weight(at);
            bool second = corner >> i & 1;

            index[i] = floor_index(at) + second;
            share *= second ? far : 1 - far;
        }
        if (share == 0)
            continue;
        read_texel(worker, texture, place->layer, index, &part);
        for (int i = 0; i < 4; i++)
            texel->values[i] += share * part.values[i];
    }
}

static void fetch(struct worker *worker, const struct simt_texture *texture,
                  struct coordinates *place, unsigned int dimensions, struct texel *texel) {
    int64_t index[3] = {0};

    if (texture->linear && !place->whole && !texture->reads_integers) {
        fetch_linear(worker, texture, place, dimensions, texel);
        return;
    }
    for (unsigned int i = 0; i < dimensions; i++) {
        index[i] = place->whole ? place->index[i] : floor_index(place->at[i]);
        if (place->whole && (index[i] < 0 || index[i] >= (int64_t)extent(texture, i))) {
            memset(texel, 0, sizeof *texel); /* of linear memory nothing is beyond its end */
            return;
        }
    }
    read_texel(worker, texture, place->layer, index, texel);
}

/* What a result register gets of a channel. */
static uint64_t result_of(const struct instruction *instruction, const struct simt_texture *texture,
                          const struct texel *texel, unsigned int channel) {
    bool is_float = texture->channel == SIMT_F32 || texture->channel == SIMT_F16;

    if (instruction->type != TYPE_F32)
        return is_float ? ptx_float_bits(texel->values[channel]) : texel->bits[channel];
    if (texture->reads_integers && !is_float)
        return texel->bits[channel];
    return ptx_float_bits(texel->values[channel]);
}

enum step run_texture(struct warp *warp, const struct instruction *instruction) {
    const struct extra *extra = instruction->extra;
    uint64_t results[4][LANES];

    warp->worker->effects++;
    for (uint32_t lanes = warp->active; lanes != 0; lanes &= lanes - 1) {
        unsigned int lane = (unsigned int)__builtin_ctz(lanes);
        const struct simt_texture *texture = find(warp, instruction, lane, false);
        struct coordinates place;
        struct texel texel;

        if (texture == NULL)
            return STEP_AGAIN;
        place = take_coordinates(warp, instruction, texture, lane);
        fetch(warp->worker, texture, &place, instruction->count, &texel);
        for (unsigned int i = 0; i < 4; i++)
            results[i][lane] = result_of(instruction, texture, &texel, i);
    }
    for (unsigned int i = 0; i < extra->more_count; i++) {
        uint64_t *d = extra->more[i] == NO_ROW ? NULL : destination(warp, extra->more[i]);

        if (d != NULL)
            FOR_LANES(warp, lane, { d[lane] = results[i][lane]; });
    }
    return STEP_ON;
}

/* The four elements that linear filtering would use, from the lower left one counter to the clock's
 * hands: (0, 1), (1, 1), (1, 0), (0, 0). */
enum step run_gather(struct warp *warp, const struct instruction *instruction) {
    static const unsigned char corners[4][2] = {{0, 1}, {1, 1}, {1, 0}, {0, 0}};
    const struct extra *extra = instruction->extra;
    uint64_t results[4][LANES];

    warp->worker->effects++;
    for (uint32_t lanes = warp->active; lanes != 0; lanes &= lanes - 1) {
        unsigned int lane = (unsigned int)__builtin_ctz(lanes);
        const struct simt_texture *texture = find(warp, instruction, lane, false);
        struct coordinates place;

        if (texture == NULL)
            return STEP_AGAIN;
        place = take_coordinates(warp, instruction, texture, lane);
        for (unsigned int i = 0; i < 4; i++) {
            int64_t index[3] = {floor_index(place.at[0] - 0.5f) + corners[i][0],
                                floor_index(place.at[1] - 0.5f) + corners[i][1], 0};
            struct texel texel;

            read_texel(warp->worker, texture, 0, index, &texel);
            results[i][lane] = result_of(instruction, texture, &texel, instruction->mode);
        }
    }
    for (unsigned int i = 0; i < extra->more_count; i++) {
        uint64_t *d = extra->more[i] == NO_ROW ? NULL : destination(warp, extra->more[i]);

        if (d != NULL)
            FOR_LANES(warp, lane, { d[lane] = results[i][lane]; });
    }
    return STEP_ON;
}

/* --- surfaces --- */

/* Where an access is; NULL: outside, and zero or nothing. *failed: it ends the launch. */
static unsigned char *surface_place(struct warp *warp, const struct instruction *instruction,
                                    unsigned int lane, bool write, bool *failed) {
    const struct simt_texture *surface = find(warp, instruction, lane, true);
    const struct extra *extra = instruction->extra;
    unsigned int bytes = instruction->size * instruction->mode2, first = instruction->flag2;
    int64_t at[3] = {0}, row;
    size_t layer = 0, offset;

    *failed = surface == NULL;
    if (*failed)
        return NULL;
    row = (int64_t)(surface->width * surface->channels * channel_size(surface->channel));
    if (instruction->flag2)
        layer = clamp_layer(surface, (int32_t)source(warp, extra->rows[0])[lane]);
    for (unsigned int i = 0; i < instruction->count; i++) {
        int64_t most = i == 0 ? row - (int64_t)bytes : (int64_t)extent(surface, i) - 1;

        at[i] = (int32_t)source(warp, extra->rows[first + i])[lane];
        if (at[i] >= 0 && at[i] <= most)
            continue;
        *failed = instruction->mode == SURFACE_TRAP;
        if (*failed)
            fault(warp, instruction, lane, SIMT_ILLEGAL_ADDRESS, "is outside of a surface at",
                  (uint64_t)at[i], bytes);
        if (instruction->mode != SURFACE_CLAMP)
            return NULL;
        at[i] = at[i] < 0 ? 0 : most;
    }
    offset =
        (size_t)at[0] + (size_t)at[1] * surface->pitch + ((size_t)at[2] + layer) * surface->slice;
    record_access(warp->worker, surface->address + offset, surface->address + offset + bytes,
                  write);
    return surface->memory + offset;
}

enum step run_surface_load(struct warp *warp, const struct instruction *instruction) {
    const struct extra *extra = instruction->extra;
    uint64_t results[4][LANES] = {{0}};

    warp->worker->effects++;
    for (uint32_t lanes = warp->active; lanes != 0; lanes &= lanes - 1) {
        unsigned int lane = (unsigned int)__builtin_ctz(lanes);
        bool failed;
        const unsigned char *at = surface_place(warp, instruction, lane, false, &failed);

        if (failed)
            return STEP_AGAIN;
        for (unsigned int i = 0; at != NULL && i < instruction->mode2; i++)
            memcpy(&results[i][lane], at + (size_t)i * instruction->size, instruction->size);
    }
    for (unsigned int i = 0; i < extra->more_count && i < instruction->mode2; i++) {
        uint64_t *d = extra->more[i] == NO_ROW ? NULL : destination(warp, extra->more[i]);

        if (d != NULL)
            FOR_LANES(warp, lane, { d[lane] = results[i][lane]; });
    }
    return STEP_ON;
}

enum step run_surface_store(struct warp *warp, const struct instruction *instruction) {
    const struct extra *extra = instruction->extra;

    warp->worker->effects++;
    for (uint32_t lanes = warp->active; lanes != 0; lanes &= lanes - 1) {
        unsigned int lane = (unsigned int)__builtin_ctz(lanes);
        bool failed;
        unsigned char *at = surface_place(warp, instruction, lane, true, &failed);

        if (failed)
            return STEP_AGAIN;
        for (unsigned int i = 0; at != NULL && i < extra->more_count && i < instruction->mode2; i++)
            memcpy(at + (size_t)i * instruction->size, &source(warp, extra->more[i])[lane],
                   instruction->size);
    }
    return STEP_ON;
}

enum step run_texture_query(struct warp *warp, const struct instruction *instruction) {
    uint64_t *d = destination(warp, instruction->d);

    for (uint32_t lanes = warp->active; lanes != 0; lanes &= lanes - 1) {
        unsigned int lane = (unsigned int)__builtin_ctz(lanes);
        const struct simt_texture *texture = find(warp, instruction, lane, instruction->flag);

        if (texture == NULL)
            return STEP_AGAIN;
        d[lane] = instruction->mode == 0   ? texture->width
                  : instruction->mode == 1 ? texture->height
                                           : texture->depth;
    }
    return STEP_ON;
}
