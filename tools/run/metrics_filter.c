// SPDX-License-Identifier: Apache-2.0
#include "run/metrics_filter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/openmetrics.h"

static const char *const names[] = {
#define CT_METRIC(FIELD, name) name,
#include "base/metrics.def"
};

// The labels that are kept: numbers that tell the engines of one server apart, and the size of the
// KV cache.
static const struct {
    const char *of, *label; // of: NULL: of any metric
} labels[] = {
    {NULL, "engine"},
#define CT_METRIC_LABEL(FIELD, name, label) {name, label},
#include "base/metrics.def"
};

enum { VALUE_LETTERS = 40, LABELS_LETTERS = 160 };

static int is_name(const char *name, const char *line, size_t n) {
    return strlen(name) == n && memcmp(line, name, n) == 0;
}

static int is_kept(const char *line, size_t n) {
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (is_name(names[i], line, n))
            return 1;
    for (size_t i = 1; i < sizeof labels / sizeof *labels; i++)
        if (is_name(labels[i].of, line, n))
            return 1;
    return 0;
}

// Copies the labels that are kept: {engine="0"}; "" if there is none.
static void copy_labels(const char *line, size_t name, char to[LABELS_LETTERS]) {
    char number[CT_METRIC_LABEL_DIGITS + 1];
    size_t n = 0;
    *to = 0;
    for (size_t i = 0; i < sizeof labels / sizeof *labels; i++) {
        if (labels[i].of && !is_name(labels[i].of, line, name))
            continue;
        ct_metric_label_copy(line + name + 1, labels[i].label, number);
        if (!*number)
            continue;
        const int more = snprintf(to + n, LABELS_LETTERS - n, "%s%s=\"%s\"", n ? "," : "{",
                                  labels[i].label, number);
        n += more > 0 && (size_t)more < LABELS_LETTERS - n - 1 ? (size_t)more : 0;
    }
    to[n] = n ? '}' : 0;
    to[n + (n != 0)] = 0;
}

// The text of a value, if it is a number.
static int copy_value(const char *from, char *to) {
    char *end;
    const size_t blanks = strspn(from, " \t"), n = strspn(from + blanks, "+-.0123456789eE");
    if (!n || n >= VALUE_LETTERS)
        return 0;
    (void)snprintf(to, VALUE_LETTERS, "%.*s", (int)n, from + blanks);
    (void)strtod(to, &end);
    return !*end;
}

static void end_line(struct ct_metrics_filter *f) {
    char kept_labels[LABELS_LETTERS] = "", value[VALUE_LETTERS];
    char kept[CT_FILTER_SAMPLE];
    f->line[f->line_length] = 0;
    const char *at = f->line + strcspn(f->line, "{ ");
    const size_t name = (size_t)(at - f->line);
    const int usable = !f->line_is_cut && is_kept(f->line, name);
    f->line_length = 0;
    f->line_is_cut = 0;
    if (!usable)
        return;
    if (*at == '{') {
        copy_labels(f->line, name, kept_labels);
        at = strrchr(at, '}');
        if (!at++)
            return;
    }
    if (!copy_value(at, value))
        return;
    const int n =
        snprintf(kept, sizeof kept, "%.*s%s %s\n", (int)name, f->line, kept_labels, value);
    if (n > 0 && (size_t)n < sizeof kept && (size_t)n <= sizeof f->kept - f->kept_length) {
        memcpy(f->kept + f->kept_length, kept, (size_t)n);
        f->kept_length += (size_t)n;
    }
}

void ct_metrics_filter_begin(struct ct_metrics_filter *f) {
    f->line_length = f->kept_length = 0;
    f->line_is_cut = 0;
}

void ct_metrics_filter_add(struct ct_metrics_filter *f, const char *bytes, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] == '\n')
            end_line(f);
        else if (f->line_length + 1 < sizeof f->line)
            f->line[f->line_length++] = bytes[i];
        else
            f->line_is_cut = 1;
    }
}

void ct_metrics_filter_end(struct ct_metrics_filter *f) {
    end_line(f);
}
