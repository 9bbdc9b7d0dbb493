/* What is held is to be about the most that the program has used, and a little. Where idle pieces
 * take that already, what is asked for is a share of what is held: so there never are very many
 * chunks. A small program's chunks are small. One that has asked for large blocks alone gets no
 * more than these; its first small request gets a little. The bound on idle memory, and a part of
 * what the device has left, are kept. */
#include "pool/mapped_growth.h"
#include "pool/bounds.h"
#include "sources/mapped.h"

/* The share, which grows with what is held. `scattered`: idle pieces take more than half of what
 * may be held beyond use. The next requests will hardly fit them either, and so the share is
 * larger. */
static uint64_t least_growth(uint64_t held, bool scattered) {
    enum { LEAST_SHARE = 8 };
    double whole = (double)((uint64_t)(scattered ? 10 : 80) << 30);
    uint64_t least = (uint64_t)((double)held * (double)held / whole);
    return least < held / LEAST_SHARE ? least : held / LEAST_SHARE;
}

size_t mapped_growth(struct pool *pool, const struct context *context, uint64_t in_use,
                     size_t lacking, size_t available) {
    lock_check_held(LOCK_POOL);
    enum { LEFT = 32, FIRST = 4 << 20, FIRST_SMALL = 8 << 20 };
    static const double steep = 256 << 20;
    struct mapped *mapped = context->mapped;
    const struct device *device = context->device;
    uint64_t held = device->held, room = idle_bound_room(pool, device), left = available / LEFT;
    uint64_t most = (uint64_t)((double)held * (double)held / steep) + FIRST;
    uint64_t used = in_use > device->peak_in_use ? in_use : device->peak_in_use;
    uint64_t beyond = used / 200 * 3 + MAPPED_SLACK, wanted = used + beyond;
    uint64_t held_anyway = held + round_up(lacking, ROUND_PAGE) - lacking;
    bool is_room = available > 2 * held; /* for larger chunks, each of which one block keeps */
    uint64_t least = least_growth(held, is_room && held_anyway > used + beyond / 2);
    wanted = wanted > held_anyway + least ? wanted - held_anyway : least;
    wanted = wanted < most ? wanted : most;
    if (!held)
        wanted = ROUND_PAGE;
    if (!mapped->met_small)
        wanted = wanted < FIRST_SMALL ? wanted : FIRST_SMALL;
    mapped->met_small = mapped->met_small || lacking < FIRST_SMALL;
    wanted = wanted > lacking ? wanted - lacking : 0;
    wanted = wanted < room ? wanted : room;
    return (wanted < left ? wanted : left) / ROUND_PAGE * ROUND_PAGE;
}
