// SPDX-License-Identifier: Apache-2.0
// What cutrace doctor finds: a list, printed as lines or as JSON.
#ifndef CT_FINDINGS_H
#define CT_FINDINGS_H

#include <stdio.h>

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

#endif
