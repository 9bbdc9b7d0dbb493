/* What the doctor checks of a shell that is started: its options say what it runs, if anything. */
#include "cli/doctor/checks.h"
#include "cli/doctor/script.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool shell_is(const char *path) {
    static const char *const names[] = {"sh", "bash", "dash", "zsh", "ksh", "ash", "rbash"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(base_name(path), names[i]) == 0)
            return true;
    return false;
}

static void check_shell_file(struct doctor *doctor, const char *name, char *const *parameters) {
    char folder[PATH_MAX];
    char *path = access(name, R_OK) == 0 ? strdup(name) : script_find_program(name);
    size_t length = 0;
    char *text = path ? script_read_bytes(path, 1 << 20, &length) : NULL;
    if (!path) {
        findings_add(&doctor->findings, "missing", SEVERITY_PROBLEM, "%s: there is no such script",
                     name);
        findings_remedy(&doctor->findings, "give the path of a script");
    } else if (!text) {
        doctor_doubt(doctor, "%s cannot be read", name);
    } else if (!script_is_text(path)) {
        findings_add(&doctor->findings, "not-elf", SEVERITY_PROBLEM, "%s is no text for a shell",
                     name);
        findings_remedy(&doctor->findings, "start the program itself, without a shell before it");
    } else {
        text[length] = '\0';
        snprintf(folder, sizeof folder, "%s", path);
        char *slash = strrchr(folder, '/');
        if (slash)
            slash[slash == folder] = '\0';
        check_shell_text(doctor, name, slash ? folder : ".", text, parameters);
    }
    free(text);
    free(path);
}

void check_shell(struct doctor *doctor, const char *name, char *const *arguments) {
    bool has_text = false, from_input = false;
    for (; arguments && *arguments && strchr("-+", **arguments) && (*arguments)[1]; arguments++) {
        const char *letters = *arguments + 1;
        if (*letters == '-') {
            bool takes = strcmp(letters, "-rcfile") == 0 || strcmp(letters, "-init-file") == 0;
            if (strcmp(letters, "-") == 0) {
                arguments++;
                break;
            }
            arguments += takes && arguments[1];
            continue;
        }
        /* Nothing is run, only read. */
        if (**arguments == '-' && strchr(letters, 'n'))
            return;
        has_text = has_text || (**arguments == '-' && strchr(letters, 'c'));
        from_input = from_input || strchr(letters, 's');
        if (strpbrk(letters, "oO") && arguments[1]) {
            arguments++;
            if (strcmp(*arguments, "noexec") == 0)
                return;
        }
    }
    if (has_text && arguments && *arguments)
        check_shell_text(doctor, "the command behind -c", ".", *arguments,
                         arguments[1] ? arguments + 2 : arguments + 1);
    else if (arguments && *arguments && !from_input)
        check_shell_file(doctor, *arguments, arguments + 1);
    else
        doctor_doubt(doctor, "%s is given no script: what it runs is typed or comes through a pipe",
                     name);
}
