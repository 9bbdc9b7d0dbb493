/* The page of `poolcuda report --html`, before and behind its data; embed.py makes it. */
#ifndef POOLCUDA_CLI_VIEWS_HTML_PAGE_H
#define POOLCUDA_CLI_VIEWS_HTML_PAGE_H

#include <stddef.h>

extern const unsigned char html_page_head[], html_page_tail[];
extern const size_t html_page_head_size, html_page_tail_size;

#endif
