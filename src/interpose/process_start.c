/* What the library does when it comes into a process, before all others: it has fork call it.
 *
 * What the library has learnt of the process's modules is locked across fork, so that the child
 * inherits it whole (state.c: if that can be had, as handlers that ran before may hold locks of
 * malloc's). The pool it leaves to the parent.
 *
 * The program has handlers of its own, and may wait in them for a thread that is just allocating:
 * so ours is the last to prepare and the first to come afterwards. That is the one who registers
 * first, which we do before any other constructor runs: the object is linked with -z initfirst.
 * (With a glibc before 2.34 libpthread is linked so as well, and only one of the two counts.) */
#include "base/command_line.h"
#include "base/output_file.h"
#include "interpose/absent.h"
#include "interpose/own_stack.h"
#include "interpose/rights.h"
#include "interpose/state.h"
#include "interpose/stubs.h"
#include "interpose/symbol_order.h"

#include <errno.h>
#include <pthread.h>

static void child_after_fork(void) {
    if (state_forget_after_fork())
        stubs_forget_after_fork();
}

/* glibc hands constructors what main gets. The C library's own has not run yet. */
__attribute__((constructor)) static void begin(int argc, char **argv) {
    int saved = errno; /* which main finds as 0 */
    pthread_atfork(state_fork_prepare, state_fork_parent, child_after_fork);
    command_line_take(argc, argv);
    rights_take(argc, argv);
    output_file_know_standard_error();
    own_stack_note_main(argv);
    symbol_order_begin();
    absent_take(argv);
    errno = saved;
}
