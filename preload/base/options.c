// SPDX-License-Identifier: Apache-2.0
// The options of the recorder: parses the environment variables CUTRACE_* of options.def.
#include "base/options.h"

#include <string.h>
#include <strings.h>

#include "base/min.h"
#include "base/pages.h"
#include "base/print.h"

enum type { TEXT, SWITCH, NUMBER, SIZE, MS, STACKS_OF, ARGV_OF, BACKEND_OF };

static const struct {
    const char *name, *text, *help;
    enum type type;
    uint64_t lowest, highest;
} rows[CT_OPTIONS] = {
#define CT_OPTION(NAME, TYPE, text, lowest, highest, help) \
    {#NAME, text, help, TYPE, lowest, highest},
#include <cutrace/format/options.def>
};

enum {
    IN_HELP = 0 // the first rows
#define CT_OPTION(NAME, TYPE, text, lowest, highest, help) +1
#define CT_INTERNAL(NAME, TYPE, text, lowest, highest, help)
#include <cutrace/format/options.def>
};

static const struct {
    enum type list; // STACKS_OF, ARGV_OF or BACKEND_OF
    unsigned value;
    const char *text;
} choices[] = {
#define CT_CHOICE(LIST, VALUE, text) {LIST, CT_##LIST##_##VALUE, text},
#include <cutrace/format/options.def>
};

struct ct_option_value ct_options[CT_OPTIONS];
static struct ct_arena copies = {.bytes = 1 << 20};

const char *ct_options_get_name(enum ct_option option) {
    return rows[option].name;
}

static int parse_switch(const char *text, uint64_t *number) {
    static const char *const off[] = {"0", "off", "no", "false"}, *const on[] = {"1", "on", "yes",
                                                                                 "true"};
    for (size_t i = 0; i < sizeof off / sizeof *off; i++) {
        if (!strcasecmp(text, off[i]) || !strcasecmp(text, on[i])) {
            *number = !strcasecmp(text, on[i]);
            return 0;
        }
    }
    return -1;
}

static int parse_choice(enum type list, const char *text, uint64_t *number) {
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        if (choices[i].list == list && !strcasecmp(choices[i].text, text)) {
            *number = choices[i].value;
            return 0;
        }
    }
    return -1;
}

// Multiplies a number by a size's unit: K, M, G, T and KiB to TiB are powers of 1024, KB to TB of
// 1000 (as in cutrace-report --capacity); B. Returns 0, or -1: no unit, or the size is too large.
static int apply_unit(const char *unit, uint64_t *number) {
    static const char letters[] = "KMGT";
    const char *letter = strchr(letters, *unit >= 'a' ? *unit - 'a' + 'A' : *unit);
    if (!*unit || !strcasecmp(unit, "b"))
        return 0;
    if (!letter || (unit[1] && strcasecmp(unit + 1, "b") != 0 && strcasecmp(unit + 1, "ib") != 0))
        return -1;
    const uint64_t step = unit[1] && !unit[2] ? 1000 : 1024;
    for (const char *at = letters; at <= letter; at++)
        if (__builtin_mul_overflow(*number, step, number))
            return -1;
    return 0;
}

// Decimal digits, and for sizes a unit.
static int parse_number(const char *text, int size, uint64_t *number) {
    uint64_t v = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++)
        if (__builtin_mul_overflow(v, 10u, &v) ||
            __builtin_add_overflow(v, (uint64_t)(*at - '0'), &v))
            return -1;
    if (at == text || (size ? apply_unit(at, &v) : *at))
        return -1;
    *number = v;
    return 0;
}

static int parse(enum ct_option option, const char *text, uint64_t *number) {
    const enum type type = rows[option].type;
    *number = 0;
    if (type == TEXT)
        return 0;
    if (type == SWITCH)
        return parse_switch(text, number);
    if (type >= STACKS_OF)
        return parse_choice(type, text, number);
    if (parse_number(text, type == SIZE, number) || *number < rows[option].lowest ||
        *number > rows[option].highest)
        return -1;
    if (type == MS)
        *number *= 1000000;
    return 0;
}

// Levenshtein distance of two names of fewer than 32 characters; SIZE_MAX for longer ones.
static size_t edit_distance(const char *a, const char *b) {
    size_t row[32];
    const size_t n = strlen(b);
    if (n >= 32 || strlen(a) >= 32)
        return SIZE_MAX;
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            const size_t above = row[j], same = diagonal + (a[i - 1] != b[j - 1]);
            row[j] = ct_min(same, ct_min(above, row[j - 1]) + 1);
            diagonal = above;
        }
    }
    return row[n];
}

static void report_unknown(const char *name, size_t length, void (*print)(const char *)) {
    char given[64], line[200];
    size_t best = CT_OPTIONS, edits = 4;
    ct_print(given, sizeof given, "%.*s", (int)ct_min(length, sizeof given - 1), name);
    for (size_t i = 0; i < CT_OPTIONS; i++) {
        const size_t d = edit_distance(given, rows[i].name);
        if (d < edits) {
            edits = d;
            best = i;
        }
    }
    if (best < CT_OPTIONS)
        ct_print(line, sizeof line,
                 "cutrace: unknown variable CUTRACE_%s (did you mean CUTRACE_%s?)\n", given,
                 rows[best].name);
    else
        ct_print(line, sizeof line,
                 "cutrace: unknown variable CUTRACE_%s (CUTRACE_HELP=1 lists them)\n", given);
    print(line);
}

static void read_variable(const char *name, const char *equals, void (*print)(const char *)) {
    const size_t length = (size_t)(equals - name);
    for (size_t i = 0; i < CT_OPTIONS; i++) {
        if (strlen(rows[i].name) != length || memcmp(rows[i].name, name, length) != 0)
            continue;
        uint64_t number;
        if (parse((enum ct_option)i, equals + 1, &number)) {
            char line[300];
            ct_print(line, sizeof line, "cutrace: CUTRACE_%s=%.64s is no valid value, using %s\n",
                     rows[i].name, equals + 1, rows[i].text);
            print(line);
            return;
        }
        char *copy = ct_arena_copy_text(&copies, equals + 1, strlen(equals + 1));
        if (copy && (rows[i].type != TEXT || *copy))
            ct_options[i] = (struct ct_option_value){copy, number, 1};
        return;
    }
    report_unknown(name, length, print);
}

static void print_help(void (*print)(const char *)) {
    print("cutrace: environment variables\n  CUTRACE=0            switches the tracer off\n");
    for (size_t i = 0; i < IN_HELP; i++) {
        char line[400];
        ct_print(line, sizeof line, "  CUTRACE_%-13s%s (%s)\n", rows[i].name, rows[i].help,
                 rows[i].text);
        print(line);
    }
}

const char *ct_option_get_default(enum ct_option option) {
    return rows[option].text;
}

int ct_options_read(char *const *environment, void (*print)(const char *line)) {
    int on = 1;
    for (size_t i = 0; i < CT_OPTIONS; i++) {
        ct_options[i] = (struct ct_option_value){.text = rows[i].text};
        (void)parse((enum ct_option)i, rows[i].text, &ct_options[i].number);
    }
    // Two passes: a line may be printed only if no CUTRACE=0 follows.
    for (char *const *e = environment; e && *e; e++) {
        uint64_t number;
        if (!strncmp(*e, "CUTRACE=", 8) && !parse_switch(*e + 8, &number))
            on = number != 0;
    }
    if (!on)
        return 0;
    for (char *const *e = environment; e && *e; e++) {
        const char *equals = strchr(*e, '=');
        if (equals && !strncmp(*e, "CUTRACE_", 8) && equals > *e + 8)
            read_variable(*e + 8, equals, print);
    }
    if (CT_OPTION_NUMBER(HELP))
        print_help(print);
    return 1;
}

void ct_options_say(const char *line) {
    if (!CT_OPTION_NUMBER(QUIET))
        ct_print_stderr(line);
}
