#include "cli/doctor/script.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TEXT_MAX = 1 << 20, WORDS_MAX = 4096, WORD_MAX = 1024 };

char *script_find_program(const char *name) {
    const char *path = getenv("PATH");
    struct stat facts;
    if (!*name)
        return NULL;
    if (strchr(name, '/'))
        return access(name, F_OK) == 0 ? strdup(name) : NULL;
    for (path = path ? path : "/usr/local/bin:/usr/bin:/bin"; *path;) {
        size_t length = strcspn(path, ":");
        char *candidate;
        if (asprintf(&candidate, "%.*s%s%s", (int)length, path, length ? "/" : "./", name) < 0)
            return NULL;
        if (stat(candidate, &facts) == 0 && S_ISREG(facts.st_mode) && access(candidate, X_OK) == 0)
            return candidate;
        free(candidate);
        path += length + (path[length] == ':');
    }
    return NULL;
}

static int compare(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

bool script_has(const struct script *script, const char *word) {
    return script->word_count &&
           bsearch(&word, script->words, script->word_count, sizeof *script->words, compare);
}

/* The interpreter of "#!/usr/bin/env -S NAME=VALUE python3 -u" is python3. */
static char *read_interpreter(char *line) {
    static const char blanks[] = " \t\r";
    char *rest = line, *word = strtok_r(line, blanks, &rest);
    const char *slash = word ? strrchr(word, '/') : NULL;
    if (!word)
        return strdup("");
    if (strcmp(slash ? slash + 1 : word, "env") != 0)
        return strdup(word);
    while ((word = strtok_r(NULL, blanks, &rest)) && (*word == '-' || strchr(word, '=')))
        ;
    char *found = word ? script_find_program(word) : NULL;
    return found ? found : strdup(word ? word : "");
}

/* Everything between what no name of a program or module contains. A comment's words are left out.
 */
static void read_words(struct script *script, char *text) {
    static const char ends[] = " \t\r\n;|&()[]{}<>\"'`,=:#$\\";
    script->words = calloc(WORDS_MAX, sizeof *script->words);
    while (script->words && *text && script->word_count < WORDS_MAX) {
        if (*text == '#' && (text[1] == ' ' || text[1] == '#')) {
            text += strcspn(text, "\n");
            continue;
        }
        size_t length = strcspn(text, ends);
        if (length && length < WORD_MAX) {
            char *word = strndup(text, length);
            if (!word)
                break;
            script->words[script->word_count++] = word;
        }
        text += length ? length : 1;
    }
    if (!script->word_count)
        return;
    qsort(script->words, script->word_count, sizeof *script->words, compare);
    size_t kept = 1;
    for (size_t i = 1; i < script->word_count; i++) {
        if (strcmp(script->words[i], script->words[kept - 1]) == 0)
            free(script->words[i]);
        else
            script->words[kept++] = script->words[i];
    }
    script->word_count = kept;
}

/* Module names with dots ("torch.cuda") count by each of their parts as well. */
static void split_dots(char *text) {
    for (char *dot = strchr(text, '.'); dot; dot = strchr(dot + 1, '.'))
        if (dot > text && dot[-1] != '/' && dot[-1] != '.' && dot[1] != '.' && dot[1] != '/')
            *dot = ' ';
}

/* NULL unless it is a regular file: a pipe would be waited for. */
static FILE *open_file(const char *path) {
    struct stat facts;
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0)
        return NULL;
    FILE *file =
        fstat(descriptor, &facts) == 0 && S_ISREG(facts.st_mode) ? fdopen(descriptor, "r") : NULL;
    if (!file)
        close(descriptor);
    return file;
}

char *script_read_bytes(const char *path, size_t most, size_t *length) {
    FILE *file = open_file(path);
    struct stat facts;
    char *bytes = NULL;
    if (file && fstat(fileno(file), &facts) == 0) {
        size_t size = (size_t)facts.st_size < most ? (size_t)facts.st_size : most;
        bytes = malloc(size + 1);
        *length = bytes ? fread(bytes, 1, size, file) : 0;
    }
    if (file)
        fclose(file);
    return bytes;
}

bool script_is_text(const char *path) {
    size_t length = 0;
    char *bytes = script_read_bytes(path, 1024, &length);
    bool text = bytes && length;
    for (size_t i = 0; text && i < length && bytes[i] != '\n'; i++)
        text = (unsigned char)bytes[i] >= ' ' ? bytes[i] != '\177'
                                              : strchr("\t\r\f\v\033", bytes[i]) && bytes[i];
    free(bytes);
    return text;
}

bool script_first_line(const char *path, char interpreter[SCRIPT_LINE],
                       char argument[SCRIPT_LINE]) {
    char line[SCRIPT_LINE] = "";
    size_t length = 0;
    char *bytes = script_read_bytes(path, SCRIPT_LINE - 1, &length);
    if (bytes)
        memcpy(line, bytes, length);
    free(bytes);
    *interpreter = *argument = '\0';
    if (strncmp(line, "#!", 2) != 0)
        return false;
    line[strcspn(line, "\n")] = '\0';
    for (size_t end = strlen(line); end && strchr(" \t", line[end - 1]); end--)
        line[end - 1] = '\0';
    const char *start = line + 2 + strspn(line + 2, " \t");
    length = strcspn(start, " \t");
    memcpy(interpreter, start, length);
    interpreter[length] = '\0';
    start += length + strspn(start + length, " \t");
    memcpy(argument, start, strlen(start) + 1);
    return true;
}

struct script script_read(const char *path) {
    size_t length = 0;
    char *bytes = script_read_bytes(path, TEXT_MAX, &length);
    struct script script = script_read_text(bytes ? bytes : "", bytes ? length : 0);
    free(bytes);
    return script;
}

struct script script_read_text(const char *bytes, size_t length) {
    struct script script = {.interpreter = NULL};
    length = length < TEXT_MAX ? length : TEXT_MAX;
    char *text = malloc(2 * length + 2);
    if (text) {
        memcpy(text, bytes, length);
        for (size_t i = 0; i < length; i++)
            text[i] = text[i] ? text[i] : ' ';
        text[length] = '\0';
        /* Once as it is, for names of files, and once for names of modules. */
        memcpy(text + length + 1, text, length + 1);
        split_dots(text + length + 1);
        char *first = text;
        if (strncmp(text, "#!", 2) == 0) {
            first = text + strcspn(text, "\n");
            bool more = *first == '\n';
            *first = '\0';
            script.interpreter = read_interpreter(text + 2);
            first += more;
        }
        text[length] = '\n';
        read_words(&script, first);
    }
    if (!script.interpreter)
        script.interpreter = strdup("");
    free(text);
    return script;
}

void script_free(struct script *script) {
    for (size_t i = 0; i < script->word_count; i++)
        free(script->words[i]);
    free(script->words);
    free(script->interpreter);
    *script = (struct script){.interpreter = NULL};
}
