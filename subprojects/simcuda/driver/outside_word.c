/* Words in files that processes share. */
#include "allocate.h"
#include "lock.h"
#include "values.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <utlist.h>

static struct outside_word *words; /* one for each file: what is said of its time is said once */

struct outside_word *outside_word_map(int file) {
    sim_check_held();
    struct outside_word *word;
    struct stat status;
    void *memory;

    if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode) ||
        status.st_size < (off_t)sizeof *word->memory)
        return NULL;
    LL_FOREACH(words, word)
    if (word->device == status.st_dev && word->inode == status.st_ino) {
        outside_word_keep(word);
        return word;
    }
    memory = mmap(NULL, sizeof *word->memory, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED)
        return NULL;
    word = allocate_zeroed(sizeof *word);
    *word = (struct outside_word){
        .memory = memory, .references = 1, .device = status.st_dev, .inode = status.st_ino};
    LL_PREPEND(words, word);
    return word;
}

void outside_word_keep(struct outside_word *word) {
    sim_check_held();
    word->references++;
}

void outside_word_drop(struct outside_word *word) {
    sim_check_held();
    if (word == NULL || --word->references != 0)
        return;
    LL_DELETE(words, word);
    value_time_forget((uintptr_t)word->memory, sizeof *word->memory);
    munmap(word->memory, sizeof *word->memory);
    free(word);
}
