// SPDX-License-Identifier: Apache-2.0
// Prints the table of noise.
#include "symbols/noise_document.h"

#include <cutrace/model/noise.h>

static const struct {
    const char *title, *reason;
} groups[] = {
    [CT_NOISE_NONE] = {"", ""},
#define CT_NOISE_GROUP(NAME, title, reason) [CT_NOISE_##NAME] = {title, reason},
#include <cutrace/model/noise.def>
};

// Prints the patterns of one subject, noise or kept, in the group whose rows begin at `row`.
static void print_rows(FILE *out, const struct ct_noise_row *row, const struct ct_noise_row *end,
                       enum ct_noise_subject subject, int keep) {
    static const char *const titles[] = {"modules", "functions", "Python files"};
    int some = 0;
    for (; row < end && row->pattern; row++) {
        if (row->subject != subject || row->keep != keep)
            continue;
        if (some)
            fprintf(out, ", `%s`", row->pattern);
        else
            fprintf(out, "| %s%s | `%s`", titles[subject], keep ? " that stay" : "", row->pattern);
        some = 1;
    }
    if (some)
        fputs(" |\n", out);
}

void ct_noise_document_print(FILE *out) {
    fputs(
        "# Frames that views leave out\n\n"
        "Many frames between a line of a program and the driver do not name the code that asked "
        "for memory. `cutrace-report`\n"
        "leaves these frames out of text and prints their number. The innermost frame that is "
        "left names a call site.\n"
        "`--all-frames` shows all frames. JSON has all frames, and marks the ones left out as "
        "`hidden`. A frame without a name\n"
        "(of a stripped library) names a call site only if no other frame does; in a stack of "
        "noise alone it is the innermost\n"
        "line of Python, else the innermost frame.\n\n"
        "`cutrace-report help noise` prints this page from `include/cutrace/model/noise.def`, which "
        "the recorder uses, too, for its\n"
        "line about a failed allocation. A pattern begins or ends with * where any text may "
        "stand. Modules are compared by the\n"
        "base names of their files, functions as views show them (without what compilers "
        "append, such as `.cold`), Python files\n"
        "by their whole paths (code without a file by `<string>` and its function). Names that "
        "stay are no noise although a later\n"
        "pattern matches them.\n",
        out);
    size_t count;
    const struct ct_noise_row *row = ct_noise_rows(&count), *const end = row + count;
    unsigned group = 0;
    for (; row < end; row++) {
        if (row->pattern)
            continue;
        group++;
        fprintf(out, "\n## %s\n\n%s\n\n| | |\n|---|---|\n", groups[group].title,
                groups[group].reason);
        for (int keep = 0; keep <= 1; keep++)
            for (int subject = CT_NOISE_MODULE; subject <= CT_NOISE_FILE; subject++)
                print_rows(out, row + 1, end, (enum ct_noise_subject)subject, keep);
    }
}
