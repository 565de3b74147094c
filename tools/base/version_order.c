// SPDX-License-Identifier: Apache-2.0
// The order of versions of Python packages (PEP 440).
#include "base/version_order.h"

#include <stddef.h>
#include <stdint.h>
#include <strings.h>

enum { NUMBERS = 8, LABEL_ABSENT = -1 };

// What precedes a release (alphas, betas, candidates) sorts below it; `phase` is 3 for the release
// itself. A development release sorts below what it leads to: `dev` is UINT64_MAX for none.
struct version {
    uint64_t epoch;
    uint64_t number[NUMBERS]; // missing ones are 0: 0.29 = 0.29.0
    int phase;                // 0 a, 1 b, 2 rc, 3: the release, or only a development release of it
    uint64_t pre;
    int64_t post; // LABEL_ABSENT: none
    uint64_t dev;
};

// Reads decimal digits; more than 64 bits hold are the highest number. Returns how many there are.
static size_t read_number(const char *at, uint64_t *number) {
    size_t n = 0;
    *number = 0;
    for (; at[n] >= '0' && at[n] <= '9'; n++)
        if (__builtin_mul_overflow(*number, 10u, number) ||
            __builtin_add_overflow(*number, (uint64_t)(at[n] - '0'), number))
            *number = INT64_MAX;
    return n;
}

static const char *skip_separator(const char *at) {
    return at + (*at == '.' || *at == '-' || *at == '_');
}

// Reads one of the labels, with a separator around it and its number (0 if it has none). Returns
// what follows it, or NULL; *which: the label's place in the list.
static const char *read_label(const char *at, const char *const *labels, int *which,
                              uint64_t *number) {
    at = skip_separator(at);
    for (int i = 0; labels[i]; i++) {
        size_t n = 0;
        while (labels[i][n] && (at[n] | 0x20) == labels[i][n])
            n++;
        if (labels[i][n])
            continue;
        *which = i;
        const char *digits = skip_separator(at + n);
        const size_t length = read_number(digits, number);
        return length ? digits + length : at + n;
    }
    return NULL;
}

static const char *read_release(const char *at, struct version *v) {
    at += *at == 'v' || *at == 'V';
    size_t n = read_number(at, &v->number[0]);
    if (n && at[n] == '!') {
        v->epoch = v->number[0];
        at += n + 1;
        n = read_number(at, &v->number[0]);
    }
    if (!n)
        return NULL;
    at += n;
    for (int i = 1; *at == '.' && at[1] >= '0' && at[1] <= '9'; i++) {
        uint64_t number;
        at += 1 + read_number(at + 1, &number);
        if (i < NUMBERS)
            v->number[i] = number;
    }
    return at;
}

// Returns 0, or -1.
static int parse(const char *text, struct version *v) {
    // Longer names of a label come before those that they begin with.
    static const char *const pre[] = {"alpha", "beta", "preview", "pre", "rc", "a", "b", "c", NULL};
    static const int phases[] = {0, 1, 2, 2, 2, 0, 1, 2};
    static const char *const post[] = {"post", "rev", "r", NULL}, *const dev[] = {"dev", NULL};
    int which;
    uint64_t number;
    *v = (struct version){.phase = 3, .post = LABEL_ABSENT, .dev = UINT64_MAX};
    const char *at = read_release(text, v), *next;
    if (!at)
        return -1;
    if ((next = read_label(at, pre, &which, &v->pre))) {
        v->phase = phases[which];
        at = next;
    }
    if ((next = read_label(at, post, &which, &number))) {
        v->post = (int64_t)(number & INT64_MAX);
        at = next;
    }
    if ((next = read_label(at, dev, &which, &v->dev)))
        at = next;
    return *at && *at != '+' ? -1 : 0;
}

static int compare(uint64_t a, uint64_t b) {
    return (a > b) - (a < b);
}

// Whether it is a development release of the release itself, which sorts below its candidates.
static int is_before_all(const struct version *v) {
    return v->phase == 3 && v->post == LABEL_ABSENT && v->dev != UINT64_MAX;
}

int ct_version_order(const char *a, const char *b, int *order) {
    struct version x, y;
    if (parse(a, &x) || parse(b, &y))
        return -1;
    int c = compare(x.epoch, y.epoch);
    for (int i = 0; i < NUMBERS && !c; i++)
        c = compare(x.number[i], y.number[i]);
    if (!c)
        c = is_before_all(&y) - is_before_all(&x);
    if (!c)
        c = x.phase - y.phase;
    if (!c)
        c = compare(x.pre, y.pre);
    if (!c)
        c = (x.post > y.post) - (x.post < y.post);
    *order = c ? c : compare(x.dev, y.dev);
    return 0;
}
