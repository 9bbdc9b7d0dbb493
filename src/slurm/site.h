/* What the site says of pooling behind the plugin's name in plugstack.conf. */
#ifndef POOLCUDA_SLURM_SITE_H
#define POOLCUDA_SLURM_SITE_H

#include <stdbool.h>
#include <stddef.h>

/* Invariant: paths are absolute. Texts are the configuration's own, which the plugin's host keeps.
 */
struct site {
    const char *library; /* libpoolcuda.so, on the nodes */
    const char *command; /* poolcuda, where srun runs */
    const char *folder;  /* for figures; a relative one is meant as of where srun is */
    const char *preset;  /* of --poolcuda without one; NULL: none */
    const char *allowed; /* users, and groups behind an @, separated by commas; NULL: all */
};

/* Reads NAME=VALUE arguments. False, with one line in error: one of them is bad. */
bool site_read(struct site *site, int count, char *const *arguments, char *error, size_t size);

/* Whether the user who runs this process may have pooled steps. */
bool site_allows_me(const struct site *site);

#endif
