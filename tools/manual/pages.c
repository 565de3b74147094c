// SPDX-License-Identifier: Apache-2.0
// Makes the manual pages (with the macros of man(7)) and the completion of shells from the tables
// of commands and options. Runs when cutrace is built: make-manual WHAT >FILE
#include <stdio.h>
#include <string.h>

#include "base/version.h"
#include "cli/argument_table.h"
#include "cli/help.h"
#include "manual/generate.h"
#include "run/words.h"

// Text in which nothing is a request or an escape; a hyphen is one that can be copied.
static void put(const char *text) {
    if (*text == '.' || *text == '\'')
        fputs("\\&", stdout);
    for (; *text; text++)
        switch (*text) {
        case '\\':
            fputs("\\e", stdout);
            break;
        case '-':
            fputs("\\-", stdout);
            break;
        case '^':
            fputs("\\(ha", stdout);
            break;
        case '~':
            fputs("\\(ti", stdout);
            break;
        case '\n':
            fputs(text[1] == '.' || text[1] == '\'' ? "\n\\&" : "\n", stdout);
            break;
        default:
            putchar(*text);
        }
}

static void put_line(const char *text) {
    put(text);
    putchar('\n');
}

static void begin(const char *name, const char *section, const char *what) {
    printf(".\\\" SPDX-License-Identifier: Apache-2.0\n.\\\" Made from the tables of the program.\n"
           ".TH %s %s %s \"cutrace %s\" \"cutrace\"\n.SH NAME\n",
           name, section, CT_VERSION_DATE, CT_VERSION);
    for (const char *at = name; *at; at++)
        putchar(*at >= 'A' && *at <= 'Z' ? *at - 'A' + 'a' : *at);
    fputs(" \\- ", stdout);
    put_line(what);
}

static void put_option(const struct ct_option_row *o) {
    fputs(".TP\n", stdout);
    if (o->letter)
        printf("\\fB\\-%c\\fR, ", o->letter);
    fputs("\\fB\\-\\-", stdout);
    put(o->name);
    fputs("\\fR", stdout);
    if (o->argument) {
        const int is_optional = *o->argument == '['; // "[text|json]": =VALUE may be left out
        fputs(is_optional ? "[=\\fI" : "=\\fI", stdout);
        put(o->argument + is_optional);
        fputs("\\fR", stdout);
    }
    putchar('\n');
    put_line(o->help);
}

static void put_commands_of(const struct ct_command_line *table, unsigned commands) {
    const char *separator = "(of";
    if (commands == (1u << table->command_count) - 1)
        return;
    for (int c = 0; c < table->command_count; c++)
        if (commands >> c & 1) {
            printf("%s \\fB%s\\fR", separator, table->commands[c].name);
            separator = ",";
        }
    fputs(")\n", stdout);
}

static void put_examples(const struct ct_command_line *table) {
    fputs(".SH EXAMPLES\n.nf\n", stdout);
    for (int c = 0; c < table->command_count; c++)
        if (table->commands[c].example) {
            put(table->program);
            putchar(' ');
            put_line(table->commands[c].example);
        }
    fputs(".fi\n", stdout);
}

static void put_environment(void) {
    fputs(".SH ENVIRONMENT\n.TP\n\\fBCUTRACE\\fR=0\nSwitches the tracer off.\n", stdout);
    for (int i = 0; i < CT_RUN_VARIABLES; i++) {
        fputs(".TP\n\\fBCUTRACE_", stdout);
        put(ct_run_variables[i].name);
        fputs("\\fR", stdout);
        if (*ct_run_variables[i].value) {
            putchar('=');
            put(ct_run_variables[i].value);
        }
        putchar('\n');
        put_line(ct_run_variables[i].help);
    }
}

static void put_run_command(int c) {
    const struct ct_command_row *command = &ct_run_table.commands[c];
    fputs(".SS cutrace ", stdout);
    put_line(command->name);
    fputs(".B cutrace ", stdout);
    put(command->name);
    fputs("\n", stdout);
    put_line(command->usage);
    fputs(".PP\n", stdout);
    put_line(command->help);
    for (int o = 0; o < CT_RUN_WORDS; o++)
        if (o != CT_WORD_HELP && ct_command_line_takes(&ct_run_table, c, o))
            put_option(&ct_run_table.options[o]);
    if (*command->more) {
        fputs(".PP\n", stdout);
        put_line(command->more);
    }
}

static void generate_cutrace_1(void) {
    begin("CUTRACE", "1", "record how a program uses GPU memory");
    fputs(".SH SYNOPSIS\n", stdout);
    for (int c = 0; c < CT_RUN_COMMANDS; c++) {
        fputs(c ? ".br\n.B cutrace " : ".B cutrace ", stdout);
        put_line(ct_run_table.commands[c].name);
        put_line(ct_run_table.commands[c].usage);
    }
    fputs(".SH DESCRIPTION\n", stdout);
    put_line("cutrace preloads a library into a program and its children, which records every call "
             "that allocates, maps, shares or frees GPU memory. Each process that uses CUDA writes "
             "a trace, which cutrace-report(1) reads. The same without cutrace: "
             "LD_PRELOAD=/path/libcutrace.so in the environment of the program.");
    fputs(".SH COMMANDS\n", stdout);
    for (int c = 0; c < CT_RUN_COMMANDS; c++)
        put_run_command(c);
    fputs(".SH OPTIONS\n", stdout);
    put_option(&ct_run_table.options[CT_WORD_HELP]);
    put_option(&ct_run_table.options[CT_WORD_VERSION]);
    put_environment();
    fputs(".SH FILES\n.TP\n\\fIcutrace.PROGRAM.PID.zst\\fR\nThe trace of a process; see "
          "cutrace\\-trace(5).\n",
          stdout);
    put_examples(&ct_run_table);
    fputs(".SH SEE ALSO\n.BR cutrace\\-report (1),\n.BR cutrace\\-trace (5),\n.BR ld.so (8)\n",
          stdout);
}

static void generate_cutrace_report_1(void) {
    begin("CUTRACE-REPORT", "1", "show what filled a GPU's memory");
    fputs(".SH SYNOPSIS\n.B cutrace\\-report\n[\\fICOMMAND\\fR] [\\fIOPTION\\fR...] "
          "\\fITRACE\\fR...\n.SH DESCRIPTION\n",
          stdout);
    put_line(
        "cutrace-report shows what filled a GPU's memory, from traces that libcutrace.so wrote "
        "(cutrace(1)): which allocation crossed capacity, what was live then, and where in the "
        "program it came from. \"-\" is standard input. Command, options and traces may come in "
        "any order; a trace whose name is a command's is ./NAME.");
    fputs(".SH COMMANDS\n", stdout);
    for (int c = 0; c < CT_COMMANDS; c++) {
        printf(".TP\n\\fB%s\\fR\n", ct_argument_table.commands[c].name);
        put_line(ct_argument_table.commands[c].help);
    }
    fputs(".TP\n\\fBhelp\\fR\n", stdout);
    put_line("all commands and options; help COMMAND: of the command");
    fputs(".SH OPTIONS\n", stdout);
    put_line("An option that a command does not take is refused.");
    for (int o = 0; o < CT_ARGUMENTS; o++) {
        put_option(&ct_argument_table.options[o]);
        put_commands_of(&ct_argument_table, ct_argument_table.options[o].commands);
    }
    fputs(".SH SIZES AND TIMES\n", stdout);
    put_line(CT_HELP_SIZES ".");
    fputs(".PP\n", stdout);
    put_line(CT_HELP_TIMES ".");
    fputs(".SH EXIT STATUS\n", stdout);
    put_line(CT_HELP_EXIT_CODES ".");
    fputs(
        ".SH ENVIRONMENT\nNO_COLOR, CLICOLOR_FORCE, PAGER, COLUMNS, TERM and DEBUGINFOD_URLS mean "
        "what they mean to other programs.\n",
        stdout);
    put_examples(&ct_argument_table);
    fputs(".SH SEE ALSO\n.BR cutrace (1),\n.BR cutrace\\-trace (5)\n", stdout);
}

static void generate_cutrace_trace_5(void) {
    begin("CUTRACE-TRACE", "5", "a recording of a process's use of GPU memory");
    fputs(".SH DESCRIPTION\n", stdout);
    put_line(
        "A trace is the recording of one process. It is a sequence of zstd frames, each a chunk "
        "that can be read by itself, and of skippable frames, so that zstd -t accepts it at "
        "every moment, also while the process writes it. Its size is bounded "
        "(CUTRACE_MAX_SIZE): the newest chunks replace the oldest ones.");
    fputs(".PP\n", stdout);
    put_line("A chunk has events (calls that allocate, map, share or free memory, readings of free "
             "memory, failures) and the definitions that they refer to: stacks, names, threads, "
             "modules. Checkpoints say what is live, so that a trace whose beginning was "
             "overwritten can be read.");
    fputs(".SS The journal\n", stdout);
    put_line(
        "While a process runs, and after it was killed, its events of the last seconds are in a "
        "file beside the trace, whose name ends in .journal. cutrace-report(1) reads both. To "
        "pass a trace on, pass the journal too, or run cutrace-report copy --seal TRACE "
        "first. A "
        "killed process's trace without its journal is reported as incomplete.");
    fputs(".SS Contents\n", stdout);
    put_line("A trace holds no tensor contents, working directory, full command line or full "
             "environment. CUTRACE_PRIVATE=1 leaves out more.");
    fputs(".SH NOTES\nThe format to the byte is FORMAT.md, in the documentation of cutrace.\n"
          ".SH SEE ALSO\n.BR cutrace (1),\n.BR cutrace\\-report (1),\n.BR zstd (1)\n",
          stdout);
}

// ---- all that is made ---------------------------------------------------------------------------

static const struct {
    const char *name;
    void (*generate)(void);
} outputs[] = {{"cutrace.1", generate_cutrace_1},
               {"cutrace-report.1", generate_cutrace_report_1},
               {"cutrace-trace.5", generate_cutrace_trace_5},
               {"cutrace.bash", ct_generate_bash},
               {"_cutrace", ct_generate_zsh}};

int main(int argc, char **argv) {
    for (size_t i = 0; argc == 2 && i < sizeof outputs / sizeof *outputs; i++)
        if (strcmp(outputs[i].name, argv[1]) == 0) {
            outputs[i].generate();
            return fflush(stdout) != 0;
        }
    fputs("usage: make-manual cutrace.1|cutrace-report.1|cutrace-trace.5|cutrace.bash|_cutrace\n",
          stderr);
    return 2;
}
