// SPDX-License-Identifier: Apache-2.0
#include "cli/help.h"

#include <string.h>

#include "cli/help_texts.h"
#include "cli/wrap.h"
#include "export/tables.h"

enum { LEFT = 35 };

static const char sizes[] = CT_HELP_SIZES "\n", times[] = CT_HELP_TIMES "\n",
                  exit_codes[] = CT_HELP_EXIT_CODES "\n";

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
    print_command(out, "help",
                  "this text; help COMMAND: the options that the command takes; help noise: the "
                  "frames that are hidden without --all-frames; help licenses: those of the linked "
                  "libraries");
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
