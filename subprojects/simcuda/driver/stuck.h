/* Whether the process is stuck: each of its threads waits, without a limit, for what only another
 * one of them could do. On a GPU such a program hangs; here SIMCUDA_STUCK=1 ends it at once, so
 * that a test needs no clock to know. */
#ifndef SIMCUDA_STUCK_H
#define SIMCUDA_STUCK_H

/* A wait of the host's for work that is not done, in a call of the driver's. */
struct host_wait {
    const char *call;
    struct host_wait *prev, *next;
};

/* Lock held. The record is the caller's. */
void stuck_wait_begin(struct host_wait *wait);
/* Lock held. */
void stuck_wait_end(struct host_wait *wait);

/* Begins to look, if the settings want it. Lock not held. */
void stuck_watch(void);

#endif
