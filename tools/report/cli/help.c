// SPDX-License-Identifier: Apache-2.0
#include "cli/help.h"

#include <cutrace/model/noise.h>

#include "base/wrap.h"
#include "export/tables.h"

// ---- commands and options -----------------------------------------------------------------------

static const char sizes[] = CT_HELP_SIZES "\n", times[] = CT_HELP_TIMES "\n",
                  exit_codes[] = CT_HELP_EXIT_CODES "\n";

void ct_help_print(FILE *out) {
    fputs(
        "usage: cutrace-report [COMMAND] [OPTION...] TRACE...\n"
        "Shows what filled a GPU's memory, from traces that libcutrace.so wrote. \"-\" is standard "
        "input.\nCommand, options and traces may come in any order; a trace whose name is a "
        "command's is ./NAME.\n\ncommands:\n",
        out);
    for (int i = 0; i < CT_COMMANDS; i++)
        ct_command_line_print_row(ct_argument_table.commands[i].name,
                                  ct_argument_table.commands[i].help, out);
    ct_command_line_print_row(
        "help",
        "this text; help COMMAND: the options that the command takes; help noise: "
        "the frames that are hidden without --all-frames; help licenses: those of "
        "the linked libraries",
        out);
    fputs("\noptions:\n", out);
    ct_command_line_print_options(&ct_argument_table, -1, out);
    fprintf(out, "\n%s%s%s", sizes, times, exit_codes);
}

static void print_formats(FILE *out) {
    fputs("\nformats:\n", out);
    for (size_t i = 0; i < CT_EXPORT_FORMATS; i++)
        ct_command_line_print_row(ct_export_formats[i].name, ct_export_formats[i].help, out);
    fputs("\ntables:\n", out);
    for (unsigned i = 0; i < CT_TABLES; i++) {
        const struct ct_table table = ct_tables_get((enum ct_export_table)i);
        ct_command_line_print_row(table.name, table.help, out);
    }
}

void ct_help_print_command(FILE *out, enum ct_command command) {
    ct_command_line_print_command(&ct_argument_table, (int)command, out);
    if (command == CT_COMMAND_export)
        print_formats(out);
    fprintf(out, "\n%s%s%s\nexample: cutrace-report %s\n",
            ct_argument_table_takes(command, CT_ARGUMENT_CAPACITY) ? sizes : "",
            ct_argument_table_takes(command, CT_ARGUMENT_FROM) ? times : "", exit_codes,
            ct_argument_table.commands[command].example);
}

// ---- the table of noise -------------------------------------------------------------------------
// Prints the table of noise.

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
        "base names of their files (by the path, if the pattern has a folder), functions as views show them (without what compilers "
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
