/* What a program gets from the C library only since 2.33, or from the part of it that is linked
 * into each program: for what was built here and is linked with an older one. */
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

struct stat;
int fstat64(int file, struct stat *status);
int atexit(void (*function)(void));
int __cxa_atexit(void (*function)(void *argument), void *argument, void *library);

int fstat64(int file, struct stat *status) {
    return (int)syscall(SYS_fstat, file, status);
}

static void call(void *argument) {
    (*(void (**)(void))argument)();
}

int atexit(void (*function)(void)) {
    static void (*functions[8])(void);
    static size_t count;
    if (count == sizeof functions / sizeof functions[0])
        return -1;
    functions[count] = function;
    return __cxa_atexit(call, &functions[count++], NULL);
}
