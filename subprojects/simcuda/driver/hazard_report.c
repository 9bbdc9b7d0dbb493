#include "hazard_report.h"

#include "report.h"

#include <dlfcn.h>
#include <stdio.h>

static void describe_site(char *text, size_t size, uintptr_t site) {
    Dl_info info;

    if (site == 0)
        snprintf(text, size, "unknown");
    else if (dladdr((void *)site, &info) != 0 && info.dli_fname != NULL)
        snprintf(text, size, "%s+0x%lx", info.dli_fname,
                 (unsigned long)(site - (uintptr_t)info.dli_fbase));
    else
        snprintf(text, size, "0x%lx", (unsigned long)site);
}

void hazard_report(const struct hazard_text *hazard) {
    char old_text[512], new_text[512], old_end[512], line[2048];

    describe_site(old_text, sizeof old_text, hazard->old_begin);
    describe_site(old_end, sizeof old_end, hazard->old_end);
    describe_site(new_text, sizeof new_text, hazard->new_begin);
    snprintf(line, sizeof line,
             "%s: %s on [0x%llx, 0x%llx) is not ordered after %s of the former owner; former owner "
             "allocated at %s, freed at %s; new owner allocated at %s",
             hazard->kind, hazard->new_name, (unsigned long long)hazard->begin,
             (unsigned long long)hazard->end, hazard->old_name, old_text, old_end, new_text);
    report_hazard(line);
}
