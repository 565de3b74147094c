// SPDX-License-Identifier: Apache-2.0
// Looks up the table of noise, and prints it.
#include "symbols/noise.h"

#include <string.h>

static const struct {
    const char *title, *reason;
} groups[] = {
    [CT_NOISE_NONE] = {"", ""},
#define CT_NOISE_GROUP(NAME, title, reason) [CT_NOISE_##NAME] = {title, reason},
#include "symbols/noise.def"
};

// A row without a pattern begins a group.
static const struct {
    enum ct_noise_subject what;
    const char *pattern;
} rows[] = {
#define CT_NOISE_GROUP(NAME, title, reason) {CT_NOISE_MODULE, NULL},
#define CT_NOISE(what, pattern) {CT_NOISE_##what, pattern},
#include "symbols/noise.def"
};

#define ROWS (sizeof rows / sizeof *rows)

// A star stands at the beginning, at the end, or at both.
static int fits(const char *pattern, const char *name) {
    const size_t n = strlen(pattern), length = strlen(name);
    if (pattern[0] == '*' && pattern[n - 1] == '*')
        return memmem(name, length, pattern + 1, n - 2) != NULL;
    if (pattern[0] == '*')
        return length >= n - 1 && strcmp(name + length - (n - 1), pattern + 1) == 0;
    return pattern[n - 1] == '*' ? strncmp(name, pattern, n - 1) == 0 : strcmp(name, pattern) == 0;
}

enum ct_noise_group ct_noise_classify(enum ct_noise_subject what, const char *name) {
    unsigned group = CT_NOISE_NONE;
    for (size_t i = 0; i < ROWS; i++)
        if (!rows[i].pattern)
            group++;
        else if (rows[i].what == what && fits(rows[i].pattern, name))
            return (enum ct_noise_group)group;
    return CT_NOISE_NONE;
}

// Those of one kind in the group whose rows begin at `from`.
static void put_rows(FILE *out, size_t from, enum ct_noise_subject what) {
    static const char *const titles[] = {"modules", "functions", "Python files"};
    int some = 0;
    for (size_t i = from; i < ROWS && rows[i].pattern; i++) {
        if (rows[i].what != what)
            continue;
        if (some)
            fprintf(out, ", `%s`", rows[i].pattern);
        else
            fprintf(out, "| %s | `%s`", titles[what], rows[i].pattern);
        some = 1;
    }
    if (some)
        fputs(" |\n", out);
}

void ct_noise_print_document(FILE *out) {
    fputs(
        "# Frames that views leave out\n\n"
        "Between a line of a program and the driver lie many frames that do not say who asked for "
        "memory. `cutrace-report` leaves them out of\n"
        "what people read, says how many, and names a call site by the innermost frame that is "
        "left; `--all-frames` shows them. JSON has all\n"
        "frames, and marks these as `hidden`. A frame without a name (a stripped library) names a "
        "call site only where no other does.\n\n"
        "This page is what `cutrace-report --noise` prints, from `noise.def`. A pattern begins or "
        "ends with * where any text may stand. Modules are\n"
        "compared by the base names of their files, functions as views show them (without what "
        "compilers append, as `.cold`), Python files by\n"
        "their whole paths.\n",
        out);
    unsigned group = 0;
    for (size_t i = 0; i < ROWS; i++) {
        if (rows[i].pattern)
            continue;
        group++;
        fprintf(out, "\n## %s\n\n%s\n\n| | |\n|---|---|\n", groups[group].title,
                groups[group].reason);
        for (int what = CT_NOISE_MODULE; what <= CT_NOISE_FILE; what++)
            put_rows(out, i + 1, (enum ct_noise_subject)what);
    }
}
