// SPDX-License-Identifier: Apache-2.0
#include "run/words.h"

#include <stdarg.h>

#include "base/wrap.h"

#define ON(id) (1u << CT_RUN_##id)
#define ALL ((1u << CT_RUN_COMMANDS) - 1)

static const struct ct_command_row commands[CT_RUN_COMMANDS] = {
#define CT_COMMAND(id, name, usage, help, more, example) {name, usage, help, more, example},
#include "run/commands.def"
};

static const struct ct_option_row options[CT_RUN_WORDS] = {
#define CT_ARGUMENT(NAME, name, letter, argument, commands, help) \
    {name, argument, help, letter, commands},
#include "run/commands.def"
};

const struct ct_run_variable ct_run_variables[CT_RUN_VARIABLES] = {
#define CT_OPTION(NAME, TYPE, text, lowest, highest, help) {#NAME, text, help},
#define CT_INTERNAL(NAME, TYPE, text, lowest, highest, help)
#include <cutrace/format/options.def>
};

const struct ct_command_line ct_run_table = {
    .program = "cutrace",
    .commands = commands,
    .command_count = CT_RUN_COMMANDS,
    .options = options,
    .option_count = CT_RUN_WORDS,
};

// ---- help ---------------------------------------------------------------------------------------

static void print_command(enum ct_run_command command, FILE *out) {
    const struct ct_command_row *row = &commands[command];
    ct_command_line_print_command(&ct_run_table, (int)command, out);
    if (*row->more)
        fprintf(out, "\n" CT_WRAP_HANG "%s\n", row->more);
    if (row->example)
        fprintf(out, "\nexample: cutrace %s\n", row->example);
}

static void print_environment(FILE *out) {
    fputs("\nenvironment (CUTRACE=0 switches the tracer off):\n", out);
    for (const struct ct_run_variable *v = ct_run_variables;
         v < ct_run_variables + CT_RUN_VARIABLES; v++)
        fprintf(out, "  CUTRACE_%s%s%s\n      " CT_WRAP_HANG "%s\n", v->name, *v->value ? "=" : "",
                v->value, v->help);
}

static FILE *open_text(FILE *out) {
    const struct ct_wrap_style style = {.width = 96};
    return ct_wrap_open(&style, out);
}

int ct_words_print_help(enum ct_run_command command) {
    FILE *text = open_text(stdout);
    if (!text)
        return -1;
    print_command(command, text);
    if (command == CT_RUN_run)
        print_environment(text);
    const int failed = fclose(text);
    return failed | fflush(stdout);
}

void ct_words_print_all_help(FILE *out) {
    FILE *text = open_text(out);
    if (!text)
        return;
    for (int i = 0; i < CT_RUN_COMMANDS; i++) {
        print_command((enum ct_run_command)i, text);
        putc('\n', text);
    }
    fputs("options of cutrace itself:\n", text);
    ct_command_line_print_option(&ct_run_table, CT_WORD_VERSION, -1, text);
    print_environment(text);
    fclose(text);
}

// ---- errors -------------------------------------------------------------------------------------

int ct_words_fail(int code, const char *format, ...) {
    va_list args;
    fputs("cutrace: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    return code;
}

// ---- reading ------------------------------------------------------------------------------------

// Exit codes, as --help lists them: those of `run` are no program's.
static int wrong_usage(enum ct_run_command command) {
    return command == CT_RUN_run ? 125 : 2;
}
static int cannot_print(enum ct_run_command command) {
    return command == CT_RUN_run ? 125 : 5;
}

int ct_words_read(enum ct_run_command command, int argc, char **argv, int *code,
                  int (*set)(void *to, int word, const struct ct_words *w), void *to) {
    struct ct_words w = {
        .table = &ct_run_table, .command = (int)command, .argc = argc, .argv = argv};
    for (*code = 0; !*code;) {
        const int word = ct_words_next(&w);
        if (word == CT_WORD_END)
            return 0;
        if (word == CT_WORD_HELP) {
            *code = ct_words_print_help(command) ? cannot_print(command) : 0;
            return 1;
        }
        *code = word == CT_WORD_WRONG ? ct_words_fail(wrong_usage(command), "%s: %s",
                                                      commands[command].name, w.error.text)
                                      : set(to, word, &w);
    }
    return *code != CT_WORDS_ENOUGH;
}
