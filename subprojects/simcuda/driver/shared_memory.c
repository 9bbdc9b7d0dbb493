/* The file has one slot per process. A process owns a slot for as long as it holds a lock on the
 * byte of the same number; the kernel drops that lock when the process ends, however it ends, and
 * what the slot says counts no more. Byte `guard` is locked during each change. */
#include "shared_memory.h"

#include "context.h"
#include "lock.h"
#include "settings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SLOTS = 256, guard = SLOTS };

struct slots {
    int64_t pages[SLOTS][DEVICES_MAX];
};

static struct slots *slots;
static int file = -1;
static pid_t owner; /* who has taken `own`: a forked child takes another */
static int own;

static void give_up(const char *what) {
    fprintf(stderr, "simcuda: SIMCUDA_SHARED=\"%s\": %s (%s)\n", settings()->shared, what,
            strerror(errno));
    abort();
}

static int lock_byte(int command, short type, off_t byte) {
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    int result;

    do
        result = fcntl(file, command, &lock);
    while (result != 0 && errno == EINTR);
    return command == F_GETLK && result == 0 ? lock.l_type : result;
}

static void open_file(void) {
    struct stat status;

    file = open(settings()->shared, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || fstat(file, &status) != 0)
        give_up("cannot be opened");
    if (status.st_size < (off_t)sizeof *slots && ftruncate(file, sizeof *slots) != 0)
        give_up("cannot be made as large as it has to be");
    slots = mmap(NULL, sizeof *slots, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (slots == MAP_FAILED)
        give_up("cannot be mapped");
}

/* False: memory is this process's alone. */
static bool ready(void) {
    if (settings()->shared == NULL)
        return false;
    if (slots == NULL)
        open_file();
    if (owner == getpid())
        return true;
    for (own = 0; own < SLOTS && lock_byte(F_SETLK, F_WRLCK, own) != 0; own++)
        ;
    if (own == SLOTS)
        give_up("too many processes use it");
    memset(slots->pages[own], 0, sizeof slots->pages[own]);
    owner = getpid();
    return true;
}

size_t shared_memory_elsewhere(CUdevice device) {
    sim_check_held();
    int64_t sum = 0;

    if (!ready())
        return 0;
    for (int slot = 0; slot < SLOTS; slot++)
        if (slot != own && slots->pages[slot][device] > 0 &&
            lock_byte(F_GETLK, F_WRLCK, slot) != F_UNLCK)
            sum += slots->pages[slot][device];
    return (size_t)sum;
}

bool shared_memory_take(CUdevice device, int64_t change, size_t limit) {
    sim_check_held();
    bool fits = true;

    if (!ready())
        return true;
    if (lock_byte(F_SETLKW, F_WRLCK, guard) != 0)
        give_up("cannot be locked");
    if (change > 0)
        fits =
            shared_memory_elsewhere(device) + (size_t)(slots->pages[own][device] + change) <= limit;
    if (fits)
        slots->pages[own][device] += change;
    lock_byte(F_SETLK, F_UNLCK, guard);
    return fits;
}

uint64_t shared_memory_identity(void) {
    sim_check_held();
    struct stat status;

    return ready() && fstat(file, &status) == 0
               ? (uint64_t)status.st_ino << 16 ^ (uint64_t)status.st_dev
               : (uint64_t)getpid();
}
