/* Fields of a line of CSV, and the numbers in them. */
#ifndef POOLCUDA_TRACE_FIELDS_H
#define POOLCUDA_TRACE_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Splits `line`, in place, at its commas. Spaces around a field are dropped, and so are quotes, in
 * which "" stands for a quote; a carriage return at the end is dropped. Returns the number of
 * fields, more than `room` if there are more, 0 if a quote is not closed. */
size_t fields_split(char *line, char **fields, size_t room);

/* A whole number, decimal or hexadecimal with or without 0x. False: it is none, or 2^64 or more. */
bool fields_number(const char *text, uint64_t *number);
bool fields_hexadecimal(const char *text, uint64_t *number);

/* A decimal number with or without a fraction, in units of `unit` nanoseconds; below a nanosecond
 * it is cut off. False: it is none, or does not fit. */
bool fields_time(const char *text, uint64_t unit, uint64_t *ns);

#endif
