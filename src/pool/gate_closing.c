/* Closing the gate of lock.c: a stream capture is about to begin. It begins only when all
 * who are inside have left.
 *
 * A thread may be waiting for the device inside the gate while the work it waits for needs the very
 * thread that begins the capture. Such a wait is not waited for: where the device has not finished
 * during some time what it was at, whoever is still inside has long since entered the driver, and
 * there a capture that begins later does not disturb it. While the device does finish its work,
 * those inside wait for nothing, and will leave as soon as they get to run: they are waited for
 * however long that takes, since one that has not entered the driver yet would invalidate the
 * capture. */
#include "pool/internal.h"

/* SPAN_NS: for how long nothing has to happen before more is asked. TURN_NS: for how long another
 * one's turn to close is waited for, which is time enough to enter the driver. LOST_NS: after how
 * long those inside count as ended there (a thread may be cancelled in a call of the driver),
 * though the device waits for nothing. */
static const uint64_t SPAN_NS = 250 * 1000 * 1000, TURN_NS = 4 * SPAN_NS, LOST_NS = 20 * SPAN_NS;

static bool is_over(uint64_t since, uint64_t span) {
    return clock_ns(CLOCK_MONOTONIC) - since >= span;
}

/* Counts down what may be reported more often than it was counted. False: there was nothing to
 * count. */
static bool count_down(atomic_int *count) {
    int now = atomic_load(count);
    while (now > 0)
        if (atomic_compare_exchange_weak(count, &now, now - 1))
            return true;
    return false;
}

/* Whether somebody is inside, not counting those that were given up, of whom one may leave after
 * all. */
static bool is_used(struct pool *pool) {
    int users = atomic_load(&pool->gate_users);
    if (users < pool->gate_lost)
        pool->gate_lost = users;
    return users > pool->gate_lost;
}

/* Waits for those inside. Ends early once another capture may have begun, which a question of ours
 * would invalidate. */
static void await_users(struct pool *pool) {
    uint64_t began = clock_ns(CLOCK_MONOTONIC), asked = began;
    bool noted = false;
    while (is_used(pool)) {
        futex_pause();
        if (!is_over(asked, SPAN_NS))
            continue;
        asked = clock_ns(CLOCK_MONOTONIC);
        if (atomic_load(&pool->begun) || (noted && !quiet_is_noted_work_done(pool)))
            return;
        if (is_over(began, LOST_NS)) {
            pool->gate_lost = atomic_load(&pool->gate_users);
            return;
        }
        noted = quiet_note_work(pool);
        if (!noted)
            return;
    }
}

/* Whether this thread got the turn to close. Whoever has it may pay, which is a wait for the
 * device, and the device may be waiting for this very thread: so it is not waited for any longer
 * than it takes to enter the driver. */
static bool take_turn(struct pool *pool) {
    uint64_t began = clock_ns(CLOCK_MONOTONIC);
    while (atomic_exchange(&pool->close_turn, true)) {
        if (is_over(began, TURN_NS))
            return false;
        futex_pause();
    }
    return true;
}

bool gate_close_begin(struct pool *pool) {
    atomic_fetch_add(&pool->captures, 1);
    pool_grant_anew(pool);
    bool turn = take_turn(pool);
    if (turn && !atomic_load(&pool->begun))
        await_users(pool);
    if (turn && !atomic_load(&pool->begun))
        return true;
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

/* The order matters: with the gate open no capture may seem to have begun. The end of a capture
 * that was not counted may be reported while another one is about to begin. */
void gate_open(struct pool *pool) {
    if (count_down(&pool->begun))
        count_down(&pool->captures);
    pool_grant_anew(pool);
}
