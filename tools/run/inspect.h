// SPDX-License-Identifier: Apache-2.0
// What cutrace doctor looks at: whether the loader will preload the library into a program, and
// what tracing needs besides.
#ifndef CT_INSPECT_H
#define CT_INSPECT_H

#include <stdio.h>

// ---- what is found (findings.c) -----------------------------------------------------------------

// A list, printed as lines or as JSON.

enum ct_finding_level { CT_FINDING_OK, CT_FINDING_WARN, CT_FINDING_FAIL };

enum { CT_FINDINGS_MOST = 64 };

struct ct_findings {
    struct ct_finding {
        enum ct_finding_level level;
        const char *check;  // a word for machines: "linking"
        char *reason;       // allocated; any bytes
        const char *remedy; // or NULL
    } list[CT_FINDINGS_MOST];
    int count;
};

__attribute__((format(printf, 5, 6))) void ct_findings_add(struct ct_findings *f,
                                                           enum ct_finding_level level,
                                                           const char *check, const char *remedy,
                                                           const char *reason, ...);
// Whether no finding says that tracing will not work.
int ct_findings_work(const struct ct_findings *f);
void ct_findings_print(const struct ct_findings *f, FILE *out);
void ct_findings_print_json(const struct ct_findings *f, FILE *out);
void ct_findings_free(struct ct_findings *f);

// ---- the program (inspect_program.c) ------------------------------------------------------------

// `command` is NULL-terminated. Follows scripts to their interpreters, and commands that start
// another one (wrappers.def) to that.
void ct_inspect_command(struct ct_findings *f, char *const *command);
// One file: `name` stands for it in the findings.
void ct_inspect_program(struct ct_findings *f, const char *path, const char *name);

// ---- the library, the driver, a place for the traces (inspect_system.c) -------------------------

void ct_inspect_library(struct ct_findings *f);
void ct_inspect_environment(struct ct_findings *f);
// `pattern`: of --output, or NULL.
void ct_inspect_output(struct ct_findings *f, const char *pattern);
// Loads the driver's library in a process of its own; CUDA is not initialised.
void ct_inspect_driver(struct ct_findings *f);
// A process that runs.
void ct_inspect_process(struct ct_findings *f, unsigned long pid);

#endif
