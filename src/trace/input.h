/* The bytes of a file that may be compressed. */
#ifndef POOLCUDA_TRACE_INPUT_H
#define POOLCUDA_TRACE_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct input;

/* Opens a file: plain, gzip (members one after another) or zstd (frames one after another), as its
 * first bytes tell. Returns NULL with the reason in *problem. */
struct input *input_open(const char *path, const char **problem);
void input_close(struct input *input);

/* Whether the file is. Nothing need have been read. */
bool input_is_compressed(const struct input *input);

/* The next `size` (at most 4096) bytes, which stay unread, or fewer at the end or before something
 * that cannot be read. */
const unsigned char *input_peek(struct input *input, size_t size, size_t *got);

/* Reads up to `size` bytes. Fewer: the end, or input_problem. */
size_t input_read(struct input *input, void *to, size_t size);

/* The next line, without its newline and zero-terminated, valid until the next call. NULL at the
 * end or if there is an input_problem. A line may be of any length below 16 MiB. */
char *input_line(struct input *input, size_t *length);

/* Why reading has stopped early, with what was expected; NULL if it has not. */
const char *input_problem(const struct input *input);

#endif
