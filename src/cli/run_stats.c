#include "cli/run_stats.h"

#include "base/output_file.h"
#include "cli/run_file.h"
#include "trace/record_format.h"

#include <fcntl.h>
#include <glob.h>
#include <regex.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What a pattern stands for. Texts are NULL without memory. */
struct shape {
    char *prefix; /* what stands before the first %; "%%" is a percent sign */
    char *glob;   /* finds it among others */
    char *expression;
    bool names_process; /* which is then the expression's first group */
};

/* The length of what stands at a '%'; 0: it is a '%' that stands for itself. */
static size_t place_length(const char *pattern) {
    const char *end = strncmp(pattern, "%q{", 3) == 0 ? strchr(pattern, '}') : NULL;
    if (end)
        return (size_t)(end + 1 - pattern);
    return pattern[1] && strchr("prnthe%", pattern[1]) ? 2 : 0;
}

static void put_escaped(FILE *out, char letter, const char *special) {
    if (strchr(special, letter))
        putc('\\', out);
    putc(letter, out);
}

/* Where the pattern does not tell processes apart, the library appends what does. */
static void put_appended(FILE *expression, bool apart, bool numbered) {
    if (!apart)
        fputs("(\\.rank[0-9]+)?", expression);
    if (!numbered)
        fputs("(\\.[0-9]+)?", expression);
    putc('$', expression);
}

static void put_place(struct shape *shape, FILE *expression, char letter) {
    bool first = letter == 'p' && !shape->names_process;
    shape->names_process = shape->names_process || first;
    if (strchr("prnt", letter))
        fputs(first ? "([0-9]+)" : "[0-9]+", expression);
    else
        fputs("[^/]*", expression);
}

static void read_pattern(struct shape *shape, const char *pattern, FILE *prefix, FILE *globbed,
                         FILE *expression) {
    bool fixed = true, apart = false, numbered = false;
    putc('^', expression);
    while (*pattern) {
        size_t length = *pattern == '%' ? place_length(pattern) : 0;
        if (length && pattern[1] != '%') {
            fixed = false;
            apart = apart || strchr("qpr", pattern[1]);
            numbered = numbered || pattern[1] == 'n';
            put_place(shape, expression, pattern[1]);
            putc('*', globbed);
        } else {
            if (fixed)
                putc(*pattern, prefix);
            put_escaped(globbed, *pattern, "*?[]\\");
            put_escaped(expression, *pattern, "\\^$.[]|()*+?{}");
        }
        pattern += length ? length : 1;
    }
    putc('*', globbed);
    put_appended(expression, apart, numbered);
}

static struct shape shape_of(const char *pattern) {
    struct shape shape = {NULL, NULL, NULL, false};
    size_t sizes[3];
    FILE *prefix = open_memstream(&shape.prefix, &sizes[0]);
    FILE *globbed = open_memstream(&shape.glob, &sizes[1]);
    FILE *expression = open_memstream(&shape.expression, &sizes[2]);
    if (prefix && globbed && expression)
        read_pattern(&shape, pattern, prefix, globbed, expression);
    FILE *all[] = {prefix, globbed, expression};
    for (int i = 0; i < 3; i++)
        if (all[i])
            fclose(all[i]);
    return shape;
}

static void free_shape(struct shape *shape) {
    free(shape->prefix);
    free(shape->glob);
    free(shape->expression);
}

static uint64_t in_ns(struct timespec time) {
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* Files without a time of birth (some file systems) count by their last change. */
static bool is_younger(const char *path, struct timespec since) {
    struct statx facts;
    if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_BTIME | STATX_CTIME | STATX_TYPE,
              &facts) != 0 ||
        !S_ISREG(facts.stx_mode))
        return false;
    struct statx_timestamp made = facts.stx_mask & STATX_BTIME ? facts.stx_btime : facts.stx_ctime;
    return made.tv_sec > since.tv_sec ||
           (made.tv_sec == since.tv_sec && made.tv_nsec >= since.tv_nsec);
}

/* The process of which a file is, and when it has begun to use CUDA. */
struct maker {
    uint64_t process, wall_ns;
    bool here; /* on this host */
};

static bool made_by(const struct maker *maker, uint64_t named, struct timespec since) {
    return (!named || maker->process == named) && (!maker->here || maker->wall_ns >= in_ns(since));
}

/* A report that is cut off was for a full disk, which the library has told. */
static bool is_report(const char *path, uint64_t named, struct timespec since,
                      struct figures *figures) {
    struct stats_page *page;
    char error[512], host[PAGE_HOST];
    enum run_file_kind kind = run_file_read(path, &page, error, sizeof error);
    if (!page)
        return kind == RUN_FILE_TEXT || kind == RUN_FILE_DAMAGED;
    output_file_host(host, sizeof host);
    struct maker maker = {page->process, page->start_wall_ns, strcmp(host, page->host) == 0};
    bool is = page->runs == 1 && made_by(&maker, named, since);
    if (is) {
        figures->lost_log += stats_read(&page->counters[STATS_log_lost]);
        figures->lost_check += stats_read(&page->counters[STATS_check_lost]);
        figures->lost_trace += stats_read(&page->counters[STATS_trace_lost]);
    }
    stats_page_destroy(page);
    return is;
}

static bool is_trace(const char *path, uint64_t named, struct timespec since) {
    struct record_header header;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    bool whole = file >= 0 && read(file, &header, sizeof header) == (ssize_t)sizeof header;
    if (file >= 0)
        close(file);
    if (!whole || memcmp(header.magic, RECORD_MAGIC, sizeof RECORD_MAGIC) != 0)
        return false;
    struct maker maker = {header.process, header.wall_ns, true};
    return made_by(&maker, named, since);
}

static bool is_ours(const char *path, uint64_t named, enum figures_kind kind, struct timespec since,
                    struct figures *figures) {
    return is_younger(path, since) &&
           (kind == FIGURES_REPORTS ? is_report(path, named, since, figures)
                                    : is_trace(path, named, since));
}

/* Takes those of the files that the pattern can have become and that are ours. */
static void choose(struct figures *figures, const struct shape *shape, char *const *found,
                   size_t count, enum figures_kind kind, struct timespec since) {
    regex_t expression;
    regmatch_t groups[2];
    if (regcomp(&expression, shape->expression, REG_EXTENDED) != 0)
        return;
    figures->paths = calloc(count + 1, sizeof *figures->paths);
    for (size_t i = 0; figures->paths && i < count; i++) {
        if (regexec(&expression, found[i], 2, groups, 0) != 0)
            continue;
        uint64_t named = shape->names_process ? strtoull(found[i] + groups[1].rm_so, NULL, 10) : 0;
        char *path = is_ours(found[i], named, kind, since, figures) ? strdup(found[i]) : NULL;
        if (path)
            figures->paths[figures->count++] = path;
    }
    regfree(&expression);
}

/* How many files a shell finds by the prefix and a *. */
static size_t with_prefix(const char *prefix) {
    glob_t all = {.gl_pathc = 0};
    struct shape shape = {NULL, NULL, NULL, false};
    size_t size, count = 0;
    FILE *out = open_memstream(&shape.glob, &size);
    for (const char *at = prefix; out && *at; at++)
        put_escaped(out, *at, "*?[]\\");
    if (out) {
        putc('*', out);
        fclose(out);
    }
    if (shape.glob && glob(shape.glob, 0, NULL, &all) == 0)
        count = all.gl_pathc;
    globfree(&all);
    free(shape.glob);
    return count;
}

struct figures run_stats_made(const char *pattern, enum figures_kind kind, struct timespec since) {
    struct figures figures = {.count = 0};
    struct shape shape = shape_of(pattern);
    glob_t found = {.gl_pathc = 0};
    if (shape.prefix && shape.glob && shape.expression &&
        glob(shape.glob, GLOB_PERIOD, NULL, &found) == 0)
        choose(&figures, &shape, found.gl_pathv, found.gl_pathc, kind, since);
    globfree(&found);
    figures.prefix = shape.prefix;
    figures.is_all = figures.prefix && with_prefix(figures.prefix) == figures.count;
    shape.prefix = NULL;
    free_shape(&shape);
    return figures;
}

void run_stats_destroy(struct figures *figures) {
    for (size_t i = 0; i < figures->count; i++)
        free(figures->paths[i]);
    free(figures->paths);
    free(figures->prefix);
    *figures = (struct figures){.count = 0};
}
