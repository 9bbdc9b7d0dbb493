/* Makes all calls and tells which of them has changed what is the program's. By the argument:
 *
 *   errno      errno
 *   dlerror    the text that dlerror() has for the thread
 *   cancelled  whether it ends a thread that somebody has asked to end; then the main thread makes
 *              all calls as well, for which nothing may be left locked */
#include "all_calls.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { MINE = 4242 };

static void set_errno(void) {
    errno = MINE;
}

static void look_at_errno(const char *call, int result) {
    int now = errno;
    if (now != MINE)
        printf("%s: %d, errno %d\n", call, result, now);
}

static void fail_to_find(void) {
    REQUIRE(!dlsym(RTLD_DEFAULT, "a_name_that_nobody_has"));
}

static void look_at_dlerror(const char *call, int result) {
    const char *text = dlerror();
    if (!text || !strstr(text, "a_name_that_nobody_has"))
        printf("%s: %d, dlerror %s\n", call, result, text ? text : "none");
}

static void nothing(void) {
}

static atomic_int made;

static void count(const char *call, int result) {
    (void)call;
    (void)result;
    atomic_fetch_add(&made, 1);
}

static void *be_cancelled(void *type) {
    static const struct calls_guest guest = {nothing, count};
    REQUIRE(pthread_setcanceltype(*(int *)type, NULL) == 0);
    REQUIRE(pthread_cancel(pthread_self()) == 0);
    calls_make_first(&guest);
    calls_make_all(&guest);
    REQUIRE(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL) == 0);
    return type;
}

static void cancelled(void) {
    static const struct calls_guest guest = {nothing, count};
    int type = PTHREAD_CANCEL_DEFERRED;
    pthread_t thread;
    void *end;
    REQUIRE(pthread_create(&thread, NULL, be_cancelled, &type) == 0);
    REQUIRE(pthread_join(thread, &end) == 0);
    printf("thread %s after %d calls\n", end == PTHREAD_CANCELED ? "cancelled" : "ended", made);
    calls_make_first(&guest);
    calls_make_all(&guest);
}

int main(int argc, char **argv) {
    static const struct calls_guest guests[] = {{set_errno, look_at_errno},
                                                {fail_to_find, look_at_dlerror}};
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "cancelled") == 0) {
        cancelled();
    } else {
        const struct calls_guest *guest = &guests[strcmp(what, "errno") != 0];
        calls_make_first(guest);
        calls_make_all(guest);
    }
    puts("done");
    return 0;
}
