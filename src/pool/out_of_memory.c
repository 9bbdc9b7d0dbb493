/* What is done for a request while the driver has no memory. In this order:
 *
 *  1. A request that can never be served fails: no idle memory is thrown away for it.
 *  2. What other threads have freed meanwhile, or whose fence has passed, serves if it fits.
 *  3. Contexts that rest give idle memory back, what the driver lacks, then all (release.c).
 *  4. An idle block serves that is larger than the ratio allows: of contexts that do not rest,
 *     after a moment, and if it is much larger, after a longer one. At once it would be waste that
 *     the program's next request lacks, after 5 a wait for nothing.
 *  5. The program's memory pools and other processes give what they have unused.
 *  6. The device is waited for, by looking again and again, for POOLCUDA_OOM_WAIT (patience.c).
 *
 * Then the error is the driver's. */
#include "pool/internal.h"
#include "pool/reach.h"
#include "pool/uncancelled.h"

/* For how long other processes are asked, in a round of at most two for an allocation. */
static const uint64_t OTHERS_NS = 125 * 1000 * 1000;

/* patience_wait with the lock held on entry and return, not in between. */
static bool wait_a_moment(struct pool *pool, struct patience *patience, enum patience_for what) {
    lock_check_held(LOCK_POOL);
    double most = pool->config.oom_wait;
    pool_unlock_between(pool);
    bool more = patience_wait(pool, patience, what, most);
    pool_lock(pool);
    return more;
}

/* A request on its way from one source to the next. */
struct search {
    struct pool *pool;
    const struct request *request;
    struct pool_block **block; /* what the pool itself had after all */
    struct obtained *obtained; /* what the driver has given */
    const char *call;
    size_t bytes;                /* that are given back in the next round */
    bool gave;                   /* a thread has, since the driver was asked for the first time */
    uint64_t freed;              /* blocks that the driver had got back before it was asked last */
    uint64_t undone;             /* of which requests gave back what was too little for them */
    uint64_t shares;             /* the device's when the driver had refused it last */
    bool coming;                 /* the last round found another thread giving something back */
    bool all_busy;               /* the last round found idle memory in busy contexts alone */
    bool pools_held, pools_gave; /* memory pools: after the last round; and gave it back since */
    unsigned believed;           /* how often the driver said that it has the memory */
    CUresult refusal;            /* the last one, as it was answered */
    struct patience patience;
};

/* The record may be another block's once the lock is released: see malloc.c. Lock held. */
static bool took(const struct search *search, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    *search->block = block;
    if (block)
        search->obtained->pointer = block->pointer;
    if (block && search->request->pitch)
        *search->request->pitch->pitch = search->request->pitch->known;
    return block;
}

/* Whether the pool may be looked at for the request. Lock held. */
static bool may_take(const struct request *request) {
    lock_check_held(LOCK_POOL);
    return request->site && request->size && !request->context->ended;
}

/* Looks again for what other threads have freed, or whose fence has passed. Lock held on entry and
 * return, not in between. */
static bool search_again(struct search *search) {
    lock_check_held(LOCK_POOL);
    const struct request *request = search->request;
    room_poll_fences(search->pool, request->context->device);
    return may_take(request) &&
           took(search, pool_take(search->pool, request->context, request->site, request->bytes,
                                  request->size));
}

/* OUT_OF_MEMORY for a refusal of whatever code. */
static CUresult ask_driver(struct search *search, size_t size) {
    search->gave = false;
    search->freed = stats_get(STATS_driver_frees);
    search->undone = atomic_load(&search->pool->undone);
    CUresult result = allocate_from_driver(search->pool, search->request, size, search->obtained);
    if (!driver_refused(result))
        return result;
    search->shares = atomic_load(&search->request->context->device->shares);
    search->refusal = result;
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* Whether a request that another thread had made of the driver before this one was refused may have
 * more than it needs, in no record yet. Those made later took nothing from this one: were they
 * waited for, too, threads that all lack memory would wait for each other's attempts for ever. Lock
 * held. */
static bool awaits_rest(const struct search *search) {
    lock_check_held(LOCK_POOL);
    const struct device *device = search->request->context->device;
    return source_is_shared(device, search->shares) &&
           (device->attempting || may_take(search->request)); /* or the driver gets it back */
}

/* room_make for what has been refused by no attempt's number. Lock held. */
static enum room room_make_of_another(struct pool *pool, struct device *device, size_t bytes) {
    lock_check_held(LOCK_POOL);
    enum room room = room_make(pool, device, bytes);
    return room < ROOM_COMING && device->attempting ? ROOM_COMING : room;
}

/* Gives back idle memory of the request's kind, at last all else that may lie in the same place.
 * There are devices that have no memory but the host's, and some from which managed memory does not
 * give way. Device memory is in nobody's way on the host. */
static enum room make_room_for(struct pool *pool, const struct request *request, size_t bytes) {
    const struct context *context = request->context;
    const CUdevice others[] = {context->ordinal, ordinal_of_kind(POOL_MANAGED),
                               ordinal_of_kind(POOL_HOST)};
    enum room room = room_make(pool, context->device, bytes), other_room;
    for (size_t i = context->kind.memory == POOL_HOST;
         room != ROOM_MADE && i < sizeof others / sizeof *others; i++) {
        struct device *other = context_find_device(pool, others[i]);
        if (!other || other == context->device)
            continue;
        other_room = room_make_of_another(pool, other, SIZE_MAX);
        room = other_room > room ? other_room : room;
    }
    return room;
}

/* Asks for what was refused as rounded: rounding must not make the difference. Lock not held. */
static CUresult allocate_exactly(struct search *search) {
    lock_check_none();
    const struct request *request = search->request;
    return request->pitch || request->size == request->bytes ? CUDA_ERROR_OUT_OF_MEMORY
                                                             : ask_driver(search, request->bytes);
}

/* Whether the driver may have memory that it lacked when it was asked last. What this request has
 * undone itself is none, and what others have undone meanwhile was theirs for a moment: as *room
 * that another thread has on its way it is worth one more attempt, which is not made at once. Two
 * requests that both lack memory would else take each other's attempts for room for ever. */
static bool others_gave_back(struct search *search, enum room *room) {
    uint64_t undone = atomic_load(&search->pool->undone) - search->undone;
    if (search->gave || stats_get(STATS_driver_frees) - search->freed != undone)
        return true;
    if (undone != search->obtained->undone && *room < ROOM_COMING) {
        *room = ROOM_COMING;
        search->undone += undone - search->obtained->undone;
        search->freed += undone - search->obtained->undone;
    }
    return false;
}

/* One round: gives idle memory back where that needs no wait, and asks again. *over: there was
 * nothing to give back, and nothing is on its way. Lock held on entry and return. */
static CUresult try_round(struct search *search, bool *over) {
    lock_check_held(LOCK_POOL);
    struct pool *pool = search->pool;
    enum room room = make_room_for(pool, search->request, search->bytes);
    bool more = others_gave_back(search, &room) || (search->coming && room != ROOM_COMING);
    search->coming = room == ROOM_COMING;
    *over = room != ROOM_MADE && !more;
    search->all_busy = *over && room != ROOM_NONE;
    bool waits = room == ROOM_COMING || awaits_rest(search); /* what comes after the look */
    if (search_again(search))
        return CUDA_SUCCESS;
    if (*over) {
        *over = !waits || !wait_a_moment(pool, &search->patience, PATIENCE_FOR_THREAD);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    search->bytes = SIZE_MAX; /* what was lacking did not do: all of it next time */
    pool_unlock(pool);
    CUresult result = ask_driver(search, search->request->size);
    pool_lock(pool);
    return result;
}

/* Waits a moment for work that keeps idle memory from the driver. False: that would not help, or it
 * has been waited for `most` seconds. Lock held on entry and return, not in between. */
static bool wait_briefly(struct search *search, struct patience *brief, double most) {
    lock_check_held(LOCK_POOL);
    struct pool *pool = search->pool;
    double seconds = pool->config.oom_wait < most ? pool->config.oom_wait : most;
    if (!search->all_busy || atomic_load(&pool->captures))
        return false;
    pool_unlock(pool);
    bool more = reach_idle_helps(pool, search->request, NULL) &&
                patience_wait(pool, brief, PATIENCE_BRIEFLY, seconds);
    pool_lock(pool);
    return more;
}

/* Asks again until a round begun after the failure has found nothing idle but what is kept from the
 * driver by work under way. Most work is over soon. So of what it keeps, a block that wastes little
 * serves after a moment, and one that would be missing to the next request after a longer one. */
static CUresult search_own(struct search *search) {
    static const double moments[] = {[false] = 0.05, [true] = 0.5}; /* seconds, by what is wasted */
    struct pool *pool = search->pool;
    struct device *device = search->request->context->device;
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    bool over = false;
    struct patience brief = {.began = 0};
    pool_lock(pool);
    device->pressure++;
    for (int wastes = false; wastes <= true && result == CUDA_ERROR_OUT_OF_MEMORY; wastes++) {
        while (result == CUDA_ERROR_OUT_OF_MEMORY && reach_leaves_room(pool, search->request) &&
               (!over || wait_briefly(search, &brief, moments[wastes])))
            result = try_round(search, &over);
        if (result == CUDA_ERROR_OUT_OF_MEMORY && may_take(search->request) &&
            took(search, pool_take_larger(pool, search->request, wastes)))
            result = CUDA_SUCCESS;
    }
    patience_end(&brief);
    device->pressure--;
    pool_unlock(pool);
    return result == CUDA_ERROR_OUT_OF_MEMORY ? allocate_exactly(search) : result;
}

/* Asks other processes on the device for memory that they hold idle. Lock not held. */
static enum pool_help ask_others(struct pool *pool, const struct device *device, size_t bytes,
                                 uint64_t until_ns) {
    lock_check_none();
    return pool->config.ask_others && !atomic_load(&pool->captures)
               ? pool->config.ask_others(pool, device->uuid, bytes, until_ns)
               : POOL_HELP_NONE;
}

static bool others_helped(struct pool *pool, const struct device *device, size_t bytes) {
    return ask_others(pool, device, bytes, clock_ns(CLOCK_MONOTONIC) + OTHERS_NS) != POOL_HELP_NONE;
}

/* One round. What a process had that has ended comes at once, or in a moment: it is asked for as
 * long as others might take for their answers, who are asked meanwhile. *more: somebody helped. */
static CUresult ask_round(struct search *search, size_t bytes, bool *more) {
    struct pool *pool = search->pool;
    const struct request *request = search->request;
    struct patience brief = {.began = 0};
    uint64_t until = clock_ns(CLOCK_MONOTONIC) + OTHERS_NS;
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    bool comes = false;
    enum pool_help help;
    do {
        help = ask_others(pool, request->context->device, bytes, until);
        comes = comes || help == POOL_HELP_COMES;
        *more = comes || help == POOL_HELP_GIVEN;
        if (*more)
            result = ask_driver(search, request->size);
    } while (result == CUDA_ERROR_OUT_OF_MEMORY && comes && help != POOL_HELP_GIVEN &&
             !atomic_load(&pool->captures) && clock_ns(CLOCK_MONOTONIC) < until &&
             patience_wait(pool, &brief, PATIENCE_BRIEFLY, OTHERS_NS / 1e9));
    patience_end(&brief);
    return result;
}

/* Asks twice, the second time for all that they have: what they gave need not lie in one piece. */
static CUresult search_others(struct search *search) {
    const struct request *request = search->request;
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    size_t bytes = request->size ? request->size : SIZE_MAX;
    bool more = reach_others_may_help(search->pool, request);
    for (int round = 0; round < 2 && result == CUDA_ERROR_OUT_OF_MEMORY && more; round++) {
        result = ask_round(search, bytes, &more);
        bytes = SIZE_MAX;
    }
    return result;
}

static CUresult search_memory_pools(struct search *search) {
    const struct request *request = search->request;
    if (!memory_pools_give(search->pool, request->context->device->ordinal, search->call))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = ask_driver(search, request->size);
    return result == CUDA_ERROR_OUT_OF_MEMORY ? allocate_exactly(search) : result;
}

/* Whether our own idle memory may be enough, or what other threads are about to leave of theirs.
 * Lock not held. */
static bool own_may_help(struct search *search) {
    lock_check_none();
    pool_lock(search->pool);
    memory_refresh(search->pool, search->request->context->device);
    bool rest = awaits_rest(search); /* asked first: afterwards it is idle */
    bool fits = reach_leaves_room(search->pool, search->request);
    pool_unlock(search->pool);
    if (!fits)
        return false;
    return reach_idle_helps(search->pool, search->request, &search->bytes) || rest;
}

/* Everything that needs no wait for the device. What others give may make our own idle memory
 * enough. */
static CUresult search_at_once(struct search *search, bool ask_others) {
    bool own = own_may_help(search);
    CUresult result = own ? search_own(search) : CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        result = search_memory_pools(search);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && ask_others)
        result = search_others(search);
    if (result != CUDA_ERROR_OUT_OF_MEMORY || own)
        return result;
    if (own_may_help(search))
        return search_own(search);
    result = allocate_exactly(search); /* it may have more than it says */
    stats_add(STATS_oom_hopeless, result == CUDA_ERROR_OUT_OF_MEMORY);
    return result;
}

/* Whether it has waited a moment for the device, or memory pools gave back without a wait. */
static bool waited(struct search *search) {
    struct pool *pool = search->pool;
    struct device *device = search->request->context->device;
    bool held = search->pools_held;
    search->pools_held = memory_pools_may_give(pool, device->ordinal);
    search->pools_gave = held && !search->pools_held;
    if (search->pools_gave)
        return true;
    if (!(search->all_busy && reach_idle_helps(pool, search->request, NULL)) && !search->pools_held)
        return false;
    pool_lock(pool);
    device->pressure++;
    bool more = wait_a_moment(pool, &search->patience, PATIENCE_FOR_DEVICE);
    device->pressure--;
    pool_unlock(pool);
    return more;
}

/* Whether the driver says that it has what it has refused. Where nothing is idle and nothing on its
 * way, other threads may have taken the idle memory while the program freed as much that the pool
 * has no record of: nobody tells of that. The driver may have other reasons to refuse, so it is
 * believed a few times only. */
static bool is_there_after_all(struct search *search) {
    enum { MOST_BELIEVED = 8 };
    const struct request *request = search->request;
    size_t takes = round_physical(request->size ? request->size : reach_least(request));
    if (search->all_busy || request->context->device->memory != POOL_DEVICE || !takes ||
        search->believed == MOST_BELIEVED)
        return false;
    search->believed++;
    size_t available = available_by_driver(search->pool);
    return available != SIZE_MAX && takes <= available;
}

static CUresult search_everywhere(struct search *search) {
    CUresult result = search_at_once(search, true);
    while (result == CUDA_ERROR_OUT_OF_MEMORY) {
        bool there = !waited(search);
        if (there && !is_there_after_all(search))
            break;
        if (search->pools_gave || there)
            result = ask_driver(search, search->request->size);
        if (result == CUDA_ERROR_OUT_OF_MEMORY)
            result = search_at_once(search, false);
    }
    patience_end(&search->patience);
    return result;
}

static void count_outcome(struct pool *pool, const struct search *search, CUresult result) {
    struct device *device = search->request->context->device;
    pool_lock(pool);
    device->oom_events++;
    device->oom_rescued += result == CUDA_SUCCESS;
    if (result == CUDA_ERROR_OUT_OF_MEMORY && search->request->bytes <= device->total)
        bounds_tighten(device);
    pool_unlock(pool);
    if (result == CUDA_SUCCESS)
        stats_add(STATS_oom_rescued, 1);
    else if (result == CUDA_ERROR_OUT_OF_MEMORY)
        shortage_report(pool, device, search->call, search->request->bytes);
}

/* Notes what other threads give back, or gave back after the driver refused and before `freed` was
 * read: a thread counts as releasing until its round has ended. */
static void notice_releases(struct search *search, int round) {
    struct pool *pool = search->pool;
    const struct device *device;
    pool_lock(pool);
    search->gave = round != atomic_load(&pool->release_rounds);
    TAILQ_FOREACH (device, &pool->devices, link)
        search->coming = search->coming || device->releasing;
    pool_unlock(pool);
}

CUresult make_room_and_allocate(struct pool *pool, const struct request *request, CUresult refusal,
                                int round, struct pool_block **block, struct obtained *obtained) {
    lock_check_none();
    if (!driver_refused(refusal))
        return refusal;
    if (PLANTED(slow_refusal))
        futex_pause();
    struct search search = {
        .pool = pool,
        .request = request,
        .block = block,
        .obtained = obtained,
        .call = request->pitch ? "cuMemAllocPitch" : source_call_name(&request->context->kind),
        .bytes = request->size ? request->size : SIZE_MAX,
        .freed = stats_get(STATS_driver_frees) - obtained->undone,
        .undone = atomic_load(&pool->undone) - obtained->undone,
        .shares = atomic_load(&request->context->device->shares),
        .refusal = refusal,
    };
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    stats_add(STATS_oom_events, 1);
    if (PLANTED(slow_refusal))
        futex_pause();
    int cancelling = uncancelled_begins(pool);
    notice_releases(&search, round);
    if (reach_has_room(request))
        result = search_everywhere(&search);
    else
        stats_add(STATS_oom_hopeless, 1);
    uncancelled_ends(pool, cancelling);
    count_outcome(pool, &search, result);
    return result == CUDA_ERROR_OUT_OF_MEMORY ? search.refusal : result;
}

/* Enough for most of what a call other than an allocation may need. */
static const size_t first_room = 64 << 20;
/* Attempts beyond which only our own idle memory is asked for, and beyond which nothing is made of
 * what others change: a call that can never have its memory is to fail beside busy threads, too. */
enum { MOST_ATTEMPTS = 4, MOST_NOTICED = 16 };

/* Gives back idle memory of `first` if there is any, else of whatever device has some: the call may
 * be about another device than the current context's. Lock held. */
static enum room make_room_anywhere(struct pool *pool, struct device *first, size_t bytes) {
    lock_check_held(LOCK_POOL);
    struct device *device;
    enum room room = first ? room_make_of_another(pool, first, bytes) : ROOM_NONE, other;
    if (room == ROOM_MADE)
        return room;
    TAILQ_FOREACH (device, &pool->devices, link) {
        other = device == first ? room : room_make_of_another(pool, device, bytes);
        room = other > room ? other : room;
    }
    return room;
}

/* A call that is not the pool's own has found no memory. */
struct foreign_call {
    const char *name;
    unsigned attempt;
    enum pool_asks asks;
    CUdevice ordinal;
    struct device *device; /* NULL: the pool knows none */
};

/* Others give up device memory, which helps no call that asks for other memory. */
static bool takes_of_others(const struct foreign_call *call) {
    return call->attempt < MOST_ATTEMPTS && call->asks != POOL_ASKS_OTHER_MEMORY;
}

/* What changes where memory goes to the driver. */
struct moment {
    int round;
    uint64_t frees;
    size_t available;
};

/* When the call was last made again. */
static _Thread_local struct moment made_again __attribute__((tls_model("initial-exec")));

static struct moment moment_now(struct pool *pool) {
    return (struct moment){.round = atomic_load(&pool->release_rounds),
                           .frees = stats_get(STATS_free_calls),
                           .available = available_by_driver(pool)};
}

/* Whether other threads may have seen to memory since the driver was asked: what one gave back
 * between its answer and our look is not to be seen, nor is what one took of the idle memory while
 * another freed what the pool has no record of. Of the first answer it is not known since when. */
static bool is_changed(struct pool *pool, unsigned attempt) {
    if (!attempt)
        return atomic_load(&pool->release_rounds);
    struct moment now = moment_now(pool);
    return attempt < MOST_NOTICED &&
           (now.round != made_again.round || now.frees != made_again.frees ||
            now.available != made_again.available);
}

static enum room make_own_room(struct pool *pool, const struct foreign_call *call, size_t bytes) {
    pool_lock(pool);
    enum room room = make_room_anywhere(pool, call->device, bytes);
    pool_unlock(pool);
    return room;
}

/* Makes room that needs no wait for the device. *room: what became of our own idle memory. */
static bool make_room_at_once(struct pool *pool, const struct foreign_call *call, bool ask_others,
                              enum room *room) {
    size_t bytes = call->attempt ? SIZE_MAX : first_room;
    enum room before = *room;
    *room = make_own_room(pool, call, bytes);
    bool came = before == ROOM_COMING && *room == ROOM_NONE; /* from another thread */
    if (came || *room == ROOM_MADE || !takes_of_others(call))
        return came || *room == ROOM_MADE;
    return memory_pools_give(pool, call->ordinal, call->name) ||
           (ask_others && call->device && others_helped(pool, call->device, bytes));
}

static bool make_room_with_patience(struct pool *pool, const struct foreign_call *call) {
    struct patience patience = {.began = 0};
    enum room room = ROOM_NONE;
    bool made = make_room_at_once(pool, call, true, &room), more = true;
    while (!made && more &&
           (room != ROOM_NONE ||
            (takes_of_others(call) && memory_pools_may_give(pool, call->ordinal)))) {
        pool_lock(pool);
        more = wait_a_moment(pool, &patience,
                             room == ROOM_COMING ? PATIENCE_FOR_THREAD : PATIENCE_FOR_DEVICE);
        pool_unlock(pool);
        made = more && make_room_at_once(pool, call, false, &room);
    }
    patience_end(&patience);
    return made;
}

bool pool_make_room(struct pool *pool, const char *name, unsigned attempt, enum pool_asks asks) {
    struct foreign_call call = {.name = name, .attempt = attempt, .asks = asks};
    if (atomic_load(&pool->down) || (asks == POOL_ASKS_NO_MEMORY && atomic_load(&pool->captures)))
        return false;
    if (pool->driver->ctx_get_device(&call.ordinal) != CUDA_SUCCESS)
        call.ordinal = -1;
    if (!attempt)
        stats_add(STATS_oom_events, 1);
    pool_lock(pool);
    call.device = context_find_device(pool, call.ordinal);
    if (call.device && !attempt)
        call.device->oom_events++;
    if (!call.device)
        call.device = TAILQ_FIRST(&pool->devices);
    pool_unlock(pool);
    if (make_room_with_patience(pool, &call) || is_changed(pool, attempt)) {
        made_again = moment_now(pool);
        return true;
    }
    if (call.device)
        shortage_report(pool, call.device, name, 0);
    return false;
}
