// SPDX-License-Identifier: Apache-2.0
// Looks names up in the table of noise, and prints the table.
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
    enum ct_noise_subject subject;
    const char *pattern;
} rows[] = {
#define CT_NOISE_GROUP(NAME, title, reason) {CT_NOISE_MODULE, NULL},
#define CT_NOISE(subject, pattern) {CT_NOISE_##subject, pattern},
#include "symbols/noise.def"
};

#define ROWS (sizeof rows / sizeof *rows)

// A pattern has a star at the beginning, at the end, or at both.
static int matches(const char *pattern, const char *name) {
    const size_t n = strlen(pattern), length = strlen(name);
    if (pattern[0] == '*' && pattern[n - 1] == '*')
        return memmem(name, length, pattern + 1, n - 2) != NULL;
    if (pattern[0] == '*')
        return length >= n - 1 && strcmp(name + length - (n - 1), pattern + 1) == 0;
    return pattern[n - 1] == '*' ? strncmp(name, pattern, n - 1) == 0 : strcmp(name, pattern) == 0;
}

enum ct_noise_group ct_noise_classify(enum ct_noise_subject subject, const char *name) {
    unsigned group = CT_NOISE_NONE;
    for (size_t i = 0; i < ROWS; i++)
        if (!rows[i].pattern)
            group++;
        else if (rows[i].subject == subject && matches(rows[i].pattern, name))
            return (enum ct_noise_group)group;
    return CT_NOISE_NONE;
}

// Prints the patterns of one subject in the group whose rows begin at `from`.
static void print_rows(FILE *out, size_t from, enum ct_noise_subject subject) {
    static const char *const titles[] = {"modules", "functions", "Python files"};
    int some = 0;
    for (size_t i = from; i < ROWS && rows[i].pattern; i++) {
        if (rows[i].subject != subject)
            continue;
        if (some)
            fprintf(out, ", `%s`", rows[i].pattern);
        else
            fprintf(out, "| %s | `%s`", titles[subject], rows[i].pattern);
        some = 1;
    }
    if (some)
        fputs(" |\n", out);
}

void ct_noise_print_document(FILE *out) {
    fputs("# Frames that views leave out\n\n"
          "Many frames between a line of a program and the driver do not name the code that asked "
          "for memory. `cutrace-report`\n"
          "leaves these frames out of text and prints their number. The innermost frame that is "
          "left names a call site.\n"
          "`--all-frames` shows all frames. JSON has all frames, and marks the ones left out as "
          "`hidden`. A frame without a name\n"
          "(of a stripped library) names a call site only if no other frame does.\n\n"
          "`cutrace-report --noise` prints this page from `noise.def`. A pattern begins or ends "
          "with * where any text may stand.\n"
          "Modules are compared by the base names of their files, functions as views show them "
          "(without what compilers append, such\n"
          "as `.cold`), Python files by their whole paths.\n",
          out);
    unsigned group = 0;
    for (size_t i = 0; i < ROWS; i++) {
        if (rows[i].pattern)
            continue;
        group++;
        fprintf(out, "\n## %s\n\n%s\n\n| | |\n|---|---|\n", groups[group].title,
                groups[group].reason);
        for (int subject = CT_NOISE_MODULE; subject <= CT_NOISE_FILE; subject++)
            print_rows(out, i + 1, (enum ct_noise_subject)subject);
    }
}
