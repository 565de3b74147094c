// SPDX-License-Identifier: Apache-2.0
#include "run/inspect.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/utf8.h"

static const char *const levels[] = {"ok", "warn", "fail"};

void ct_findings_add(struct ct_findings *f, enum ct_finding_level level, const char *check,
                     const char *remedy, const char *reason, ...) {
    va_list args;
    char *text = NULL;
    va_start(args, reason);
    if (f->count < CT_FINDINGS_MOST && vasprintf(&text, reason, args) >= 0)
        f->list[f->count++] = (struct ct_finding){level, check, text, remedy};
    va_end(args);
}

int ct_findings_work(const struct ct_findings *f) {
    for (int i = 0; i < f->count; i++)
        if (f->list[i].level == CT_FINDING_FAIL)
            return 0;
    return 1;
}

void ct_findings_print(const struct ct_findings *f, FILE *out) {
    for (int i = 0; i < f->count; i++) {
        const struct ct_finding *one = &f->list[i];
        fprintf(out, "%-4s  ", levels[one->level]);
        ct_utf8_print_sanitized(out, one->reason, strlen(one->reason));
        fprintf(out, "%s%s\n", one->remedy ? " -> " : "", one->remedy ? one->remedy : "");
    }
    fputs(ct_findings_work(f) ? "tracing will work, as far as can be seen from here\n"
                              : "tracing will not work\n",
          out);
}

void ct_findings_print_json(const struct ct_findings *f, FILE *out) {
    struct ct_json j = {.out = out};
    ct_json_open(&j, NULL, '{');
    ct_json_text(&j, "schema", "cutrace.doctor/1");
    ct_json_bool(&j, "works", ct_findings_work(f));
    ct_json_open(&j, "findings", '[');
    for (int i = 0; i < f->count; i++) {
        ct_json_open(&j, NULL, '{');
        ct_json_text(&j, "level", levels[f->list[i].level]);
        ct_json_text(&j, "check", f->list[i].check);
        ct_json_bytes(&j, "reason", f->list[i].reason, strlen(f->list[i].reason));
        ct_json_text_or_null(&j, "remedy", f->list[i].remedy);
        ct_json_close(&j, '}');
    }
    ct_json_close(&j, ']');
    ct_json_close(&j, '}');
    ct_json_end_line(&j);
}

void ct_findings_free(struct ct_findings *f) {
    for (int i = 0; i < f->count; i++)
        free(f->list[i].reason);
    f->count = 0;
}
