#include "cli/top_screen.h"

#ifdef HAVE_NCURSES

#include <curses.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <term.h>
#include <unistd.h>

/* What is on the screen. */
struct view {
    struct live_list list, before;
    struct live_row *rows; /* of list */
    size_t first;          /* the row below the head: the others are scrolled away */
    enum live_key key;
    enum live_scope scope;
    double interval; /* seconds */
};

bool top_screen_possible(void) {
    const char *terminal = getenv("TERM");
    int error;
    return isatty(STDOUT_FILENO) && isatty(STDIN_FILENO) && terminal && *terminal &&
           setupterm(NULL, STDOUT_FILENO, &error) == OK && cursor_address && clear_screen;
}

/* Reads the processes; the rates are since the last time. */
static bool refresh_rows(struct view *view, char *error, size_t error_size) {
    struct live_list list;
    if (!live_list(&list, view->scope, error, error_size))
        return false;
    struct live_row *rows = calloc(list.count + 1, sizeof *rows);
    if (!rows) {
        live_free(&list);
        snprintf(error, error_size, "not enough memory for the list of processes");
        return false;
    }
    live_free(&view->before);
    free(view->rows);
    view->before = view->list;
    view->list = list;
    view->rows = rows;
    return true;
}

static void put_line(int line, const char *text, attr_t attributes) {
    attron(attributes);
    mvaddnstr(line, 0, text, COLS);
    attroff(attributes);
}

static void draw(struct view *view) {
    enum { HEAD = 3 }; /* lines above the rows */
    char line[LIVE_LINE], help[LIVE_LINE];
    size_t length = 0;
    erase();
    live_rows(&view->list, &view->before, view->key, view->rows);
    live_sum_line(view->rows, view->list.count, line);
    put_line(0, line, A_BOLD);
    live_head_line(view->scope == LIVE_ALL, line);
    put_line(2, line, A_REVERSE);
    if (view->first >= view->list.count)
        view->first = view->list.count ? view->list.count - 1 : 0;
    for (size_t i = view->first; i < view->list.count; i++) {
        int at = HEAD + (int)(i - view->first);
        if (at >= LINES - 1)
            break;
        live_row_line(&view->rows[i], view->scope == LIVE_ALL, line);
        put_line(at, line, A_NORMAL);
    }
    length = (size_t)snprintf(help, sizeof help, "q quit, arrows scroll, sort by");
    for (size_t i = 0; i < LIVE_KEYS; i++)
        length += (size_t)snprintf(help + length, sizeof help - length, " %c %s%s",
                                   live_key_names[i].letter, live_key_names[i].word,
                                   i == view->key ? "*" : "");
    put_line(LINES - 1, help, A_DIM);
    refresh();
}

/* Returns false at the end. */
static bool obey(struct view *view, int key) {
    for (size_t i = 0; i < LIVE_KEYS; i++)
        if (key == live_key_names[i].letter)
            view->key = (enum live_key)i;
    if (key == KEY_DOWN && view->first + 1 < view->list.count)
        view->first++;
    if (key == KEY_UP && view->first)
        view->first--;
    return key != 'q' && key != 'Q';
}

/* What a terminal, a user or a service ends a process with. */
static const int ends[] = {SIGINT, SIGTERM, SIGQUIT, SIGHUP};
enum { END_COUNT = sizeof ends / sizeof ends[0] };

static volatile sig_atomic_t ended_by; /* the signal; 0: none came */

static void note_end(int number) {
    ended_by = number;
}

/* The screen must be given back before a signal ends the process. curses' own handlers do so, and
 * then end with 1, which would stand for a failure. */
static void catch_ends(void) {
    struct sigaction own = {.sa_handler = note_end}, before;
    for (size_t i = 0; i < END_COUNT; i++)
        if (sigaction(ends[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(ends[i], &own, NULL);
}

/* To be called once the screen is given back: who started the process sees what has ended it. */
static void end_alike(void) {
    struct sigaction by_default = {.sa_handler = SIG_DFL};
    sigaction(ended_by, &by_default, NULL);
    raise(ended_by);
}

/* Waits for a key, a signal or the time. A signal that comes behind the look at ended_by is let in
 * by the wait alone, and so ends it. Returns false once no key can come any more. */
static bool wait_for_key(uint64_t until) {
    struct pollfd keys = {.fd = STDIN_FILENO, .events = POLLIN};
    sigset_t barred, before;
    uint64_t now = live_now(), left = until > now ? until - now : 0;
    struct timespec pause = {(time_t)(left / 1000000000), (long)(left % 1000000000)};
    sigemptyset(&barred);
    for (size_t i = 0; i < END_COUNT; i++)
        sigaddset(&barred, ends[i]);
    sigaddset(&barred, SIGWINCH);
    sigprocmask(SIG_BLOCK, &barred, &before);
    int ready = ended_by ? 0 : ppoll(&keys, 1, &pause, &before);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return ready <= 0 || !(keys.revents & (POLLHUP | POLLERR | POLLNVAL));
}

bool top_screen(double interval, enum live_key key, enum live_scope scope, char *error,
                size_t error_size) {
    struct view view = {.key = key, .scope = scope, .interval = interval};
    bool goes_on = true, readable = refresh_rows(&view, error, error_size);
    if (!readable)
        return false;
    setlocale(LC_CTYPE, ""); /* commands may have names in any script */
    catch_ends();
    initscr();
    cbreak();
    noecho();
    keypad(stdscr, TRUE);
    curs_set(0);
    timeout(0);
    uint64_t next = live_now();
    while (goes_on && readable && !ended_by) {
        int pressed;
        draw(&view);
        goes_on = wait_for_key(next);
        while (goes_on && (pressed = getch()) != ERR) /* a resize is one too */
            goes_on = obey(&view, pressed);
        if (live_now() < next)
            continue;
        readable = refresh_rows(&view, error, error_size);
        next = live_now() + (uint64_t)(view.interval * 1e9);
    }
    endwin();
    live_free(&view.list);
    live_free(&view.before);
    free(view.rows);
    if (ended_by)
        end_alike();
    return readable;
}

#else

bool top_screen_possible(void) {
    return false;
}

bool top_screen(double interval, enum live_key key, enum live_scope scope, char *error,
                size_t error_size) {
    (void)interval;
    (void)key;
    (void)scope;
    snprintf(error, error_size, "built without ncurses");
    return false;
}

#endif
