// SPDX-License-Identifier: Apache-2.0
#include "cli/help.h"

#include <string.h>

#include "cli/help_texts.h"
#include "cli/wrap.h"
#include "export/tables.h"

enum { LEFT = 35 };

static const char sizes[] = CT_HELP_SIZES "\n", times[] = CT_HELP_TIMES "\n",
                  exit_codes[] = CT_HELP_EXIT_CODES "\n";

// The commands that a clause begins with, as a set of bits, and its text after them.
static unsigned find_commands(const char **clause) {
    const char *at = *clause;
    unsigned found = 0;
    for (;;) {
        const size_t n = strcspn(at, ",: ");
        char name[16];
        (void)snprintf(name, sizeof name, "%.*s", (int)n, at);
        const int command = ct_argument_table_find_command(name);
        if (command < 0 || at[n] == ' ' || at[n + 1] != ' ')
            return 0;
        found |= 1u << command;
        at += n + 2;
        if (at[-2] == ':') {
            *clause = at;
            return found;
        }
    }
}

// Prints a help whole, or what it says of one command.
static void print_clauses(FILE *out, const char *help, int command) {
    const char *separator = "";
    for (size_t n; *help; help += n + (help[n] ? 2 : 0)) {
        const char *clause = help;
        n = ct_argument_table_clause(help);
        const unsigned commands = command < 0 ? 0 : find_commands(&clause);
        if (commands && !(commands >> command & 1))
            continue;
        fprintf(out, "%s%.*s", separator, (int)(help + n - clause), clause);
        separator = "; ";
    }
    putc('\n', out);
}

// `command`: the only one that the help is for; -1: all.
static void print_argument(FILE *out, const struct ct_argument_row *row, int command) {
    char letter[5] = "   ", left[64];
    if (row->letter)
        (void)snprintf(letter, sizeof letter, "-%c,", row->letter);
    (void)snprintf(left, sizeof left, "%s --%s%s%s", letter, row->name, row->argument ? "=" : "",
                   row->argument ? row->argument : "");
    fprintf(out, "  %-*s " CT_WRAP_HANG, LEFT - 3, left);
    print_clauses(out, row->help, command);
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
        print_argument(out, &ct_argument_table[i], -1);
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
            print_argument(out, &ct_argument_table[a], (int)command);
    if (command == CT_COMMAND_export)
        print_formats(out);
    fprintf(out, "\n%s%s%s\nexample: cutrace-report %s\n",
            ct_argument_table_takes(command, CT_ARGUMENT_CAPACITY) ? sizes : "",
            ct_argument_table_takes(command, CT_ARGUMENT_FROM) ? times : "", exit_codes,
            row->example);
}
