// SPDX-License-Identifier: Apache-2.0
#include "base/openmetrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// ---- lines --------------------------------------------------------------------------------------

static const char *get_ending(const struct ct_openmetrics_family *f) {
    if (strcmp(f->type, "counter") == 0)
        return "_total";
    return strcmp(f->type, "info") == 0 ? "_info" : "";
}

static void put_family(const struct ct_openmetrics *m, const struct ct_openmetrics_family *f) {
    fprintf(m->out, "%s%s%s", f->name, *f->unit ? "_" : "", f->unit);
}

void ct_openmetrics_put_name(const struct ct_openmetrics *m,
                             const struct ct_openmetrics_family *f) {
    put_family(m, f);
    fputs(get_ending(f), m->out);
}

// In OpenMetrics a family is named without the ending, in 0.0.4 each name is a family.
static void put_line(const struct ct_openmetrics *m, const char *word,
                     const struct ct_openmetrics_family *f, const char *text) {
    fprintf(m->out, "# %s ", word);
    if (m->is_prometheus)
        ct_openmetrics_put_name(m, f);
    else
        put_family(m, f);
    fprintf(m->out, " %s\n", text);
}

void ct_openmetrics_begin(const struct ct_openmetrics *m, const struct ct_openmetrics_family *f) {
    const int is_info = strcmp(f->type, "info") == 0;
    put_line(m, "TYPE", f, m->is_prometheus && is_info ? "gauge" : f->type);
    if (*f->unit && !m->is_prometheus)
        put_line(m, "UNIT", f, f->unit);
    put_line(m, "HELP", f, f->help);
}

void ct_openmetrics_put_text(const struct ct_openmetrics *m, const char *text) {
    for (const char *c = text; *c; c++) {
        if (*c == '"' || *c == '\\')
            putc('\\', m->out);
        putc(*c, m->out);
    }
}

void ct_openmetrics_put_number(const struct ct_openmetrics *m, uint64_t value) {
    fprintf(m->out, " %" PRIu64 "%s\n", value, m->time);
}

void ct_openmetrics_put_seconds(const struct ct_openmetrics *m, uint64_t ns) {
    fprintf(m->out, " %" PRIu64 ".%09u%s\n", ns / 1000000000, (unsigned)(ns % 1000000000), m->time);
}

void ct_openmetrics_end(const struct ct_openmetrics *m) {
    if (!m->is_prometheus)
        fputs("# EOF\n", m->out);
}

// ---- labels -------------------------------------------------------------------------------------

// The digits after label=" that a quote ends.
static void copy_digits(const char *from, char *to) {
    const size_t n = strspn(from, "0123456789");
    if (n && n <= CT_METRIC_LABEL_DIGITS && from[n] == '"')
        (void)snprintf(to, CT_METRIC_LABEL_DIGITS + 1, "%.*s", (int)n, from);
}

// Values can have any letter, so that a name counts only where a label begins.
void ct_metric_label_copy(const char *labels, const char *label,
                          char to[CT_METRIC_LABEL_DIGITS + 1]) {
    const size_t n = strlen(label);
    int in_value = 0, begins = 1;
    *to = 0;
    for (const char *p = labels; *p; p++) {
        if (!in_value && begins && strncmp(p, label, n) == 0 && p[n] == '=' && p[n + 1] == '"') {
            copy_digits(p + n + 2, to);
            return;
        }
        begins = !in_value && *p == ',';
        if (in_value && *p == '\\' && p[1])
            p++;
        else if (*p == '"')
            in_value = !in_value;
    }
}
