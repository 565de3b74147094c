// SPDX-License-Identifier: Apache-2.0
#include "cli/fail_on.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"

enum { WORD = 40 };

static const struct {
    const char *name;
    int has_bound;
    const char *form; // how it is written
} kinds[] = {
    [CT_FAIL_OOM] = {"oom", 0, "oom"},
    [CT_FAIL_PEAK] = {"peak", 1, "peak>20GiB, in diff also peak>+1GiB or peak>+5%"},
    [CT_FAIL_GROWTH] = {"growth", 1, "growth>1GiB/h, in diff also growth>+1GiB/h or growth>+5%"},
    [CT_FAIL_FRAG] = {"frag", 1, "frag>30%, in diff also frag>+5% (points)"},
    [CT_FAIL_LOST] = {"lost", 0, "lost"},
};

enum { KINDS = sizeof kinds / sizeof *kinds };

static int refuse(struct ct_fail_on *f, const char *word, const char *why) {
    (void)snprintf(f->reason, sizeof f->reason, "\"%.40s\": %.140s", word, why);
    return -1;
}

// A number of percent with at most two decimals, in hundredths.
static int parse_share(const char *text, uint64_t *share) {
    char *end;
    if (*text < '0' || *text > '9' || strlen(text) > 12)
        return -1;
    *share = strtoul(text, &end, 10) * 100;
    if (*end == '.') {
        const char *digits = end + 1;
        const size_t n = strspn(digits, "0123456789");
        if (!n || n > 2)
            return -1;
        *share += strtoul(digits, &end, 10) * (n == 1 ? 10 : 1);
    }
    return strcmp(end, "%") == 0 || !*end ? 0 : -1;
}

static int parse_size(struct ct_fail_on *f, struct ct_fail_condition *c, char *word, char *bound) {
    struct ct_parsed_size size;
    char *hour = strstr(bound, "/h");
    const int is_growth = c->kind == CT_FAIL_GROWTH;
    if (is_growth != (hour && !hour[2]))
        return refuse(f, word,
                      is_growth ? "growth is a size in an hour: growth>1GiB/h"
                                : kinds[c->kind].form);
    if (hour)
        *hour = 0;
    const enum ct_parse_result result = ct_parse_size(bound, &size);
    if (hour)
        *hour = '/';
    if (result == CT_PARSE_NO_UNIT)
        return refuse(f, word, "a size needs its unit: 20GiB, 20GB or 20B");
    if (result != CT_PARSE_OK)
        return refuse(f, word, kinds[c->kind].form);
    c->bytes = size.bytes;
    return 0;
}

static int parse_bound(struct ct_fail_on *f, struct ct_fail_condition *c, char *word, char *bound) {
    const size_t n = strlen(bound);
    c->is_change = *bound == '+';
    bound += c->is_change;
    c->is_share = c->kind == CT_FAIL_FRAG || (n && word[strlen(word) - 1] == '%');
    if (!c->is_share)
        return parse_size(f, c, word, bound);
    if (c->kind != CT_FAIL_FRAG && !c->is_change)
        return refuse(f, word, "a share is one of A's figure: write + before it, as in peak>+5%");
    if (parse_share(bound, &c->share) || (c->kind == CT_FAIL_FRAG && c->share > 10000))
        return refuse(f, word, kinds[c->kind].form);
    return 0;
}

static int parse_condition(struct ct_fail_on *f, struct ct_fail_condition *c, char *word) {
    char *bound = strchr(word, '>');
    const size_t n = bound ? (size_t)(bound - word) : strlen(word);
    for (int k = 0; k < KINDS; k++) {
        if (strlen(kinds[k].name) != n || strncmp(kinds[k].name, word, n) != 0)
            continue;
        c->kind = (enum ct_fail_kind)k;
        if (!kinds[k].has_bound != !bound)
            return refuse(f, word, kinds[k].form);
        return bound ? parse_bound(f, c, word, bound + 1) : 0;
    }
    return refuse(f, word, "expected oom, peak>SIZE, growth>SIZE/h, frag>PERCENT or lost");
}

int ct_fail_on_parse(struct ct_fail_on *f, const char *text) {
    f->count = 0;
    for (;;) {
        const size_t n = strcspn(text, ",");
        struct ct_fail_condition c = {.text = text, .length = (unsigned)n};
        char word[WORD];
        if (n >= sizeof word)
            return refuse(f, text, "no condition is so long");
        memcpy(word, text, n);
        word[n] = 0;
        if (f->count == CT_FAIL_ON_MOST)
            return refuse(f, word, "too many conditions");
        if (parse_condition(f, &c, word))
            return -1;
        f->list[f->count++] = c;
        if (!text[n])
            return 0;
        text += n + 1;
    }
}

int ct_fail_on_has_change(const struct ct_fail_on *f) {
    for (unsigned i = 0; i < f->count; i++)
        if (f->list[i].is_change)
            return 1;
    return 0;
}
