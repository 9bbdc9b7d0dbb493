/* What srun asks of its tasks: variables of the step's environment, which srun sets and a task's
 * part of the plugin takes away before the program starts. Names that begin with SLURM_ reach the
 * tasks with --export=NONE as well. */
#ifndef POOLCUDA_SLURM_REQUEST_H
#define POOLCUDA_SLURM_REQUEST_H

#define REQUEST_FOLDER "SLURM_POOLCUDA_FOLDER" /* absolute; pooling is asked for if it is set */
#define REQUEST_STEP   "SLURM_POOLCUDA_STEP"   /* the step's folder in that one */
#define REQUEST_TOKEN  "SLURM_POOLCUDA_TOKEN"  /* what is this srun's alone */
#define REQUEST_PRESET "SLURM_POOLCUDA_PRESET"
#define REQUEST_SET    "SLURM_POOLCUDA_SET" /* NAME=VALUE, separated by newlines */

/* Only what srun itself asks for now may reach the tasks: takes away what is there, which may be of
 * an srun in whose task this one runs. */
void request_clear(void);

/* A step's folder in that folder: by its job and step, and by how often the job was started again.
 */
struct step_name {
    char text[64];
};
struct step_name step_name(unsigned job, unsigned step, unsigned restarts);

/* The name, with a number behind it if the folder has it already: numbers of jobs begin again
 * where Slurm's state is lost, and clusters may share a folder. */
struct step_name step_name_unused(const char *folder, struct step_name name);

/* The folder of a heterogeneous step, which its tasks choose: what srun chooses reaches one
 * component of it alone. The first task that comes leaves a link, whose name has the token, and all
 * others take what it says. */
struct step_name step_name_agreed(const char *folder, struct step_name name, const char *token);

/* In srun, at the end: what they have chosen, whose link goes; the name itself if they have not. */
struct step_name step_name_learned(const char *folder, struct step_name name, const char *token);

#endif
