// SPDX-License-Identifier: Apache-2.0
#include "views/help.h"

#include <string.h>

#include "export/tables.h"
#include "views/wrap.h"

enum { LEFT = 35 };

static const char sizes[] =
    "sizes: B; KiB, MiB, GiB, TiB and K, M, G, T are powers of 1024; KB, MB, GB, TB of 1000\n";
static const char times[] =
    "times: since the start of the recording 4.05, 4.05s, 90m, 1h30m, 1:02:03, 3d05:49:47; UTC "
    "16:56:17Z, 2026-11-22T12:52:17Z; oom: when memory ran out (with --capacity: when the budget "
    "was exceeded), peak: when the most was allocated\n";
static const char exit_codes[] =
    "exit codes: 0 done, 1 a condition of --fail-on holds, 2 wrong usage, 3 not a readable trace, 4 "
    "the end of the trace is missing (--strict: or anything else; --fail-on: or a condition is not "
    "known), 5 cannot write\n";

static void print_argument(FILE *out, const struct ct_argument_row *row) {
    char letter[5] = "   ", left[64];
    if (row->letter)
        (void)snprintf(letter, sizeof letter, "-%c,", row->letter);
    (void)snprintf(left, sizeof left, "%s --%s%s%s", letter, row->name, row->argument ? "=" : "",
                   row->argument ? row->argument : "");
    fprintf(out, "  %-*s " CT_WRAP_HANG "%s\n", LEFT - 3, left, row->help);
}

static void print_command(FILE *out, const char *name, const char *help) {
    fprintf(out, "  %-12s " CT_WRAP_HANG "%s\n", name, help);
}

void ct_help_print(FILE *out) {
    fputs(
        "usage: cutrace-report [COMMAND] [OPTION...] TRACE...\n"
        "Shows what filled a GPU's memory, from traces that libcutrace.so wrote. \"-\" is standard "
        "input.\nCommand, options and traces may come in any order; a trace whose name is a "
        "command's is ./NAME.\n\ncommands:\n",
        out);
    for (size_t i = 0; i < CT_COMMANDS; i++)
        print_command(out, ct_argument_table_commands[i].name, ct_argument_table_commands[i].help);
    print_command(out, "help", "this text; help COMMAND: the options that the command takes");
    fputs("\noptions:\n", out);
    for (size_t i = 0; i < CT_ARGUMENTS; i++)
        print_argument(out, &ct_argument_table[i]);
    fprintf(out, "\n%s%s%s", sizes, times, exit_codes);
}

static void print_formats(FILE *out) {
    fputs("\nformats:\n", out);
    for (size_t i = 0; i < CT_EXPORT_FORMATS; i++)
        print_command(out, ct_export_formats[i].name, ct_export_formats[i].help);
    fputs("\ntables:\n", out);
    for (unsigned i = 0; i < CT_TABLES; i++) {
        const struct ct_table table = ct_tables_get((enum ct_export_table)i);
        print_command(out, table.name, table.help);
    }
}

void ct_help_print_command(FILE *out, enum ct_command command) {
    const struct ct_command_row *row = &ct_argument_table_commands[command];
    fprintf(out, "usage: cutrace-report %s [OPTION...] %s\n" CT_WRAP_HANG "%s\n\noptions:\n",
            row->name, command == CT_COMMAND_explain ? "[FILE|-]..." : "TRACE...", row->help);
    for (int a = 0; a < CT_ARGUMENTS; a++)
        if (ct_argument_table_takes(command, (enum ct_argument)a))
            print_argument(out, &ct_argument_table[a]);
    if (command == CT_COMMAND_export)
        print_formats(out);
    fprintf(out, "\n%s%s%s\nexample: cutrace-report %s\n",
            ct_argument_table_takes(command, CT_ARGUMENT_CAPACITY) ? sizes : "",
            ct_argument_table_takes(command, CT_ARGUMENT_FROM) ? times : "", exit_codes,
            row->example);
}
