#include "process_memory.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Without stdio's buffers, so that reading adds nothing to what is counted. */
static char text[1 << 20];

static void read_smaps(void) {
    int file = open("/proc/self/smaps", O_RDONLY | O_CLOEXEC);
    size_t length = 0;
    ssize_t count;
    while (file >= 0 && (count = read(file, text + length, sizeof text - 1 - length)) > 0)
        length += (size_t)count;
    text[length] = '\0';
    if (!length || length == sizeof text - 1) {
        fputs("/proc/self/smaps cannot be read\n", stderr);
        exit(1);
    }
    close(file);
}

static size_t kib(const char *line) {
    return strtoul(strchr(line, ':') + 1, NULL, 10) * 1024;
}

struct process_memory process_memory(void) {
    struct process_memory memory = {0, 0};
    bool writable = false, of_file = false, shared = false;
    memset(text, 0, sizeof text); /* present before and after */
    read_smaps();
    for (char *line = text, *next; line && *line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        char permissions[5];
        int path = 0;
        if (sscanf(line, "%*x-%*x %4s %*x %*s %*s %n", permissions, &path) == 1 && path) {
            writable = permissions[1] == 'w';
            shared = strncmp(line + path, "/SYSV", 5) == 0;
            of_file = line[path] == '/' && !shared;
        } else if (strncmp(line, "Size:", 5) == 0) {
            memory.reserved += writable && !of_file ? kib(line) : 0;
        } else if (strncmp(line, "Anonymous:", 10) == 0) {
            memory.present += kib(line);
        } else if (strncmp(line, "Rss:", 4) == 0) {
            memory.present += shared ? kib(line) : 0;
        }
    }
    return memory;
}
