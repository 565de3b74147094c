// SPDX-License-Identifier: Apache-2.0
#include "cli/help.h"

#include "base/wrap.h"
#include "cli/help_texts.h"
#include "export/tables.h"

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
