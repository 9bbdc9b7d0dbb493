/* The gate between stream captures and the pool's own calls.
 *
 * A wait or an event query is prohibited while a stream is being captured and would invalidate the
 * capture; a program that only allocates and frees must not cause that. So such calls are made
 * inside the gate, which a capture that begins closes, and it begins only when all have left.
 *
 * A thread may be waiting for the device inside the gate while the work it waits for needs the very
 * thread that begins the capture. Such a wait is not waited for: where the device has not finished
 * during some time what it was at, whoever is still inside has long since entered the driver, and
 * there a capture that begins later does not disturb it. While the device does finish its work,
 * those inside wait for nothing, and will leave as soon as they get to run: they are waited for
 * however long that takes, since one that has not entered the driver yet would invalidate the
 * capture.
 */
#include "pool/internal.h"

#include "planted.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    STEP_NS = 50 * 1000,
    MAX_STEPS = 5000, /* a quarter of a second */
    TURN_STEPS = 4 * MAX_STEPS,
};

void gate_pause(void) {
    struct timespec step = {.tv_nsec = STEP_NS};
    syscall(SYS_nanosleep, &step, NULL); /* libc's function may end a cancelled thread */
}

bool gate_enter(struct pool *pool) {
    if (PLANTED(capture_race)) { /* checks too early, and says nothing of being inside */
        bool open = !atomic_load(&pool->captures);
        gate_pause();
        return open;
    }
    atomic_fetch_add(&pool->gate_users, 1);
    if (!atomic_load(&pool->captures) || PLANTED(query_in_capture)) {
        if (PLANTED(slow_gate))
            gate_pause();
        return true;
    }
    atomic_fetch_sub(&pool->gate_users, 1);
    return false;
}

void gate_leave(struct pool *pool) {
    if (!PLANTED(capture_race))
        atomic_fetch_sub(&pool->gate_users, 1);
}

bool pool_gate_enter(struct pool *pool) {
    return gate_enter(pool);
}

void pool_gate_leave(struct pool *pool) {
    gate_leave(pool);
}

/* Threads' caches look at it while they are stopped. */
static void tell_caches(struct pool *pool) {
    pool_lock(pool);
    pool_unlock(pool);
}

static void await_users(struct pool *pool) {
    bool noted = false;
    for (int step = 1; atomic_load(&pool->gate_users) > 0; step++) {
        gate_pause();
        if (step % MAX_STEPS)
            continue;
        if (noted && !quiet_is_noted_work_done(pool))
            return;
        noted = quiet_note_work(pool);
        if (!noted)
            return;
    }
}

/* Whether this thread got the turn to close. Whoever has it may pay, which is a wait for the
 * device, and the device may be waiting for this very thread: so it is not waited for any longer
 * than it takes to enter the driver. */
static bool take_turn(struct pool *pool) {
    for (int step = 0; step < TURN_STEPS; step++) {
        if (!atomic_exchange(&pool->close_turn, true))
            return true;
        gate_pause();
    }
    return false;
}

bool gate_close_begin(struct pool *pool) {
    atomic_fetch_add(&pool->captures, 1);
    tell_caches(pool);
    bool turn = take_turn(pool);
    if (turn && !atomic_load(&pool->begun)) {
        await_users(pool);
        return true;
    }
    atomic_fetch_add(&pool->begun, 1); /* who was inside is in the driver */
    if (turn)
        atomic_store(&pool->close_turn, false);
    return false;
}

void gate_close_end(struct pool *pool) {
    atomic_fetch_add(&pool->begun, 1);
    atomic_store(&pool->close_turn, false);
}

void gate_close(struct pool *pool) {
    if (gate_close_begin(pool))
        gate_close_end(pool);
}

/* The end of a capture that was not counted may be told. */
static void count_down(atomic_int *count) {
    int now = atomic_load(count);
    while (now > 0 && !atomic_compare_exchange_weak(count, &now, now - 1)) {
    }
}

/* In this order: with the gate open none may seem to have begun. */
void gate_open(struct pool *pool) {
    count_down(&pool->begun);
    count_down(&pool->captures);
    tell_caches(pool);
}

bool pool_is_capturing(struct pool *pool) {
    return atomic_load(&pool->captures) > 0;
}

void gate_await_open_or_paid(struct pool *pool) {
    for (int step = 0; wait_is_owed(pool) && atomic_load(&pool->captures) && step < MAX_STEPS;
         step++)
        gate_pause();
}
