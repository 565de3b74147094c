// SPDX-License-Identifier: Apache-2.0
#include "run/words.h"

#include <stdarg.h>
#include <string.h>

#include "base/nearest.h"

enum { WIDTH = 96, LEFT = 26 };

static const struct {
    const char *name, *usage, *help, *more;
} commands[] = {
#define CT_COMMAND(id, name, usage, help, more) {name, usage, help, more},
#include "run/commands.def"
};

static const struct option {
    enum ct_run_command command;
    const char *name, *argument, *help;
    char letter;
} options[] = {
#define CT_ARGUMENT(id, NAME, name, letter, argument, help) \
    {CT_RUN_##id, name, argument, help, letter},
#include "run/commands.def"
};

static const struct {
    const char *name, *value, *help;
} variables[] = {
#define CT_OPTION(NAME, TYPE, text, lowest, highest, help) {#NAME, text, help},
#define CT_INTERNAL(NAME, TYPE, text, lowest, highest, help)
#include <cutrace/format/options.def>
};

// ---- parsing
// --------------------------------------------------------------------------------------

int ct_words_find_command(const char *name, const char **nearest) {
    struct ct_nearest n = {.typed = name, .length = strlen(name)};
    for (int i = 0; i < CT_RUN_COMMANDS; i++) {
        if (strcmp(commands[i].name, name) == 0)
            return i;
        ct_nearest_try(&n, commands[i].name);
    }
    *nearest = n.best;
    return -1;
}

static enum ct_word fail_option(const struct ct_words *w, const char *word) {
    const char *command = commands[w->command].name;
    struct ct_nearest n = {.typed = word + strspn(word, "-")};
    n.length = word[1] == '-' ? strcspn(n.typed, "=") : 0;
    for (int i = 0; i < CT_WORDS; i++)
        if (options[i].command == w->command)
            ct_nearest_try(&n, options[i].name);
    if (n.best)
        fprintf(stderr, "cutrace: %s: %s: unknown option; did you mean --%s?\n", command, word,
                n.best);
    else
        fprintf(stderr, "cutrace: %s: %s: unknown option; see cutrace %s --help\n", command, word,
                command);
    return CT_WORD_WRONG;
}

// Whether `word` is this option. `value` gets what is in the same word, or NULL.
static int is_option(const struct option *o, const char *word, const char **value) {
    const size_t n = strlen(o->name);
    *value = NULL;
    if (word[1] != '-') {
        *value = word[1] && word[2] ? word + 2 : NULL;
        return o->letter && word[1] == o->letter && (o->argument || !*value);
    }
    if (strncmp(word + 2, o->name, n) != 0 || (word[n + 2] && word[n + 2] != '='))
        return 0;
    *value = word[n + 2] ? word + n + 3 : NULL;
    return 1;
}

static enum ct_word read_option(struct ct_words *w, int i, const char *word, const char *value) {
    const char *command = commands[w->command].name;
    if (!options[i].argument && value) {
        fprintf(stderr, "cutrace: %s: --%s takes no value\n", command, options[i].name);
        return CT_WORD_WRONG;
    }
    const int needs_value = options[i].argument && *options[i].argument != '[';
    if (needs_value && !value && w->at < w->argc)
        value = w->argv[w->at++];
    if (needs_value && !value) {
        fprintf(stderr, "cutrace: %s: %s needs a value: %s\n", command, word, options[i].argument);
        return CT_WORD_WRONG;
    }
    w->value = value;
    return (enum ct_word)i;
}

enum ct_word ct_words_next(struct ct_words *w) {
    if (w->at < w->argc && !w->options_ended && strcmp(w->argv[w->at], "--") == 0) {
        w->options_ended = 1;
        w->at++;
    }
    if (w->at >= w->argc)
        return CT_WORD_END;
    const char *word = w->argv[w->at++], *value;
    if (w->options_ended || word[0] != '-' || !word[1]) {
        w->value = word;
        return CT_WORD_PLAIN;
    }
    if (strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0)
        return CT_WORD_HELP;
    for (int i = 0; i < CT_WORDS; i++)
        if (options[i].command == w->command && is_option(&options[i], word, &value))
            return read_option(w, i, word, value);
    return fail_option(w, word);
}

// ---- help
// -----------------------------------------------------------------------------------------

// Prints words in lines of at most WIDTH columns. The first line goes on at `column`, the others
// begin after `indent` blanks.
static void print_wrapped(FILE *out, const char *text, int column, int indent) {
    if (column && column > indent - 2) { // no room is left beside it
        fputc('\n', out);
        column = 0;
    }
    if (column < indent)
        column += fprintf(out, "%*s", indent - column, "");
    for (int is_first = 1; *text; is_first = 0) {
        const int n = (int)strcspn(text, " ");
        if (!is_first && column + 1 + n > WIDTH) {
            column = fprintf(out, "\n%*s", indent, "") - 1;
            is_first = 1;
        }
        column += fprintf(out, "%s%.*s", is_first ? "" : " ", n, text);
        text += n;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

static void print_option(FILE *out, char letter, const char *name, const char *argument,
                         const char *help) {
    char left[64], short_name[5] = "   ";
    if (letter)
        (void)snprintf(short_name, sizeof short_name, "-%c,", letter);
    if (argument && *argument == '[')
        (void)snprintf(left, sizeof left, "  %s --%s[=%s", short_name, name, argument + 1);
    else
        (void)snprintf(left, sizeof left, "  %s --%s%s%s", short_name, name, argument ? "=" : "",
                       argument ? argument : "");
    print_wrapped(out, help, fprintf(out, "%s", left), LEFT);
}

static void print_options(FILE *out, enum ct_run_command command) {
    for (int i = 0; i < CT_WORDS; i++)
        if (options[i].command == command)
            print_option(out, options[i].letter, options[i].name, options[i].argument,
                         options[i].help);
}

static void print_environment(FILE *out) {
    fputs("environment (CUTRACE=0 switches the tracer off):\n", out);
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        fprintf(out, "  CUTRACE_%s%s%s\n", variables[i].name, *variables[i].value ? "=" : "",
                variables[i].value);
        print_wrapped(out, variables[i].help, 0, 6);
    }
}

void ct_words_print_help(FILE *out, enum ct_run_command command) {
    fprintf(out, "usage: cutrace %s %s\n\n", commands[command].name, commands[command].usage);
    print_wrapped(out, commands[command].help, 0, 0);
    fputc('\n', out);
    print_options(out, command);
    print_option(out, 'h', "help", NULL, "this text");
    if (*commands[command].more) {
        fputc('\n', out);
        print_wrapped(out, commands[command].more, 0, 0);
    }
    if (command == CT_RUN_run) {
        fputc('\n', out);
        print_environment(out);
    }
}

void ct_words_print_all_help(FILE *out) {
    for (int i = 0; i < CT_RUN_COMMANDS; i++)
        fprintf(out, "%s cutrace %s %s\n", i ? "      " : "usage:", commands[i].name,
                commands[i].usage);
    for (int i = 0; i < CT_RUN_COMMANDS; i++) {
        fprintf(out, "\n%s: ", commands[i].name);
        print_wrapped(out, commands[i].help, (int)strlen(commands[i].name) + 2, 2);
        print_options(out, (enum ct_run_command)i);
        if (*commands[i].more)
            print_wrapped(out, commands[i].more, 0, 2);
    }
    fputs("\nof every command, and of cutrace:\n", out);
    print_option(out, 'h', "help", NULL, "this text, or the command's");
    print_option(out, 'V', "version", NULL, "the version");
    fputc('\n', out);
    print_environment(out);
}

int ct_words_fail(int code, const char *format, ...) {
    va_list args;
    fputs("cutrace: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    return code;
}
