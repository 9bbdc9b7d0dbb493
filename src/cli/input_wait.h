/* A pipe or a terminal that is read: who waits for it gets a line that says so. */
#ifndef POOLCUDA_CLI_INPUT_WAIT_H
#define POOLCUDA_CLI_INPUT_WAIT_H

/* From now on `path` is opened and read. If it is no regular file, and is not read to its end
 * within a second, one line on standard error says what is waited for. */
void input_wait_begin(const char *command, const char *path);
void input_wait_end(void);

#endif
