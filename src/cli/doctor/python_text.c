#include "cli/doctor/python_text.h"

#include "cli/doctor/python_tokens.h"
#include "cli/doctor/script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { TEXT_MAX = 4 << 20, LIST_MAX = 1 << 16, NAME_MAX_KEPT = 255 };

static void *grow(void *list, size_t count, size_t size) {
    if (count >= LIST_MAX)
        return NULL;
    return count & (count - 1) ? list : reallocarray(list, count ? 2 * count : 1, size);
}

static void add_string(char ***list, size_t *count, const char *start, size_t length) {
    char **grown = length <= 4096 ? grow(*list, *count, sizeof **list) : NULL;
    if (!grown)
        return;
    *list = grown;
    char *copy = strndup(start, length);
    if (copy)
        grown[(*count)++] = copy;
}

static bool contains(const char *start, size_t length, const char *word) {
    size_t wanted = strlen(word);
    for (size_t i = 0; i + wanted <= length; i++)
        if (strncasecmp(start + i, word, wanted) == 0)
            return true;
    return false;
}

static void add_import(struct python_text *text, const char *name, unsigned level, bool always,
                       bool perhaps) {
    struct python_import *grown = grow(text->imports, text->import_count, sizeof *grown);
    if (!grown)
        return;
    text->imports = grown;
    text->names_cuda = text->names_cuda || contains(name, strlen(name), "cuda");
    char *copy = strdup(name);
    if (copy)
        grown[text->import_count++] = (struct python_import){copy, level, always, perhaps};
}

/* "a.b.c" from the token that is now on, which is left behind it. */
static void read_dotted(struct reader *reader, char *name) {
    size_t length = strlen(name);
    while (reader->now.kind == NAME && !is_name(&reader->now, "import") &&
           length + reader->now.length + 1 < NAME_MAX_KEPT) {
        memcpy(name + length, reader->now.start, reader->now.length);
        length += reader->now.length;
        name[length] = '\0';
        step(reader);
        if (!is_sign(&reader->now, '.'))
            return;
        name[length++] = '.';
        name[length] = '\0';
        step(reader);
    }
}

static const struct hidden {
    const char *module, *name;
} hidden[] = {
#define HIDDEN(module, name) {module, name},
#include "cli/doctor/python_hidden.def"
#undef HIDDEN
};

/* Modules through which a program can open libraries, import others or start programs, and those of
 * the table whose functions are known by the module's name. */
static bool is_reaching(const char *module) {
    static const char *const names[] = {
        "ctypes",  "cffi", "importlib", "subprocess",      "os", "posix", "pty",
        "asyncio", "sys",  "pexpect",   "_posixsubprocess"};
    size_t length = strcspn(module, ".");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strlen(names[i]) == length && strncmp(names[i], module, length) == 0)
            return true;
    for (size_t i = 0; i < sizeof hidden / sizeof hidden[0]; i++)
        if (*hidden[i].module && strlen(hidden[i].module) == length &&
            strncmp(hidden[i].module, module, length) == 0)
            return true;
    return false;
}

/* Whether a function of this name may open, import, run or start something. */
static bool is_telling(const struct token *name) {
    static const char *const words[] = {"dll",     "DLL",    "open",   "load",  "exec",
                                        "eval",    "system", "import", "spawn", "module",
                                        "compile", "Popen",  "run",    "call",  "dict"};
    bool telling = false;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        telling = telling || contains(name->start, name->length, words[i]);
    return telling;
}

/* A name of the table behind its module's. */
static void note_hidden(struct python_text *text, const char *module, const struct token *name) {
    for (size_t i = 0; !text->hides && i < sizeof hidden / sizeof hidden[0]; i++)
        if ((!*hidden[i].module || strcmp(hidden[i].module, module) == 0) &&
            (strcmp(hidden[i].name, "*") == 0 ||
             (strlen(hidden[i].name) == name->length &&
              memcmp(hidden[i].name, name->start, name->length) == 0)))
            text->hides = strcmp(hidden[i].name, "*") == 0 ? hidden[i].module : hidden[i].name;
}

/* "import a.b as c, d" */
static void read_import(struct reader *reader, struct python_text *text, bool always) {
    do {
        char name[NAME_MAX_KEPT + 1] = "";
        step(reader);
        read_dotted(reader, name);
        if (*name)
            add_import(text, name, 0, always, false);
        if (is_name(&reader->now, "as")) {
            /* Under another name its functions are not known. */
            if (*name && is_reaching(name))
                text->hides = text->hides ? text->hides : "import ... as";
            step(reader);
            step(reader);
        }
    } while (is_sign(&reader->now, ','));
}

/* "from ..a.b import (c as d, e)": a.b.c may be a module, or a name in a.b. */
static void read_from(struct reader *reader, struct python_text *text, bool always) {
    char name[NAME_MAX_KEPT + 1] = "";
    unsigned level = 0;
    for (step(reader); is_sign(&reader->now, '.'); step(reader))
        level++;
    read_dotted(reader, name);
    if (!is_name(&reader->now, "import"))
        return;
    add_import(text, name, level, always, false);
    bool is_os = strcmp(name, "os") == 0;
    size_t length = strlen(name);
    step(reader);
    bool bracket = is_sign(&reader->now, '(');
    if (bracket)
        step(reader);
    while (reader->now.kind == NAME && length + reader->now.length + 1 < NAME_MAX_KEPT) {
        char inner[2 * NAME_MAX_KEPT]; /* more than the loop lets in, which gcc does not see */
        snprintf(inner, sizeof inner, "%s%s%.*s", name, length ? "." : "", (int)reader->now.length,
                 reader->now.start);
        add_import(text, inner, level, always, true);
        note_hidden(text, name, &reader->now);
        bool telling = is_reaching(name) && is_telling(&reader->now);
        step(reader);
        if (is_name(&reader->now, "as")) {
            if (is_os && contains(inner, strlen(inner), "env"))
                text->sets_environment = true;
            if (telling)
                text->hides = text->hides ? text->hides : "import ... as";
            step(reader);
            step(reader);
        }
        if (!is_sign(&reader->now, ','))
            return;
        step(reader);
    }
}

/* The argument of a call: true if it is one constant string, which is then the token that is now.
 */
static bool read_constant(struct reader *reader) {
    step(reader);
    return reader->now.kind == STRING &&
           (is_sign(&reader->next, ')') || is_sign(&reader->next, ','));
}

/* ctypes.CDLL("libm.so.6"), CDLL(find_library("m")), ffi.dlopen("libm.so.6") */
static void read_opening(struct reader *reader, struct python_text *text) {
    static const char *const finders[] = {"ctypes", "util", "find_library", ".", NULL};
    if (is_name(&reader->before, "def") || is_name(&reader->before, "class"))
        return;
    if (!is_sign(&reader->next, '(')) {
        text->opens_others = true;
        return;
    }
    step(reader);
    if (read_constant(reader)) {
        add_string(&text->libraries, &text->library_count, reader->now.start, reader->now.length);
        return;
    }
    while (is_one_of(&reader->now, finders) && !is_name(&reader->now, "find_library"))
        do
            step(reader);
        while (is_sign(&reader->now, '.'));
    if (is_name(&reader->now, "find_library"))
        return; /* whose own argument is read next */
    bool itself = is_name(&reader->now, "None") || is_sign(&reader->now, ')');
    text->opens_others = text->opens_others || !itself;
}

static void read_finding(struct reader *reader, struct python_text *text) {
    char name[NAME_MAX_KEPT + 16];
    if (is_name(&reader->before, "def") || !is_sign(&reader->next, '('))
        return;
    step(reader);
    if (!read_constant(reader)) {
        text->opens_others = true;
    } else if (reader->now.length < NAME_MAX_KEPT) {
        snprintf(name, sizeof name, "lib%.*s.so", (int)reader->now.length, reader->now.start);
        add_string(&text->libraries, &text->library_count, name, strlen(name));
    }
}

static void read_importing(struct reader *reader, struct python_text *text) {
    if (is_name(&reader->before, "def") || !is_sign(&reader->next, '('))
        return;
    step(reader);
    char name[NAME_MAX_KEPT + 1] = "";
    if (read_constant(reader) && reader->now.length < sizeof name) {
        memcpy(name, reader->now.start, reader->now.length);
        name[reader->now.length] = '\0';
        add_import(text, name, 0, false, false);
    } else {
        text->imports_others = true;
    }
}

/* getattr(module, "name"): a constant that is none of those that are looked for hides nothing. */
static void read_attribute(struct reader *reader, struct python_text *text) {
    struct reader ahead = *reader;
    step(&ahead);
    bool is_system =
        is_name(&ahead.next, "os") || is_name(&ahead.next, "sys") || is_name(&ahead.next, "posix");
    for (unsigned i = 0; i < 3 && !is_sign(&ahead.next, ',') && ahead.next.kind != END; i++)
        step(&ahead);
    if (is_sign(&ahead.next, ','))
        step(&ahead);
    step(&ahead);
    if (ahead.now.kind == STRING && (is_sign(&ahead.next, ')') || is_sign(&ahead.next, ',')) &&
        !is_telling(&ahead.now))
        return;
    reader->reflects = true;
    if (is_system)
        text->hides = text->hides ? text->hides : "getattr";
}

/* ctypes.cdll["libm.so.6"]; else it opens what is put together. */
static void read_loader(struct reader *reader, struct python_text *text) {
    if (is_sign(&reader->next, '[')) {
        struct reader ahead = *reader;
        step(&ahead);
        step(&ahead);
        if (ahead.now.kind == STRING && is_sign(&ahead.next, ']')) {
            add_string(&text->libraries, &text->library_count, ahead.now.start, ahead.now.length);
            return;
        }
    } else if (is_sign(&reader->next, '.')) {
        struct reader ahead = *reader;
        step(&ahead);
        step(&ahead);
        if (is_name(&ahead.now, "LoadLibrary"))
            return; /* which is read next */
    } else if (is_name(&reader->before, "import") || is_sign(&reader->before, ',')) {
        return;
    }
    text->opens_others = true;
}

/* Whether all arguments of the call, whose name is the reader's next token but one, are constants:
 * names stand there only before "=", and are none that the pool needs. */
static bool has_constant_arguments(struct reader ahead) {
    unsigned depth = ahead.next.depth;
    for (step(&ahead), step(&ahead); ahead.now.kind != END; step(&ahead)) {
        if (is_sign(&ahead.now, ')') && ahead.now.depth <= depth + 1)
            return true;
        bool keyword = ahead.now.kind == NAME && is_sign(&ahead.next, '=') &&
                       !is_name(&ahead.now, "LD_PRELOAD") &&
                       !is_name(&ahead.now, "POOLCUDA_DISABLE");
        bool number = ahead.now.kind == NAME && *ahead.now.start >= '0' && *ahead.now.start <= '9';
        bool operates = ahead.now.kind == SIGN && !strchr("(){}[],:=", ahead.now.sign);
        if (operates || ahead.now.kind == MIXED_STRING ||
            (ahead.now.kind == NAME && !keyword && !number))
            return false;
    }
    return false;
}

/* Whether os.environ, which is now, or what os.putenv is given, is changed under names that are put
 * together, or is handed on under another name. */
static bool changes_environment(const struct reader *reader) {
    static const char *const changing[] = {"update",      "pop",         "setdefault",
                                           "__delitem__", "__setitem__", NULL};
    struct reader ahead = *reader;
    if (is_name(&reader->now, "putenv"))
        return is_sign(&reader->next, '(') && !has_constant_arguments(ahead);
    if (!is_name(&reader->now, "environ") && !is_name(&reader->now, "environb"))
        return false;
    if (is_sign(&reader->next, '.')) {
        step(&ahead);
        if (is_name(&ahead.next, "clear") || is_name(&ahead.next, "popitem"))
            return true;
        bool changes = is_one_of(&ahead.next, changing);
        step(&ahead);
        return changes && (!is_sign(&ahead.next, '(') || !has_constant_arguments(ahead));
    }
    if (is_sign(&reader->next, '[')) {
        unsigned depth = reader->next.depth;
        step(&ahead);
        step(&ahead);
        bool constant = ahead.now.kind == STRING && is_sign(&ahead.next, ']');
        while (ahead.now.kind != END && !(is_sign(&ahead.now, ']') && ahead.now.depth <= depth + 1))
            step(&ahead);
        return !constant && (reader->deletes || is_sign(&ahead.next, '='));
    }
    return is_sign(&reader->next, '|') || (reader->next.first && reader->assigns);
}

/* What may hide what a program does: called with the name that is now. */
static void look_for_hidden(struct reader *reader, struct python_text *text) {
    static const char *const reflecting[] = {"vars",     "globals", "locals",
                                             "__dict__", "modules", NULL};
    static const char *const runners[] = {"eval", "compile", NULL};
    const struct token *now = &reader->now;
    bool member = is_sign(&reader->before, '.');
    char module[64] = "";
    if (member && reader->last.kind == NAME && reader->last.length < sizeof module)
        memcpy(module, reader->last.start, reader->last.length);
    if (is_name(&reader->before, "def") || is_name(&reader->before, "class"))
        return;
    note_hidden(text, module, now);
    if (is_name(now, "getattr") && is_sign(&reader->next, '('))
        read_attribute(reader, text);
    else if (is_one_of(now, reflecting) && (!is_name(now, "modules") || strcmp(module, "sys") == 0))
        reader->reflects = true;
    else if (is_one_of(now, runners) && !member && is_sign(&reader->next, '('))
        text->hides = text->hides ? text->hides : "eval";
    /* Handed on under another name. */
    static const char *const handed[] = {"exec", "eval", "__import__", "import_module", NULL};
    if (is_one_of(now, handed) && !is_sign(&reader->next, '(') && !is_sign(&reader->next, '=') &&
        (!member || is_name(now, "import_module")))
        text->hides = text->hides ? text->hides : "exec";
    if ((is_name(now, "env") || is_name(now, "cwd")) && is_sign(&reader->next, '='))
        text->sets_environment = true;
    if (changes_environment(reader))
        text->sets_environment = true;
    if (is_name(now, "unsetenv") || is_name(now, "chdir") ||
        (is_name(now, "environ") && (is_sign(&reader->next, '='))))
        text->sets_environment = true;
    if (is_name(now, "clear") && member && strcmp(module, "environ") == 0)
        text->sets_environment = true;
}

/* os.system, os.execv, subprocess.run and what is imported from there. */
static bool starts_program(const struct reader *reader) {
    static const char *const calls[] = {"system",
                                        "popen",
                                        "Popen",
                                        "check_call",
                                        "check_output",
                                        "getoutput",
                                        "getstatusoutput",
                                        "create_subprocess_exec",
                                        "create_subprocess_shell",
                                        "subprocess_exec",
                                        "subprocess_shell",
                                        "fork_exec",
                                        "startfile",
                                        NULL};
    if (reader->now.kind != NAME || is_name(&reader->before, "def") ||
        is_name(&reader->before, "class"))
        return false;
    /* Called, or handed on as os.system. */
    bool is_used = is_sign(&reader->next, '(') ||
                   (is_sign(&reader->before, '.') && is_name(&reader->last, "os"));
    return is_used &&
           (is_one_of(&reader->now, calls) ||
            (reader->now.length >= 5 &&
             (strncmp(reader->now.start, "execv", 5) == 0 ||
              strncmp(reader->now.start, "execl", 5) == 0 ||
              strncmp(reader->now.start, "spawn", 5) == 0 ||
              (reader->now.length >= 11 && strncmp(reader->now.start, "posix_spawn", 11) == 0))));
}

/* About execve, posix_spawn and their kind, whose environment is an argument. */
static bool takes_environment(const struct token *name) {
    return (name->length >= 11 && strncmp(name->start, "posix_spawn", 11) == 0) ||
           is_name(name, "fork_exec") ||
           (name->length >= 6 &&
            (strncmp(name->start, "exec", 4) == 0 || strncmp(name->start, "spawn", 5) == 0) &&
            name->start[name->length - 1] == 'e');
}

/* The command of a call that starts a program, if it is a constant: one text, or a list of words.
 */
static void look_at_command(struct reader *reader, struct python_text *text) {
    const struct token *now = &reader->now;
    char *longer = NULL;
    if (reader->call && now->depth + is_sign(now, '(') < reader->call)
        reader->call = 0;
    if (!reader->call || !reader->command)
        return;
    bool plain = now->kind == STRING && !memchr(now->start, '\'', now->length) &&
                 !memchr(now->start, '\\', now->length);
    bool opens = is_sign(now, '(') || is_sign(now, '['), inside = now->depth > reader->call;
    if (opens && !reader->in_list) {
        reader->in_list = now->depth >= reader->call;
    } else if (plain && !reader->in_list) {
        add_string(&text->started, &text->started_count, now->start, now->length);
        reader->command = false;
    } else if (reader->in_list && now->depth == reader->call + 1 &&
               (is_sign(now, ']') || is_sign(now, ')'))) {
        if (reader->words)
            add_string(&text->started, &text->started_count, reader->words, strlen(reader->words));
        reader->command = false;
    } else if (reader->in_list && plain && now->depth == reader->call + 1) {
        if (asprintf(&longer, "%s '%.*s'", reader->words ? reader->words : "", (int)now->length,
                     now->start) >= 0) {
            free(reader->words);
            reader->words = longer;
        }
    } else if (inside && reader->in_list && now->kind != SIGN) {
        /* A word that is put together. */
        if (asprintf(&longer, "%s \"$(:)\"", reader->words ? reader->words : "") >= 0) {
            free(reader->words);
            reader->words = longer;
        }
    } else if (!opens && !reader->in_list) {
        reader->command = false;
    }
}

/* subprocess.run and call, whose names others have as well. */
static bool starts_by_subprocess(const struct reader *reader) {
    static const char *const calls[] = {"run", "call", NULL};
    return is_one_of(&reader->now, calls) && is_sign(&reader->next, '(') &&
           (!is_sign(&reader->before, '.') || is_name(&reader->last, "subprocess"));
}

static void begin_command(struct reader *reader) {
    free(reader->words);
    reader->words = NULL;
    reader->in_list = false;
    reader->command = is_sign(&reader->next, '(');
    reader->call = reader->command ? reader->now.depth + 1u : 0;
}

static void look(struct reader *reader, struct python_text *text) {
    static const char *const openers[] = {"CDLL",   "PyDLL",        "LoadLibrary",
                                          "dlopen", "load_library", NULL};
    static const char *const importers[] = {"import_module", "__import__", NULL};
    static const char *const runners[] = {
        "exec", "execfile", "run_path", "run_module", "spec_from_file_location", NULL};
    const struct token *now = &reader->now;
    if (now->kind == NAME || now->kind == STRING || now->kind == MIXED_STRING)
        text->names_cuda = text->names_cuda || contains(now->start, now->length, "cuda") ||
                           contains(now->start, now->length, "gpu");
    if (now->first && reader->skips && now->column <= reader->beyond)
        reader->skips = false;
    if (reader->skips)
        return;
    look_at_command(reader, text);
    if (now->first) {
        reader->deletes = is_name(now, "del");
        reader->assigns = false;
    }
    reader->assigns = reader->assigns || (is_sign(now, '=') && !now->depth);
    if (now->kind == STRING || now->kind == MIXED_STRING) {
        text->names_preload =
            text->names_preload || contains(now->start, now->length, "LD_PRELOAD");
        text->names_disable =
            text->names_disable || contains(now->start, now->length, "POOLCUDA_DISABLE");
    }
    if (now->kind == NAME)
        look_for_hidden(reader, text);
    if (is_name(now, "if") && now->first)
        reader->statement = now->column;
    if (is_name(now, "TYPE_CHECKING") && is_sign(&reader->next, ':')) {
        reader->skips = true;
        reader->beyond = reader->statement;
    } else if (is_name(now, "import") && now->first)
        read_import(reader, text, now->margin);
    else if (is_name(now, "from") && now->first)
        read_from(reader, text, now->margin);
    else if (is_name(now, "cdll") || is_name(now, "pydll"))
        read_loader(reader, text);
    else if (is_one_of(now, openers))
        read_opening(reader, text);
    else if (is_name(now, "find_library"))
        read_finding(reader, text);
    else if (is_one_of(now, importers))
        read_importing(reader, text);
    else if (is_one_of(now, runners) && is_sign(&reader->next, '('))
        text->imports_others = true;
    else if (is_name(now, "RTLD_DEEPBIND"))
        text->names_deepbind = true;
    else if (starts_program(reader) || is_name(now, "subprocess")) {
        text->starts_others =
            text->starts_others || !is_name(now, "subprocess") || is_sign(&reader->next, '.');
        if (!is_name(now, "subprocess")) {
            text->sets_environment = text->sets_environment || takes_environment(now);
            begin_command(reader);
        }
    } else if (starts_by_subprocess(reader)) {
        begin_command(reader);
    } else if (now->kind == STRING && !(now->first && reader->next.first))
        add_string(&text->strings, &text->string_count, now->start, now->length);
}

struct python_text python_text_read(const char *bytes, size_t length) {
    struct python_text text = {.imports = NULL};
    if (length >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0) {
        bytes += 3; /* the mark of UTF-8 */
        length -= 3;
    }
    struct reader reader = {.at = bytes,
                            .line = bytes,
                            .end = bytes + (length < TEXT_MAX ? length : TEXT_MAX),
                            .fresh = true,
                            .margin = true};
    step(&reader);
    for (step(&reader); reader.now.kind != END;) {
        const char *start = reader.now.start;
        look(&reader, &text);
        /* What reads ahead leaves the token behind its own, or a string that it has read. */
        if (reader.now.start == start || reader.now.kind == STRING)
            step(&reader);
    }
    free(reader.words);
    for (size_t i = 0; reader.reflects && !text.hides && i < text.import_count; i++)
        if (is_reaching(text.imports[i].name) && strcmp(text.imports[i].name, "sys") != 0 &&
            strncmp(text.imports[i].name, "os", 2) != 0)
            text.hides = "getattr, vars";
    return text;
}

struct python_text python_text_read_file(const char *path) {
    size_t length = 0;
    char *bytes = script_read_bytes(path, TEXT_MAX, &length);
    struct python_text text = python_text_read(bytes ? bytes : "", bytes ? length : 0);
    free(bytes);
    return text;
}

static void free_strings(char **list, size_t count) {
    for (size_t i = 0; i < count; i++)
        free(list[i]);
    free(list);
}

void python_text_free(struct python_text *text) {
    for (size_t i = 0; i < text->import_count; i++)
        free(text->imports[i].name);
    free(text->imports);
    free_strings(text->libraries, text->library_count);
    free_strings(text->strings, text->string_count);
    free_strings(text->started, text->started_count);
    *text = (struct python_text){.imports = NULL};
}
