// SPDX-License-Identifier: Apache-2.0
// Reads the command line by the table in options.def. Options and names may come in any order.
#include "views/arguments.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum argument {
#define CT_ARGUMENT(NAME, name, letter, argument, help) ARG_##NAME,
#include "views/arguments.def"
    ARGUMENTS
};

static const struct {
    const char *name, *argument, *help;
    char letter;
} arguments[] = {
#define CT_ARGUMENT(NAME, name, letter, argument, help) {name, argument, help, letter},
#include "views/arguments.def"
};

static const struct {
    const char *name, *help;
} commands[] = {
#define CT_COMMAND(name, help) {#name, help},
#include "views/arguments.def"
};

const char *ct_arguments_command_name(enum ct_command command) {
    return commands[command].name;
}

void ct_arguments_print_help(FILE *out) {
    fputs(
        "usage: cutrace-report [COMMAND] [OPTION...] TRACE...\n"
        "Says what filled a GPU's memory, from traces that libcutrace.so wrote. \"-\" is standard "
        "input.\n\ncommands:\n",
        out);
    for (size_t i = 0; i < CT_COMMANDS; i++)
        fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].help);
    fputs("\noptions:\n", out);
    for (size_t i = 0; i < ARGUMENTS; i++) {
        char left[64];
        (void)snprintf(left, sizeof left, "%c%c%s --%s%s%s", arguments[i].letter ? '-' : ' ',
                       arguments[i].letter ? arguments[i].letter : ' ',
                       arguments[i].letter ? "," : " ", arguments[i].name,
                       arguments[i].argument ? "=" : "",
                       arguments[i].argument ? arguments[i].argument : "");
        fprintf(out, "  %-32s %s\n", left, arguments[i].help);
    }
    fputs("\nexit codes: 0 done, 2 wrong usage, 3 not a readable trace, 4 not whole (--strict), "
          "5 cannot write\n",
          out);
}

// Place of one of "a|b|c", -1 if it is none.
static int choose(const char *value, const char *choices) {
    const size_t length = strlen(value);
    for (int i = 0;; i++) {
        const size_t n = strcspn(choices, "|");
        if (n == length && strncmp(value, choices, n) == 0)
            return i;
        if (!choices[n])
            return -1;
        choices += n + 1;
    }
}

static int whole(const char *value, unsigned long most, unsigned long *to) {
    char *end;
    if (!value || *value < '0' || *value > '9')
        return -1;
    *to = strtoul(value, &end, 10);
    return *end || *to > most ? -1 : 0;
}

static int apply(struct ct_options *o, enum argument a, const char *value) {
    unsigned long number = 0;
    if (arguments[a].argument && !value)
        return -1;
    const int choice = value && arguments[a].argument ? choose(value, arguments[a].argument) : -1;
    switch (a) {
    case ARG_JSON:
        o->json = 1;
        return 0;
    case ARG_CAPACITY:
        return ct_human_parse_bytes(value, &o->capacity) || !o->capacity ? -1 : 0;
    case ARG_DEVICE:
        if (whole(value, 63, &number))
            return -1;
        o->device = (int)number;
        return 0;
    case ARG_FROM:
        o->have_from = 1;
        return ct_human_parse_duration(value, &o->from_ns);
    case ARG_TO:
        o->have_to = 1;
        return ct_human_parse_duration(value, &o->to_ns);
    case ARG_TOP:
        if (whole(value, 1000000, &number) || !number)
            return -1;
        o->top = (unsigned)number;
        return 0;
    case ARG_UNITS:
        o->units = (enum ct_human_units)choice;
        return choice < 0 ? -1 : 0;
    case ARG_COLOR:
        o->color = (enum ct_choice)choice;
        return choice < 0 ? -1 : 0;
    case ARG_PROGRESS:
        o->progress = (enum ct_choice)choice;
        return choice < 0 ? -1 : 0;
    case ARG_NO_PAGER:
        o->no_pager = 1;
        return 0;
    case ARG_STRICT:
        o->strict = 1;
        return 0;
    case ARG_NO_JOURNAL:
        o->no_journal = 1;
        return 0;
    case ARG_OUTPUT:
        o->output = value;
        return *value ? 0 : -1;
    case ARG_FORCE:
        o->force = 1;
        return 0;
    case ARG_FORMAT:
        return choice < 0 ? -1 : 0;
    case ARG_EVENTS:
        if (strcmp(value, "all") == 0)
            number = ULONG_MAX;
        else if (whole(value, ULONG_MAX - 1, &number) || !number)
            return -1;
        o->events = number;
        return 0;
    case ARG_SYSROOT:
        o->lines.sysroot = value;
        return *value ? 0 : -1;
    case ARG_DEBUG_DIR:
        o->lines.debug_dir = value;
        return *value ? 0 : -1;
    case ARG_DEBUGINFOD:
        o->lines.debuginfod = 1;
        return 0;
    case ARG_ALL_FRAMES:
        o->all_frames = 1;
        return 0;
    case ARG_DEMANGLE:
        o->have_demangling = 1;
        o->demangling = (enum ct_demangling)choice;
        return choice < 0 ? -1 : 0;
    case ARG_NOISE:
        o->noise = 1;
        return 0;
    case ARG_LICENSES:
        o->licenses = 1;
        return 0;
    case ARG_HELP:
        o->help = 1;
        return 0;
    case ARG_VERSION:
        o->version = 1;
        return 0;
    case ARGUMENTS:
        break;
    }
    return -1;
}

static int find(const char *name, size_t length, char letter) {
    for (int i = 0; i < ARGUMENTS; i++)
        if (!name ? arguments[i].letter == letter
                  : strlen(arguments[i].name) == length &&
                        strncmp(arguments[i].name, name, length) == 0)
            return i;
    return -1;
}

// One option and, where it has one, its value from the same or the next word.
static int option(struct ct_options *o, int argc, char **argv, int *i, struct ct_error *error) {
    const char *word = argv[*i], *value = NULL;
    int a;
    if (word[1] == '-') {
        const size_t length = strcspn(word + 2, "=");
        a = find(word + 2, length, 0);
        if (word[2 + length] == '=')
            value = word + 3 + length;
    } else {
        a = find(NULL, 0, word[1]);
        if (word[2])
            value = word + 2;
    }
    if (a < 0)
        return ct_error_set(error, CT_EXIT_USAGE, "unknown option %.100s; see cutrace-report --help", word);
    if (!arguments[a].argument && value)
        return ct_error_set(error, CT_EXIT_USAGE, "--%s takes no value", arguments[a].name);
    if (arguments[a].argument && !value) {
        if (*i + 1 >= argc)
            return ct_error_set(error, CT_EXIT_USAGE, "--%s needs a value: %s", arguments[a].name,
                           arguments[a].argument);
        value = argv[++*i];
    }
    if (apply(o, (enum argument)a, value))
        return ct_error_set(error, CT_EXIT_USAGE, "--%s=%.100s: expected %s: %s", arguments[a].name, value,
                       arguments[a].argument, arguments[a].help);
    return 0;
}

// A word as a command's, and no file has that name.
static int is_mistyped(const char *word) {
    return word[strspn(word, "abcdefghijklmnopqrstuvwxyz")] == 0 && access(word, F_OK) != 0;
}

int ct_arguments_parse(struct ct_options *o, int argc, char **argv, struct ct_error *error) {
    *o = (struct ct_options){.device = -1};
    o->paths = argv; // filled in place: never ahead of what is read
    int only_paths = 0, have_command = 0;
    for (int i = 1; i < argc; i++) {
        if (!only_paths && strcmp(argv[i], "--") == 0) {
            only_paths = 1;
            continue;
        }
        if (!only_paths && argv[i][0] == '-' && argv[i][1]) {
            if (option(o, argc, argv, &i, error))
                return -1;
            continue;
        }
        int command = -1;
        for (int c = 0; !only_paths && !have_command && !o->path_count && c < CT_COMMANDS; c++)
            if (strcmp(argv[i], commands[c].name) == 0)
                command = c;
        if (command >= 0) {
            o->command = (enum ct_command)command;
            have_command = 1;
        } else {
            o->paths[o->path_count++] = argv[i];
        }
    }
    if (o->help || o->version || o->licenses || o->noise)
        return 0;
    if (o->path_count && !have_command && !only_paths && is_mistyped(o->paths[0]))
        return ct_error_set(error, CT_EXIT_USAGE,
                       "%.100s: neither a command nor a file; see cutrace-report --help",
                       o->paths[0]);
    if (!o->path_count)
        return ct_error_set(error, CT_EXIT_USAGE, "no trace named; usage: cutrace-report [COMMAND] TRACE...");
    if ((o->output || o->force) && o->command != CT_COMMAND_seal &&
        o->command != CT_COMMAND_symbolize && o->command != CT_COMMAND_export)
        return ct_error_set(error, CT_EXIT_USAGE,
                       "--output and --force are for the commands seal, symbolize and export");
    if (o->events && o->command != CT_COMMAND_export)
        return ct_error_set(error, CT_EXIT_USAGE, "--events is for the command export");
    if (o->output && strcmp(o->output, "-") == 0)
        return ct_error_set(error, CT_EXIT_USAGE, "--output=-: the result is a file; name one");
    if (o->output && o->path_count > 1)
        return ct_error_set(error, CT_EXIT_USAGE, "--output takes one trace");
    const char *servers = getenv("DEBUGINFOD_URLS");
    if (o->lines.debuginfod && (!servers || !*servers))
        return ct_error_set(error, CT_EXIT_USAGE,
                       "--debuginfod: no server is named in the environment: DEBUGINFOD_URLS");
    if (o->have_from && o->have_to && o->from_ns > o->to_ns)
        return ct_error_set(error, CT_EXIT_USAGE, "--from is later than --to");
    return 0;
}
