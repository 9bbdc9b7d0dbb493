/* Looks up places in one module's file. libbacktrace reads it, which trusts what it reads and never
 * gives memory back: a child process of its own is where to call this; see symbol_child.h. */
#ifndef POOLCUDA_CLI_SYMBOL_FILE_H
#define POOLCUDA_CLI_SYMBOL_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum symbol_file_state {
    SYMBOL_FILE_FOUND,   /* the file, or its debug file, is there; it need not name anything */
    SYMBOL_FILE_ABSENT,  /* no such file, or no way to read symbols in this build */
    SYMBOL_FILE_CHANGED, /* there is a file, but not the one that ran */
    SYMBOL_FILE_DAMAGED  /* the file could not be read to its end; told by symbol_child alone */
};

/* The module that ran. */
struct symbol_module {
    const char *path;
    const uint8_t *build_id;
    size_t build_id_size;     /* 0: none is known */
    uint64_t run_start_ns;    /* the time of day; a file without build id must be older */
    const char *debug_folder; /* looked at before /usr/lib/debug; NULL: none */
};

/* Invariant: function is never NULL. Where only the function is known, file is NULL, line 0, and
 * `into` how far behind its beginning the place is, by which its places are told apart. */
struct symbol {
    const char *function, *file;
    unsigned line;
    uint64_t into;
};

/* Opens the file that names the module's places. */
enum symbol_file_state symbol_file_open(const struct symbol_module *module);

/* Calls `found` for each function at the offset, inlined ones first. */
void symbol_file_find(uint64_t offset, void (*found)(const struct symbol *symbol, void *state),
                      void *state);

#endif
