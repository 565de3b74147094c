// SPDX-License-Identifier: Apache-2.0
// Makes the manual pages and the completion of shells from the tables of commands and options. Runs
// when cutrace is built: make-manual WHAT >FILE
#include <stdio.h>
#include <string.h>

#include "manual/generate.h"

static const struct {
    const char *name;
    void (*generate)(void);
} outputs[] = {{"cutrace.1", ct_generate_cutrace_1},
               {"cutrace-report.1", ct_generate_cutrace_report_1},
               {"cutrace-trace.5", ct_generate_cutrace_trace_5},
               {"cutrace.bash", ct_generate_bash},
               {"_cutrace", ct_generate_zsh}};

int main(int argc, char **argv) {
    for (size_t i = 0; argc == 2 && i < sizeof outputs / sizeof *outputs; i++)
        if (strcmp(outputs[i].name, argv[1]) == 0) {
            outputs[i].generate();
            return fflush(stdout) != 0;
        }
    fputs("usage: make-manual cutrace.1|cutrace-report.1|cutrace-trace.5|cutrace.bash|_cutrace\n",
          stderr);
    return 2;
}
