/* What the user of srun has asked for, checked by the one table of options before anything starts.
 */
#ifndef POOLCUDA_SLURM_SETTINGS_H
#define POOLCUDA_SLURM_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

enum { SETTINGS_MOST = 64, SETTINGS_ERROR = 512 };

/* Texts are copies of its own. */
struct settings {
    bool asked;               /* any of the three options was given */
    char *preset, *folder;    /* NULL: the site's */
    char *set[SETTINGS_MOST]; /* NAME=VALUE each, a name once */
    size_t count;
};

/* Each takes the value of one option of srun's. False, with one line in error: it is bad. */
bool settings_take_preset(struct settings *settings, const char *name, char *error, size_t size);
bool settings_take_folder(struct settings *settings, const char *path, char *error, size_t size);
bool settings_take_set(struct settings *settings, const char *setting, char *error, size_t size);

bool settings_check_preset(const char *name, char *error, size_t size);

#endif
