// SPDX-License-Identifier: Apache-2.0
#include "text/metrics.h"

#include <string.h>

#include "base/heap.h"
#include "base/openmetrics.h"

#define MILLION 1000000
#define SECOND UINT64_C(1000000000)
#define MOST (INT64_C(1) << 60)

static const struct {
    enum ct_metric field;
    const char *name;
} names[] = {
#define CT_METRIC(FIELD, name) {CT_METRIC_##FIELD, name},
#include "base/metrics.def"
};

static const struct {
    enum ct_metric field;
    const char *name, *label;
} labels[] = {
#define CT_METRIC_LABEL(FIELD, name, label) {CT_METRIC_##FIELD, name, label},
#include "base/metrics.def"
};

static int is_share(enum ct_metric field) {
    return field == CT_METRIC_USAGE || field == CT_METRIC_HIT_RATE;
}

// ---- numbers ------------------------------------------------------------------------------------

// A decimal number, with an exponent or without, in units of 1 / `unit`; -1: it is none, or
// negative.
static int64_t parse_number(const char *p, int64_t unit) {
    char *end;
    const double v = strtod(p, &end);
    if (end == p || !(v >= 0))
        return -1;
    const double scaled = v * (double)unit + 0.5;
    return scaled < (double)MOST ? (int64_t)scaled : MOST;
}

// "1763830577.123456789": a double has not enough digits for nanoseconds.
static uint64_t parse_seconds(const char *p) {
    uint64_t seconds = 0, ns = 0, unit = SECOND;
    for (; *p >= '0' && *p <= '9'; p++)
        seconds =
            seconds < UINT64_MAX / SECOND / 10 ? seconds * 10 + (uint64_t)(*p - '0') : seconds;
    if (*p == '.')
        for (p++; *p >= '0' && *p <= '9' && unit > 1; p++)
            ns += (uint64_t)(*p - '0') * (unit /= 10);
    return seconds * SECOND + ns;
}

// ---- scrapes ------------------------------------------------------------------------------------

static void clear(struct ct_scrape *s) {
    *s = (struct ct_scrape){0};
    for (int i = 0; i < CT_METRIC_FIELDS; i++)
        s->values[i] = -1;
}

static void merge(struct ct_scrape *to, const struct ct_scrape *from) {
    for (int i = 0; i < CT_METRIC_FIELDS; i++)
        if (from->values[i] > to->values[i])
            to->values[i] = from->values[i];
}

// Makes one of each two neighbours.
static void halve(struct ct_metrics *m) {
    for (uint32_t i = 0; i < m->count / 2; i++) {
        m->list[i] = m->list[2 * i];
        merge(&m->list[i], &m->list[2 * i + 1]);
    }
    m->count /= 2;
    m->merged *= 2;
}

static void add(struct ct_metrics *m, const struct ct_scrape *s) {
    m->scrapes++;
    if (m->pending && m->pending < m->merged) {
        merge(&m->list[m->count - 1], s);
        m->pending++;
        return;
    }
    if (m->count == CT_SCRAPES)
        halve(m);
    m->list[m->count++] = *s;
    m->pending = 1;
}

static int has_values(const struct ct_scrape *s) {
    for (int i = 0; i < CT_METRIC_FIELDS; i++)
        if (s->values[i] >= 0)
            return 1;
    return 0;
}

// Takes the numbers of labels that are values. Returns 0 if the metric has none.
static int read_labels(struct ct_scrape *s, const char *line, size_t n) {
    char number[CT_METRIC_LABEL_DIGITS + 1];
    int any = 0;
    for (size_t i = 0; i < sizeof labels / sizeof *labels; i++) {
        if (strlen(labels[i].name) != n || strncmp(line, labels[i].name, n) != 0)
            continue;
        any = 1;
        if (line[n] == '{')
            ct_metric_label_copy(line + n + 1, labels[i].label, number);
        const int64_t v = line[n] == '{' ? parse_number(number, MILLION) : -1;
        int64_t *to = &s->values[labels[i].field];
        *to = v > *to ? v : *to;
    }
    return any;
}

// Adds a line "name{labels} value" to a scrape.
static void read_sample(struct ct_scrape *s, const char *line) {
    const size_t n = strcspn(line, "{ ");
    const char *value = line + n;
    if (read_labels(s, line, n))
        return;
    if (*value == '{') {
        value = strrchr(line, '}'); // (labels may have any letter)
        if (!value)
            return;
        value++;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strlen(names[i].name) != n || strncmp(line, names[i].name, n) != 0)
            continue;
        const int64_t v = parse_number(value, MILLION);
        int64_t *to = &s->values[names[i].field];
        if (v < 0)
            return;
        if (*to < 0 || is_share(names[i].field))
            *to = v > *to ? v : *to;
        else
            *to = *to < MOST ? *to + v : MOST;
        return;
    }
}

int ct_metrics_read(FILE *in, struct ct_metrics *m) {
    static const char mark[] = "# scraped ";
    char line[4096]; // (of a longer line only the begin can be of interest: its rest has no name)
    struct ct_scrape s;
    *m = (struct ct_metrics){.merged = 1};
    m->list = ct_heap_alloc_zeroed(CT_SCRAPES, sizeof *m->list);
    clear(&s);
    while (fgets(line, sizeof line, in)) {
        if (strncmp(line, mark, sizeof mark - 1) != 0) {
            read_sample(&s, line);
            continue;
        }
        if (has_values(&s))
            add(m, &s);
        clear(&s);
        s.utc_ns = parse_seconds(line + sizeof mark - 1);
    }
    if (has_values(&s))
        add(m, &s);
    return ferror(in) ? -1 : 0;
}

void ct_metrics_free(struct ct_metrics *m) {
    free(m->list);
    *m = (struct ct_metrics){0};
}

// ---- questions ----------------------------------------------------------------------------------

int64_t ct_metrics_max(const struct ct_metrics *m, enum ct_metric field, uint32_t *at) {
    int64_t most = -1;
    for (uint32_t i = 0; i < m->count; i++)
        if (m->list[i].values[field] > most) {
            most = m->list[i].values[field];
            if (at)
                *at = i;
        }
    return most;
}

int64_t ct_metrics_growth(const struct ct_metrics *m, enum ct_metric field, uint32_t from,
                          uint32_t to) {
    int64_t last = -1, grown = -1;
    for (uint32_t i = from; i < to && i < m->count; i++) {
        const int64_t v = m->list[i].values[field];
        if (v < 0)
            continue;
        if (last >= 0) {
            const int64_t more = v >= last ? v - last : v;
            grown = grown < 0 ? more : grown < MOST ? grown + more : MOST;
        }
        last = v;
    }
    return grown;
}
