// SPDX-License-Identifier: Apache-2.0
// Parses the command line by the table in arguments.def. Options, the command and file names may
// come in any order.
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
        "Shows what filled a GPU's memory, from traces that libcutrace.so wrote. \"-\" is standard "
        "input.\n\ncommands:\n",
        out);
    for (size_t i = 0; i < CT_COMMANDS; i++)
        fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].help);
    fputs("\noptions:\n", out);
    for (size_t i = 0; i < ARGUMENTS; i++) {
        const char *argument = arguments[i].argument;
        char letter[5] = "   ", left[64];
        if (arguments[i].letter)
            (void)snprintf(letter, sizeof letter, "-%c,", arguments[i].letter);
        (void)snprintf(left, sizeof left, "%s --%s%s%s", letter, arguments[i].name,
                       argument ? "=" : "", argument ? argument : "");
        fprintf(out, "  %-32s %s\n", left, arguments[i].help);
    }
    fputs("\nexit codes: 0 done, 2 wrong usage, 3 not a readable trace, 4 the end of the trace is "
          "missing\n(--strict: or anything else), 5 cannot write\n",
          out);
}

// Returns the position of one of "a|b|c", -1 if it is none.
static int find_choice(const char *value, const char *choices) {
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

static int parse_whole(const char *value, unsigned long most, unsigned long *to) {
    char *end;
    if (!value || *value < '0' || *value > '9')
        return -1;
    *to = strtoul(value, &end, 10);
    return *end || *to > most ? -1 : 0;
}

// Returns the field of an option without a value, or NULL.
static int *find_flag(struct ct_arguments *o, enum argument a) {
    switch (a) {
    case ARG_JSON:
        return &o->json;
    case ARG_NO_PAGER:
        return &o->no_pager;
    case ARG_STRICT:
        return &o->strict;
    case ARG_NO_JOURNAL:
        return &o->no_journal;
    case ARG_FORCE:
        return &o->force;
    case ARG_ALL_FRAMES:
        return &o->all_frames;
    case ARG_SEGMENTS:
        return &o->segments;
    case ARG_NOISE:
        return &o->noise;
    case ARG_LICENSES:
        return &o->licenses;
    case ARG_HELP:
        return &o->help;
    case ARG_VERSION:
        return &o->version;
    case ARG_DEBUGINFOD:
        return &o->lines.debuginfod;
    default:
        return NULL;
    }
}

static int set_choice(struct ct_arguments *o, enum argument a, const char *value) {
    const int choice = find_choice(value, arguments[a].argument);
    if (choice < 0)
        return -1;
    switch (a) {
    case ARG_UNITS:
        o->units = (enum ct_human_units)choice;
        return 0;
    case ARG_COLOR:
        o->color = (enum ct_choice)choice;
        return 0;
    case ARG_PROGRESS:
        o->progress = (enum ct_choice)choice;
        return 0;
    case ARG_DEMANGLE:
        o->have_demangling = 1;
        o->demangling = (enum ct_demangling)choice;
        return 0;
    case ARG_FORMAT: // there is one so far
        return 0;
    default:
        return -1;
    }
}

static int set_events(struct ct_arguments *o, const char *value) {
    unsigned long number = ULONG_MAX;
    if (strcmp(value, "all") != 0 && (parse_whole(value, ULONG_MAX - 1, &number) || !number))
        return -1;
    o->events = number;
    return 0;
}

// "oom|peak|end" are the first kinds of a moment; everything else is a time.
static int set_at(struct ct_arguments *o, const char *value) {
    const int choice = find_choice(value, "oom|peak|end");
    o->have_at = 1;
    o->at = choice < 0 ? CT_MOMENT_TIME : (enum ct_moment_kind)choice;
    return choice < 0 ? ct_human_parse_duration(value, &o->at_ns) : 0;
}

static int set_value(struct ct_arguments *o, enum argument a, const char *value) {
    unsigned long number = 0;
    switch (a) {
    case ARG_CAPACITY:
        return ct_human_parse_bytes(value, &o->capacity) || !o->capacity ? -1 : 0;
    case ARG_DEVICE:
        if (parse_whole(value, 63, &number))
            return -1;
        o->device = (int)number;
        return 0;
    case ARG_FROM:
        o->have_from = 1;
        return ct_human_parse_duration(value, &o->from_ns);
    case ARG_TO:
        o->have_to = 1;
        return ct_human_parse_duration(value, &o->to_ns);
    case ARG_AT:
        return set_at(o, value);
    case ARG_TOP:
        if (parse_whole(value, 1000000, &number) || !number)
            return -1;
        o->top = (unsigned)number;
        return 0;
    case ARG_EVENTS:
        return set_events(o, value);
    case ARG_OUTPUT:
        o->output = value;
        return *value ? 0 : -1;
    case ARG_SYSROOT:
        o->lines.sysroot = value;
        return *value ? 0 : -1;
    case ARG_DEBUG_DIR:
        o->lines.debug_dir = value;
        return *value ? 0 : -1;
    default:
        return set_choice(o, a, value);
    }
}

static int set_argument(struct ct_arguments *o, enum argument a, const char *value) {
    int *flag = find_flag(o, a);
    if (flag) {
        *flag = 1;
        return 0;
    }
    return value ? set_value(o, a, value) : -1;
}

// Finds an option by its long name, or by its letter if `name` is NULL; -1: there is none.
static int find_argument(const char *name, size_t length, char letter) {
    for (int i = 0; i < ARGUMENTS; i++) {
        if (!name && arguments[i].letter == letter)
            return i;
        if (name && strlen(arguments[i].name) == length &&
            strncmp(arguments[i].name, name, length) == 0)
            return i;
    }
    return -1;
}

// Parses one option and, where it has one, its value from the same or the next word.
static int parse_option(struct ct_arguments *o, int argc, char **argv, int *i,
                        struct ct_error *error) {
    const char *word = argv[*i], *value = NULL;
    int a;
    if (word[1] == '-') {
        const size_t length = strcspn(word + 2, "=");
        a = find_argument(word + 2, length, 0);
        if (word[2 + length] == '=')
            value = word + 3 + length;
    } else {
        a = find_argument(NULL, 0, word[1]);
        if (word[2])
            value = word + 2;
    }
    if (a < 0)
        return ct_error_set(error, CT_EXIT_USAGE,
                            "unknown option %.100s; see cutrace-report --help", word);
    if (!arguments[a].argument && value)
        return ct_error_set(error, CT_EXIT_USAGE, "--%s takes no value", arguments[a].name);
    if (arguments[a].argument && !value) {
        if (*i + 1 >= argc)
            return ct_error_set(error, CT_EXIT_USAGE, "--%s needs a value: %s", arguments[a].name,
                                arguments[a].argument);
        value = argv[++*i];
    }
    if (set_argument(o, (enum argument)a, value))
        return ct_error_set(error, CT_EXIT_USAGE, "--%s=%.100s: expected %s: %s", arguments[a].name,
                            value, arguments[a].argument, arguments[a].help);
    return 0;
}

static int find_command(const char *word) {
    for (int c = 0; c < CT_COMMANDS; c++)
        if (strcmp(word, commands[c].name) == 0)
            return c;
    return -1;
}

// Whether a word looks like a command, and no file has that name.
static int is_mistyped(const char *word) {
    return word[strspn(word, "abcdefghijklmnopqrstuvwxyz")] == 0 && access(word, F_OK) != 0;
}

static int check_output(const struct ct_arguments *o, struct ct_error *error) {
    const int writes = o->command == CT_COMMAND_seal || o->command == CT_COMMAND_symbolize ||
                       o->command == CT_COMMAND_export;
    if ((o->output || o->force) && !writes)
        return ct_error_set(error, CT_EXIT_USAGE,
                            "--output and --force are for the commands seal, symbolize and export");
    if (o->segments && o->command != CT_COMMAND_top)
        return ct_error_set(error, CT_EXIT_USAGE, "--segments is for the command top");
    if (o->events && o->command != CT_COMMAND_export)
        return ct_error_set(error, CT_EXIT_USAGE, "--events is for the command export");
    if (o->have_at && o->command != CT_COMMAND_frag)
        return ct_error_set(error, CT_EXIT_USAGE, "--at is for the command frag");
    if (o->output && strcmp(o->output, "-") == 0)
        return ct_error_set(error, CT_EXIT_USAGE,
                            "--output=-: the result must be a file; name one");
    if (o->output && o->path_count > 1)
        return ct_error_set(error, CT_EXIT_USAGE, "--output takes one trace");
    return 0;
}

static int check_arguments(const struct ct_arguments *o, int have_command, struct ct_error *error) {
    const char *servers = getenv("DEBUGINFOD_URLS");
    if (o->path_count && !have_command && is_mistyped(o->paths[0]))
        return ct_error_set(error, CT_EXIT_USAGE,
                            "%.100s: neither a command nor a file; see cutrace-report --help",
                            o->paths[0]);
    if (!o->path_count)
        return ct_error_set(error, CT_EXIT_USAGE,
                            "no trace named; usage: cutrace-report [COMMAND] TRACE...");
    if (check_output(o, error))
        return -1;
    if (o->lines.debuginfod && (!servers || !*servers))
        return ct_error_set(error, CT_EXIT_USAGE,
                            "--debuginfod: the environment names no server: set DEBUGINFOD_URLS");
    if (o->have_from && o->have_to && o->from_ns > o->to_ns)
        return ct_error_set(error, CT_EXIT_USAGE, "--from is later than --to");
    return 0;
}

int ct_arguments_parse(struct ct_arguments *o, int argc, char **argv, struct ct_error *error) {
    *o = (struct ct_arguments){.device = -1};
    o->paths = argv; // filled in place, never ahead of the word that is read
    int only_paths = 0, have_command = 0;
    for (int i = 1; i < argc; i++) {
        if (!only_paths && strcmp(argv[i], "--") == 0) {
            only_paths = 1;
            continue;
        }
        if (!only_paths && argv[i][0] == '-' && argv[i][1]) {
            if (parse_option(o, argc, argv, &i, error))
                return -1;
            continue;
        }
        const int may_be_command = !only_paths && !have_command && !o->path_count;
        const int command = may_be_command ? find_command(argv[i]) : -1;
        if (command >= 0) {
            o->command = (enum ct_command)command;
            have_command = 1;
        } else {
            o->paths[o->path_count++] = argv[i];
        }
    }
    if (o->help || o->version || o->licenses || o->noise)
        return 0;
    return check_arguments(o, have_command || only_paths, error);
}
