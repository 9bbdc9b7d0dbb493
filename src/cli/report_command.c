/* poolcuda report: tells what programs did by the files that they left, each or all in one. */
#include "cli/commands.h"
#include "cli/kept_file.h"
#include "cli/leaks.h"
#include "cli/merge.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/report_brief.h"
#include "cli/report_runs.h"
#include "cli/report_spread.h"
#include "cli/run_file.h"
#include "cli/seen_files.h"
#include "cli/suggest.h"
#include "cli/symbols.h"
#include "cli/usage.h"
#include "cli/views/views.h"
#include "report/emitter.h"
#include "report/report.h"

#include <argp.h>
#include <fts.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    KEY_EACH = 256,
    KEY_BRIEF,
    KEY_JSON,
    KEY_LEAKS,
    KEY_LEAK_EXIT_CODE,
    KEY_ALL,
    KEY_SITES,
    KEY_TUNE,
    KEY_WEIGHT,
    KEY_DEBUG_DIR,
    KEY_NO_SYMBOLS,
    KEY_VIEW
};

enum { KEPT_PAGES = 16 };

/* What is asked for, and what has come of it so far. */
struct session {
    char **paths;
    size_t path_count;
    bool each, brief, json, leaks, all, tune, no_symbols;
    int leak_exit_code;
    size_t most_sites;             /* that the text lists */
    const char *views[VIEW_COUNT]; /* the file to write each to; NULL: not asked for */
    enum view_weight weight;
    bool weighed, counted; /* the weight was given, the most sites were */
    const char *debug_folder;
    struct symbols *symbols;
    struct stats_names names; /* of the symbols */
    struct merge merge;
    struct stats_page *kept[KEPT_PAGES]; /* of the first runs: what cannot be added up */
    size_t kept_count;
    size_t seen, expected;     /* files in the folder that is being read */
    size_t texts, passed_over; /* passed over: files in folders that are none of ours */
    struct seen_files files;
    bool complete;
    bool prints_to_file;  /* standard output is a regular file */
    struct stat printing; /* that file */
};

#define WEIGHT_WORDS "bytes|allocations|peak|live"

static void write_out(const char *text, size_t length, void *state) {
    (void)state;
    fwrite(text, 1, length, stdout);
}

/* A report for people is printed as it is. */
static bool print_text(const char *path) {
    char piece[4096], clean[sizeof piece];
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    while (fgets(piece, sizeof piece, file)) {
        size_t length = strlen(piece);
        bool line = length && piece[length - 1] == '\n';
        piece[length - line] = '\0';
        printf("%s%s", emitter_clean(clean, sizeof clean, piece), line ? "\n" : "");
    }
    fclose(file);
    return true;
}

static void say(const char *line) {
    char clean[OUTPUT_ERROR];
    progress_end();
    fprintf(stderr, "poolcuda report: %s\n", emitter_clean(clean, sizeof clean, line));
}

static void complain(struct session *session, const char *error, const char *expected) {
    char line[OUTPUT_ERROR];
    snprintf(line, sizeof line, "%.900s; expected %s, passed over", error, expected);
    say(line);
    session->complete = false;
}

/* What is printed in place of the text, or NULL. */
static const char *view_asked(const struct session *session) {
    for (int i = 0; i < VIEW_COUNT; i++)
        if (session->views[i])
            return view_options[i];
    return NULL;
}

static void take_text(struct session *session, const char *path, bool named) {
    char error[512];
    if (!session->json && !session->leaks && !view_asked(session)) {
        progress_end();
        print_text(path);
        session->texts++;
        return;
    }
    if (!named) {
        session->passed_over++;
        return;
    }
    snprintf(error, sizeof error, "%s: a report as text, of which nothing else can be made", path);
    complain(session, error, "one of a program that ran without POOLCUDA_STATS=1");
}

/* Takes over the page. */
static void take_page(struct session *session, struct stats_page *page, const char *path) {
    if (session->leaks && !page->finished) {
        char line[OUTPUT_ERROR];
        snprintf(line, sizeof line, "%.900s: running or killed, what is live there is no leak",
                 path);
        say(line);
        stats_page_destroy(page);
        return;
    }
    if (session->each && !session->leaks) {
        if (session->json)
            fputs(session->merge.run_count ? ",\n" : "[\n", stdout);
        else if (session->merge.run_count)
            putchar('\n');
        stats_report(page, session->json ? STATS_JSON : STATS_TEXT, &session->names,
                     session->most_sites, write_out, NULL);
    }
    if (!merge_add(&session->merge, page, path)) {
        char error[512];
        snprintf(error, sizeof error, "%s: not enough memory", path);
        complain(session, error, "more");
    }
    if (session->kept_count < KEPT_PAGES)
        session->kept[session->kept_count++] = page;
    else
        stats_page_destroy(page);
}

/* A list that is read, page after page. */
struct listed {
    struct session *session;
    const char *path;
};

static void take_listed(struct stats_page *page, void *state) {
    const struct listed *listed = state;
    take_page(listed->session, page, listed->path);
}

/* named: by the user, and not found in a folder, where other files may lie as well. */
static void take_file(struct session *session, const char *path, bool named) {
    if (seen_files_again(&session->files, path))
        return;
    struct stats_page *page;
    char error[512];
    struct listed listed = {session, path};
    switch (run_file_read(path, &page, error, sizeof error)) {
    case RUN_FILE_PAGE:
    case RUN_FILE_JSON:
        take_page(session, page, path);
        return;
    case RUN_FILE_LIST:
        if (!run_file_read_list(path, take_listed, &listed, error, sizeof error))
            complain(session, error, "a list that this command wrote");
        return;
    case RUN_FILE_TEXT:
        take_text(session, path, named);
        return;
    case RUN_FILE_DAMAGED:
    case RUN_FILE_UNOPENED:
        complain(session, error, "a file that POOLCUDA_STATS_FILE made");
        return;
    case RUN_FILE_OTHER:
        if (named)
            complain(session, error, "a file that POOLCUDA_STATS_FILE made");
        else
            session->passed_over++;
        return;
    }
}

static int by_name(const FTSENT **one, const FTSENT **other) {
    return strcmp((*one)->fts_name, (*other)->fts_name);
}

/* A link that is the argument itself is followed, and none in a folder. */
static void each_file(struct session *session, char *path,
                      void (*visit)(struct session *session, const FTSENT *file)) {
    char *roots[] = {path, NULL};
    FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, by_name);
    for (FTSENT *entry; tree && (entry = fts_read(tree));)
        if (entry->fts_info == FTS_F || entry->fts_info == FTS_DNR)
            visit(session, entry);
    if (tree)
        fts_close(tree);
}

static void count_file(struct session *session, const FTSENT *file) {
    (void)file;
    session->expected++;
}

static bool is_printed_to(const struct session *session, const FTSENT *file) {
    return session->prints_to_file && file->fts_statp->st_dev == session->printing.st_dev &&
           file->fts_statp->st_ino == session->printing.st_ino;
}

static void take_found(struct session *session, const FTSENT *file) {
    if (!session->each && session->expected) /* else what is printed shows how far it is */
        progress_show((double)session->seen / (double)session->expected, "reading reports");
    session->seen++;
    if (file->fts_info == FTS_DNR) {
        char error[512];
        snprintf(error, sizeof error, "%s: %s", file->fts_path, strerror(file->fts_errno));
        complain(session, error, "a folder that can be read");
    } else if (is_printed_to(session, file)) {
        session->passed_over++;
    } else {
        take_file(session, file->fts_path, false);
    }
}

static void take_folder(struct session *session, char *path) {
    size_t before = session->merge.run_count + session->texts;
    session->seen = session->expected = 0;
    each_file(session, path, count_file);
    each_file(session, path, take_found);
    progress_end();
    if (session->merge.run_count + session->texts == before) {
        char error[512];
        snprintf(error, sizeof error, "%s: no report in this folder", path);
        complain(session, error, "files that POOLCUDA_STATS_FILE made");
    }
}

static void take_all(struct session *session) {
    for (size_t i = 0; i < session->path_count; i++) {
        struct stat status;
        if (stat(session->paths[i], &status) == 0 && S_ISDIR(status.st_mode))
            take_folder(session, session->paths[i]);
        else
            take_file(session, session->paths[i], true);
    }
    seen_files_end(&session->files, "poolcuda report");
    if (session->passed_over)
        fprintf(stderr, "poolcuda report: %zu other files in these folders are no reports\n",
                session->passed_over);
}

static void print_merged(struct session *session) {
    const struct merge *merge = &session->merge;
    const struct stats_page *page = merge->run_count == 1 ? session->kept[0] : merge->page;
    if (session->brief) {
        report_brief(stdout, merge, page);
        return;
    }
    stats_report(page, session->json ? STATS_JSON : STATS_TEXT, &session->names,
                 session->most_sites, write_out, NULL);
    if (session->json)
        return;
    if (merge->run_count > 1) {
        report_runs(stdout, merge, session->all);
        report_spread(stdout, merge, &session->names, session->all);
    }
    suggest(stdout, merge, page);
    if (session->tune)
        session->complete = suggest_by_tuning(page) && session->complete;
}

static void write_views(struct session *session) {
    const struct merge *merge = &session->merge;
    const struct view_input input = {
        .pages = (const struct stats_page *const *)session->kept,
        .count = session->kept_count,
        .merged = merge->run_count == 1 ? session->kept[0] : merge->page,
        .runs = merge->runs,
        .run_count = merge->run_count,
        .symbols = session->symbols,
        .weight = session->weight,
    };
    for (int i = 0; i < VIEW_COUNT; i++)
        if (session->views[i])
            session->complete =
                view_write((enum view_kind)i, session->views[i], &input) && session->complete;
}

/* What became of the modules' files since: once for each, after everything else. */
static void tell_notes(const struct session *session) {
    size_t count;
    const char *const *notes = symbols_notes(session->symbols, &count);
    for (size_t i = 0; i < count; i++)
        say(notes[i]);
}

static void parse_weight(struct session *session, const char *name,
                         const struct argp_state *state) {
    for (int i = 0; i < VIEW_WEIGHT_COUNT; i++)
        if (strcmp(name, view_weight_names[i]) == 0) {
            session->weight = (enum view_weight)i;
            session->weighed = true;
            return;
        }
    usage_error(state, "--weight=%s: expected one of %s", name, WEIGHT_WORDS);
}

/* An option whose first value would be passed over. */
static void refuse_twice(bool before, const char *option, const struct argp_state *state) {
    if (before)
        usage_error(state, "%s: given twice, expected one value", option);
}

static const char *parse_folder(const char *name, const struct argp_state *state) {
    struct stat status;
    if (stat(name, &status) != 0 || !S_ISDIR(status.st_mode))
        usage_error(state, "--debug-dir: \"%s\": expected the name of a folder", name);
    return name;
}

static size_t parse_sites(const char *text, const struct argp_state *state) {
    unsigned long count;
    if (strcmp(text, "all") == 0)
        return SIZE_MAX;
    if (!usage_whole_number(text, 0, ULONG_MAX, &count))
        usage_error(state, "--sites=%s: expected a number, or all", text);
    return count;
}

static void check_weight(const struct session *session, const struct argp_state *state) {
    bool shown = !session->weighed;
    for (int i = 0; i < VIEW_COUNT; i++)
        shown = shown || (session->views[i] && i != VIEW_perfetto);
    if (!shown)
        usage_error(state, "--weight: expected beside a view that shows it, which --perfetto does "
                           "not");
}

/* What is about the text's lists. */
static void check_lists(const struct session *session, const struct argp_state *state) {
    bool no_text = session->brief || session->json || session->leaks;
    bool view = view_asked(session);
    if (session->all && (no_text || view || session->each))
        usage_error(state, "--all: expected without --each, --brief, --json, --leaks and views, as "
                           "it is about the text of a sum");
    if (session->counted && (no_text || (view && !session->each)))
        usage_error(state, "--sites: expected without --brief, --json, --leaks and views, as it is "
                           "about the text");
}

/* What goes to standard output is one thing. */
static void check_printed(const struct session *session, const struct argp_state *state) {
    const char *taken = session->each ? "--each" : session->leaks ? "--leaks" : NULL;
    for (int i = 0; i < VIEW_COUNT; i++) {
        if (!session->views[i] || !output_is_standard(session->views[i]))
            continue;
        if (taken)
            usage_error(state,
                        "%s=-: standard output is the file that is written, too, by %s; "
                        "expected the name of another one",
                        view_options[i], taken);
        taken = view_options[i];
    }
}

/* No option is passed over without a word: where two ask for different things, that is bad usage.
 */
static void check_pairs(const struct session *session, const struct argp_state *state) {
    const char *view = view_asked(session);
    if (session->brief && (session->each || session->json || session->leaks))
        usage_error(state, "--brief: expected without --each, --json and --leaks");
    if (session->leaks && (session->json || session->each))
        usage_error(state, "--leaks: expected without --json and --each, as it prints one text");
    if (session->tune && (session->each || session->brief || session->json || session->leaks))
        usage_error(state, "--tune: expected without --each, --brief, --json and --leaks");
    if (view && (session->json || session->brief || session->tune))
        usage_error(state,
                    "%s: expected without --json, --brief and --tune, as a view is written "
                    "in place of the text",
                    view);
    if (session->weighed && !view)
        usage_error(state, "--weight: expected beside a view, which shows it");
    check_weight(session, state);
    check_lists(session, state);
    check_printed(session, state);
    if (session->debug_folder && (session->no_symbols || session->brief))
        usage_error(state, "--debug-dir: expected without --no-symbols and --brief, with which no "
                           "place in code is looked up");
}

static error_t parse(int key, char *argument, struct argp_state *state) {
    struct session *session = state->input;
    unsigned long code;
    switch (key) {
    case KEY_EACH:
        session->each = true;
        return 0;
    case KEY_BRIEF:
        session->brief = true;
        return 0;
    case KEY_JSON:
        session->json = true;
        return 0;
    case KEY_LEAKS:
        session->leaks = true;
        return 0;
    case KEY_ALL:
        session->all = true;
        return 0;
    case KEY_SITES:
        refuse_twice(session->counted, "--sites", state);
        session->most_sites = parse_sites(argument, state);
        session->counted = true;
        return 0;
    case KEY_TUNE:
        session->tune = true;
        return 0;
    case KEY_LEAK_EXIT_CODE:
        refuse_twice(session->leak_exit_code, "--leak-exit-code", state);
        if (!usage_whole_number(argument, 1, 125, &code))
            usage_error(state, "--leak-exit-code=%s: expected a number from 1 to 125", argument);
        session->leak_exit_code = (int)code;
        return 0;
    case ARGP_KEY_ARGS:
        session->paths = state->argv + state->next;
        session->path_count = (size_t)(state->argc - state->next);
        for (size_t i = 0; i < session->path_count; i++)
            usage_file(session->paths[i], "FILE", state);
        return 0;
    case ARGP_KEY_NO_ARGS:
        usage_error(state, "no file given, expected those that POOLCUDA_STATS_FILE made");
        return 0;
    case KEY_WEIGHT:
        refuse_twice(session->weighed, "--weight", state);
        parse_weight(session, argument, state);
        return 0;
    case KEY_NO_SYMBOLS:
        session->no_symbols = true;
        return 0;
    case KEY_DEBUG_DIR:
        refuse_twice(session->debug_folder, "--debug-dir", state);
        session->debug_folder = parse_folder(argument, state);
        return 0;
    case ARGP_KEY_END:
        check_pairs(session, state);
        return 0;
    default:
        if (key < KEY_VIEW || key >= KEY_VIEW + VIEW_COUNT)
            return ARGP_ERR_UNKNOWN;
        if (session->views[key - KEY_VIEW])
            usage_error(state, "%s: given twice, expected one FILE", view_options[key - KEY_VIEW]);
        session->views[key - KEY_VIEW] = usage_file(argument, view_options[key - KEY_VIEW], state);
        return 0;
    }
}

static const struct argp_option options[] = {
    {"each", KEY_EACH, NULL, 0, "print each file's report, not their sum; with --json, as a list",
     0},
    {"brief", KEY_BRIEF, NULL, 0, "print their sum in one line", 0},
    {"all", KEY_ALL, NULL, 0, "list every run, host and site, not just those that stand out", 0},
    {"sites", KEY_SITES, "N", 0, "list so many sites, or all, not just the first 20", 0},
    {"json", KEY_JSON, NULL, 0, "as JSON, which this command reads again", 0},
    {"leaks", KEY_LEAKS, NULL, 0, "print only what was never freed", 0},
    {"leak-exit-code", KEY_LEAK_EXIT_CODE, "N", 0,
     "exit with N if a program that came to its end had not freed everything", 0},
    {"tune", KEY_TUNE, NULL, 0, "also tell what `poolcuda tune` makes of the recorded trace", 0},
#define VIEW(name, form, text) {#name, KEY_VIEW + VIEW_##name, "FILE", 0, text, 1},
#include "cli/views/views.def"
#undef VIEW
    {"weight", KEY_WEIGHT, WEIGHT_WORDS, 0,
     "what a flame graph's widths show; default: bytes, all that were allocated", 1},
    {"no-symbols", KEY_NO_SYMBOLS, NULL, 0,
     "tell places in code as module+offset, without a look into the modules' files", 1},
    {"debug-dir", KEY_DEBUG_DIR, "DIR", 0,
     "look for separate debug files in DIR/.build-id before /usr/lib/debug", 1},
    {0},
};

const struct argp report_argp = {
    .options = options,
    .parser = parse,
    .args_doc = "FILE...",
    .doc = "Tells what programs did, by the files that they left by POOLCUDA_STATS_FILE. Several "
           "files, and all those in a folder, are added up. Options that name a FILE write a view "
           "there instead of the text of the sum, to standard output if it is -.",
};

/* Whether what is printed or a view would go into a file that is read, or into one with another
 * one of them. */
static bool writes_over(const struct session *session, char error[OUTPUT_ERROR]) {
    const char *outputs[1 + VIEW_COUNT];
    size_t count = 0;
    if (session->leaks || session->each || !view_asked(session))
        outputs[count++] = "-";
    for (int i = 0; i < VIEW_COUNT; i++)
        if (session->views[i])
            outputs[count++] = session->views[i];
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < session->path_count; j++)
            if (output_is_input(outputs[i], session->paths[j], error))
                return true;
        for (size_t j = 0; j < i; j++)
            if (output_is_output(outputs[i], outputs[j], error))
                return true;
    }
    return false;
}

/* In a folder, the file that a shell has just made for what is printed is none that is read. One
 * that is to be continued may be. */
static void refuse_printed_to(struct session *session, const FTSENT *file) {
    char error[OUTPUT_ERROR];
    if (is_printed_to(session, file) && session->printing.st_size &&
        output_is_input("-", file->fts_accpath, error)) {
        say(error);
        exit(EXIT_USAGE);
    }
}

/* Ends with EXIT_USAGE, or returns false, after one line. */
static bool outputs_possible(struct session *session) {
    char error[OUTPUT_ERROR];
    if (writes_over(session, error)) {
        say(error);
        exit(EXIT_USAGE);
    }
    session->prints_to_file =
        fstat(STDOUT_FILENO, &session->printing) == 0 && S_ISREG(session->printing.st_mode);
    for (size_t i = 0; session->prints_to_file && i < session->path_count; i++)
        each_file(session, session->paths[i], refuse_printed_to);
    for (int i = 0; i < VIEW_COUNT; i++) {
        /* `--html a.json b.json` names a.json as the file to write, which few mean. */
        if (session->views[i] && !output_is_standard(session->views[i]) &&
            kept_file_is_lost(session->views[i], error, sizeof error)) {
            say(error);
            exit(EXIT_USAGE);
        }
    }
    for (int i = 0; i < VIEW_COUNT; i++) {
        if (session->views[i] && !output_check(session->views[i], error)) {
            say(error);
            return false;
        }
    }
    return true;
}

int command_report(int argc, char **argv) {
    struct session session = {.complete = true, .most_sites = STATS_FIRST_SITES};
    argp_parse(&report_argp, argc, argv, 0, NULL, &session);
    if (!outputs_possible(&session))
        return 1;
    if (!merge_init(&session.merge)) {
        fputs("poolcuda report: not enough memory\n", stderr);
        return 1;
    }
    if (!session.no_symbols)
        session.symbols = symbols_open(session.debug_folder);
    session.names = symbols_names(session.symbols);
    take_all(&session);
    if (session.each && session.json)
        puts(session.merge.run_count ? "]" : "[]");
    uint64_t leaked = 0;
    for (size_t i = 0; i < session.merge.run_count; i++)
        leaked += session.merge.runs[i].leaked_blocks;
    if (view_asked(&session) && session.merge.run_count)
        write_views(&session);
    if (session.leaks && session.merge.run_count)
        leaks_print(stdout, &session.merge, &session.names);
    else if (!session.each && !view_asked(&session) && session.merge.run_count)
        print_merged(&session);
    tell_notes(&session);
    symbols_close(session.symbols);
    merge_free(&session.merge);
    for (size_t i = 0; i < session.kept_count; i++)
        stats_page_destroy(session.kept[i]);
    if (!session.complete)
        return 1;
    return leaked ? session.leak_exit_code : 0;
}
