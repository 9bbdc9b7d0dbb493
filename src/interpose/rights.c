#include "interpose/rights.h"

#include "base/auxiliary.h"
#include "options/options.h"

static bool lent;

static void take_out_files(char **environment) {
    char **kept = environment;
    for (char **entry = environment; *entry; entry++)
        if (!options_names_file(*entry))
            *kept++ = *entry;
    *kept = NULL;
}

void rights_take(int argc, char **argv) {
    lent = argv && auxiliary_value(argc, argv, AT_SECURE);
    if (lent)
        take_out_files(argv + argc + 1);
}

bool rights_are_lent(void) {
    return lent;
}
