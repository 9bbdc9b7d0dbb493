#include "allocate.h"
#include "program.h"

#include <stdlib.h>
#include <string.h>

enum { PART_ROOM = 1 << 16 };

struct arena_part {
    struct arena_part *next;
    size_t used, room;
    _Alignas(16) unsigned char memory[];
};

void *arena_take(struct arena *arena, size_t size) {
    struct arena_part *part = arena->parts;
    void *taken;

    size = (size + 15) & ~(size_t)15;
    if (part == NULL || size > part->room - part->used) {
        size_t room = size > PART_ROOM ? size : PART_ROOM;

        part = allocate_zeroed(sizeof *part + room);
        part->room = room;
        part->next = arena->parts;
        arena->parts = part;
    }
    taken = part->memory + part->used;
    part->used += size;
    return taken;
}

char *arena_text(struct arena *arena, const char *text, size_t length) {
    return memcpy(arena_take(arena, length + 1), text, length);
}

void arena_release(struct arena *arena) {
    struct arena_part *part, *next;

    for (part = arena->parts; part != NULL; part = next) {
        next = part->next;
        free(part);
    }
    arena->parts = NULL;
}
