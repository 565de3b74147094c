// SPDX-License-Identifier: Apache-2.0
#include "run/metrics_filter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {
#define CT_METRIC(FIELD, name) name,
#include "base/metrics.def"
};

enum { ENGINE_DIGITS = 6, VALUE_LETTERS = 40 };

static int is_kept(const char *line, size_t n) {
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == n && memcmp(line, names[i], n) == 0)
            return 1;
    return 0;
}

// The number in engine="0" of labels, which tells the engines of one server apart; "" if there is
// none. Values can have any letter, so that a name counts only where a label begins.
static void copy_engine(const char *labels, char *to) {
    static const char key[] = "engine=\"";
    int in_value = 0;
    *to = 0;
    for (const char *p = labels; *p; p++) {
        if (!in_value && (p[-1] == '{' || p[-1] == ',') && strncmp(p, key, sizeof key - 1) == 0) {
            const char *number = p + sizeof key - 1;
            const size_t n = strspn(number, "0123456789");
            if (n && n <= ENGINE_DIGITS && number[n] == '"')
                (void)snprintf(to, ENGINE_DIGITS + 1, "%.*s", (int)n, number);
            return;
        }
        if (in_value && *p == '\\' && p[1])
            p++;
        else if (*p == '"')
            in_value = !in_value;
    }
}

// A value as it stands there, if it is a number.
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
    char engine[ENGINE_DIGITS + 1] = "", value[VALUE_LETTERS];
    char kept[200];
    f->line[f->line_length] = 0;
    const char *at = f->line + strcspn(f->line, "{ ");
    const size_t name = (size_t)(at - f->line);
    const int usable = !f->line_is_cut && is_kept(f->line, name);
    f->line_length = 0;
    f->line_is_cut = 0;
    if (!usable)
        return;
    if (*at == '{') {
        copy_engine(at + 1, engine);
        at = strrchr(at, '}');
        if (!at++)
            return;
    }
    if (!copy_value(at, value))
        return;
    const int n = snprintf(kept, sizeof kept, *engine ? "%.*s{engine=\"%s\"} %s\n" : "%.*s%s %s\n",
                           (int)name, f->line, engine, value);
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
