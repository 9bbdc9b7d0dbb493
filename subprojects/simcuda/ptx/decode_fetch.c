/* Textures and surfaces. */
#include "decode.h"

bool decode_texture(struct decoding *decoding) {
    return decode_fail(decoding, "textures are not simulated");
}

bool decode_gather(struct decoding *decoding) {
    return decode_texture(decoding);
}

bool decode_surface_load(struct decoding *decoding) {
    return decode_texture(decoding);
}

bool decode_surface_store(struct decoding *decoding) {
    return decode_texture(decoding);
}

bool decode_query(struct decoding *decoding) {
    return decode_texture(decoding);
}
