// SPDX-License-Identifier: Apache-2.0
// Parses the command line by the table in arguments.def. Options, the command and file names may
// come in any order.
#include "cli/arguments.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/command_line.h"
#include "diagnose/kv_arithmetic.h"

enum {
    BUNDLE_BYTES = 25000000, // what bug trackers take
    MOST_ROWS = 1000000      // of a table
};

struct parser {
    struct ct_arguments *o;
    struct ct_words words;
    int asks_help;            // "help" was read
    char given[CT_ARGUMENTS]; // 0, '-' as --name, or the letter
    struct ct_error *error;
};

// An option as it was typed: "--top" or "-n".
static struct ct_human_text spell(const struct parser *p, enum ct_argument a) {
    return p->given[a] == '-' ? ct_human_format("--%s", ct_argument_table.options[a].name)
                              : ct_human_format("-%c", p->given[a]);
}

static int parse_whole(const char *value, unsigned long most, unsigned long *to) {
    char *end;
    if (!value || *value < '0' || *value > '9')
        return -1;
    *to = strtoul(value, &end, 10);
    return *end || *to > most ? -1 : 0;
}

// Returns the field of an option without a value, or NULL.
static int *find_flag(struct ct_arguments *o, enum ct_argument a) {
    int *const flags[CT_ARGUMENTS] = {
        [CT_ARGUMENT_JSON] = &o->json,
        [CT_ARGUMENT_STRICT] = &o->strict,
        [CT_ARGUMENT_QUICK] = &o->quick,
        [CT_ARGUMENT_NO_JOURNAL] = &o->no_journal,
        [CT_ARGUMENT_FORCE] = &o->force,
        [CT_ARGUMENT_ALL_FRAMES] = &o->all_frames,
        [CT_ARGUMENT_SEGMENTS] = &o->segments,
        [CT_ARGUMENT_TREE] = &o->tree,
        [CT_ARGUMENT_HELP] = &o->help,
        [CT_ARGUMENT_VERSION] = &o->version,
        [CT_ARGUMENT_SEAL] = &o->seal,
        [CT_ARGUMENT_SYMBOLIZE] = &o->symbolize,
        [CT_ARGUMENT_DEBUGINFOD] = &o->lines.debuginfod,
    };
    return flags[a];
}

// A choice that a word may follow: "csv:events". *word: NULL without one. Returns its number or -1.
static int parse_choice_and_word(const char *value, const char *choices, const char **word) {
    char name[24];
    const size_t length = strcspn(value, ":");
    *word = value[length] ? value + length + 1 : NULL;
    if (length >= sizeof name || (*word && !**word))
        return -1;
    memcpy(name, value, length);
    name[length] = 0;
    return ct_parse_choice(name, choices);
}

static int set_scrub(struct ct_arguments *o, const char *value) {
    const int level = parse_choice_and_word(
        value, ct_argument_table.options[CT_ARGUMENT_SCRUB].argument, &o->salt);
    o->level = (enum ct_scrub_level)level;
    return level < 0 || (o->salt && level == CT_SCRUB_NO) ? -1 : 0;
}

static int set_format(struct ct_arguments *o, const char *value) {
    const char *name;
    const int format = parse_choice_and_word(value, ct_export_format_names + 1, &name);
    const int table = name ? ct_parse_choice(name, ct_export_table_names + 1) : 0;
    if (format < 0 || table < 0 || (name && !(ct_export_formats[format].options & CT_EXPORT_TABLE)))
        return -1;
    o->format = (enum ct_export_format)format;
    o->table = (unsigned)table;
    return 0;
}

static int set_choice(struct ct_arguments *o, enum ct_argument a, const char *value) {
    const int choice = ct_parse_choice(value, ct_argument_table.options[a].argument);
    if (choice < 0)
        return -1;
    switch (a) {
    case CT_ARGUMENT_UNITS:
        o->units = (enum ct_human_units)choice;
        return 0;
    case CT_ARGUMENT_COLOR:
        o->color = (enum ct_choice)choice;
        return 0;
    case CT_ARGUMENT_DEMANGLE:
        o->have_demangling = 1;
        o->demangling = (enum ct_demangling)choice;
        return 0;
    default:
        return -1;
    }
}

static int set_top(struct ct_arguments *o, const char *value) {
    unsigned long number = ULONG_MAX;
    if (strcmp(value, "all") != 0 && (parse_whole(value, ULONG_MAX - 1, &number) || !number))
        return -1;
    o->events = number;
    o->top = number < MOST_ROWS ? (unsigned)number : MOST_ROWS;
    return 0;
}

// The last one counts, and for diff the last two.
static int set_at(struct ct_arguments *o, const char *value) {
    const struct ct_time before = o->at;
    const int end_before = o->at_end;
    o->at = (struct ct_time){.kind = CT_TIME_NONE};
    o->at_end = strcmp(value, "end") == 0;
    if (!o->at_end && ct_parse_time(value, &o->at))
        return -1;
    o->at_before = o->at_count ? before : o->at;
    o->at_end_before = o->at_count ? end_before : o->at_end;
    o->at_count++;
    return 0;
}

static int set_capacity(struct ct_arguments *o, const char *value) {
    struct ct_parsed_size size;
    if (ct_parse_size(value, &size) != CT_PARSE_OK || !size.bytes)
        return -1;
    o->capacity = size.bytes;
    o->capacity_decimal = size.decimal;
    o->capacity_text = value;
    return 0;
}

static int set_allocator(struct ct_arguments *o, const char *value) {
    o->allocator = value;
    return ct_allocator_settings_parse(&o->allocator_settings, value, strlen(value),
                                       o->allocator_error);
}

// The size of a zip file, whose offsets have 32 bits.
static int set_max_size(struct ct_arguments *o, const char *value) {
    struct ct_parsed_size size;
    if (ct_parse_size(value, &size) != CT_PARSE_OK || !size.bytes || size.bytes > UINT32_MAX - 1)
        return -1;
    o->max_bytes = size.bytes;
    return 0;
}

// A text, or the name of a file, which is not empty.
static int set_text(const char **to, const char *value) {
    *to = value;
    return *value ? 0 : -1;
}

static int set_value(struct ct_arguments *o, enum ct_argument a, const char *value) {
    unsigned long number = 0;
    switch (a) {
    case CT_ARGUMENT_CAPACITY:
        return set_capacity(o, value);
    case CT_ARGUMENT_ALLOCATOR:
        return set_allocator(o, value);
    case CT_ARGUMENT_DEVICE:
        if (parse_whole(value, 63, &number))
            return -1;
        o->device = (int)number;
        return 0;
    case CT_ARGUMENT_FROM:
        return ct_parse_time(value, &o->from);
    case CT_ARGUMENT_TO:
        return ct_parse_time(value, &o->to);
    case CT_ARGUMENT_AT:
        return set_at(o, value);
    case CT_ARGUMENT_FAIL_ON:
        return ct_fail_on_parse(&o->fail_on, value);
    case CT_ARGUMENT_TOP:
        return set_top(o, value);
    case CT_ARGUMENT_FORMAT:
        return set_format(o, value);
    case CT_ARGUMENT_SCRUB:
        return set_scrub(o, value);
    case CT_ARGUMENT_OUTPUT:
        return set_text(&o->output, value);
    case CT_ARGUMENT_LOG:
        return o->log[1] ? -1 : set_text(&o->log[o->log[0] != NULL], value);
    case CT_ARGUMENT_LENGTHS:
        o->lengths = value;
        return ct_kv_waste_add_list(&(struct ct_kv_waste){0}, value, 1);
    case CT_ARGUMENT_MAX_SIZE:
        return set_max_size(o, value);
    case CT_ARGUMENT_WORDS:
        return set_text(&o->words, value);
    case CT_ARGUMENT_RULES:
        return set_text(&o->rules, value);
    case CT_ARGUMENT_SYSROOT:
        return set_text(&o->lines.sysroot, value);
    case CT_ARGUMENT_DEBUG_DIR:
        return set_text(&o->lines.debug_dir, value);
    default:
        return set_choice(o, a, value);
    }
}

static int set_argument(struct ct_arguments *o, enum ct_argument a, const char *value) {
    int *flag = find_flag(o, a);
    if (flag) {
        *flag = 1;
        return 0;
    }
    return value ? set_value(o, a, value) : -1;
}

// ---- errors -------------------------------------------------------------------------------------

// What a value may be: of a format whose tables are wrong, these.
static const char *expected(enum ct_argument a, const char *value) {
    const char *word;
    if (a != CT_ARGUMENT_FORMAT)
        return ct_argument_table.options[a].argument;
    const int format = parse_choice_and_word(value, ct_export_format_names + 1, &word);
    return format < 0 ? ct_export_format_names + 1
           : (ct_export_formats[format].options & CT_EXPORT_TABLE)
               ? ct_export_table_names + 1
               : "no table, which csv and ndjson have";
}

// Sets `word` to the one of "a|b|c" that was meant. Returns 0 if none is near enough. Names in
// capitals stand for values of another kind.
static int find_meant(const char *choices, const char *value, char *word, size_t size) {
    const char *typed = strrchr(value, ':') ? strrchr(value, ':') + 1 : value;
    struct ct_nearest n = {.typed = typed, .length = strlen(typed)};
    size_t edits = n.length / 2 + 1; // ("foo" is no "oom")
    *word = 0;
    for (const char *at = choices; *at; at += *at == '|') {
        char choice[32];
        const char *end = at + strcspn(at, "|");
        (void)snprintf(choice, sizeof choice, "%.*s", (int)(end - at), at);
        at = end;
        n.best = NULL;
        if (islower((unsigned char)*choice))
            ct_nearest_try(&n, choice);
        if (!n.best || n.edits >= edits)
            continue;
        edits = n.edits;
        (void)snprintf(word, size, "%s", choice);
    }
    return *word != 0;
}

static int report_wrong_value(const struct parser *p, enum ct_argument a, const char *value) {
    const struct ct_option_row *row = &ct_argument_table.options[a];
    const char *separator = p->given[a] == '-' ? "=" : " ";
    struct ct_parsed_size size;
    char word[32];
    if (a == CT_ARGUMENT_CAPACITY && ct_parse_size(value, &size) == CT_PARSE_NO_UNIT)
        return ct_error_set(p->error, CT_EXIT_USAGE,
                            "%s%s%.40s: a size needs its unit: write %.40sGiB, %.40sGB or %.40sB",
                            spell(p, a).text, separator, value, value, value, value);
    if (a == CT_ARGUMENT_FAIL_ON)
        return ct_error_set(p->error, CT_EXIT_USAGE, "%s%s%.100s: %s", spell(p, a).text, separator,
                            value, p->o->fail_on.reason);
    if (a == CT_ARGUMENT_ALLOCATOR)
        return ct_error_set(p->error, CT_EXIT_USAGE, "%s: %s", spell(p, a).text,
                            p->o->allocator_error);
    if (find_meant(expected(a, value), value, word, sizeof word))
        return ct_error_set(p->error, CT_EXIT_USAGE, "%s%s%.100s: did you mean %s? It takes %s",
                            spell(p, a).text, separator, value, word, expected(a, value));
    return ct_error_set(p->error, CT_EXIT_USAGE, "%s%s%.100s: expected %s: %.*s", spell(p, a).text,
                        separator, value, expected(a, value),
                        (int)ct_command_line_clause(row->help), row->help);
}

// "only top has it", or "summary, oom and top have it".
static void list_commands(enum ct_argument a, char *to, size_t size) {
    int left = 0;
    size_t at = 0;
    for (int c = 0; c < CT_COMMANDS; c++)
        left += ct_command_line_takes(&ct_argument_table, c, (int)a);
    const char *end = left == 1 ? " alone has it" : " have it";
    for (int c = 0; c < CT_COMMANDS && at < size; c++) {
        if (!ct_command_line_takes(&ct_argument_table, c, (int)a))
            continue;
        left--;
        at += (size_t)snprintf(to + at, size - at, "%s%s", ct_argument_table.commands[c].name,
                               left > 1 ? ", "
                               : left   ? " and "
                                        : end);
    }
}

static int report_unused_option(const struct parser *p, enum ct_argument a) {
    char list[300];
    list_commands(a, list, sizeof list);
    return ct_error_set(p->error, CT_EXIT_USAGE, "%s: %s has no use for it; %s", spell(p, a).text,
                        ct_argument_table_name(p->o->command), list);
}

static int report_mistyped(const struct parser *p, const char *word, const char *what,
                           const char *nearest) {
    if (nearest)
        return ct_error_set(p->error, CT_EXIT_USAGE, "%.100s: %s; did you mean `%s`?", word, what,
                            nearest);
    return ct_error_set(p->error, CT_EXIT_USAGE, "%.100s: %s; see cutrace-report --help", word,
                        what);
}

// ---- words --------------------------------------------------------------------------------------

static int parse_option(struct parser *p, enum ct_argument a, const char *word) {
    p->given[a] = word[1];
    return set_argument(p->o, a, p->words.value) ? report_wrong_value(p, a, p->words.value) : 0;
}

// Parses a word that is no option: "help", a command, or a path. A name of a command, also an old
// one, is never a path; ./top is one.
static int parse_word(struct parser *p, char *word) {
    struct ct_arguments *o = p->o;
    const char *nearest = NULL;
    const int is_path = p->words.only_plain, is_first = !is_path && !o->have_command;
    const int command =
        is_path ? -1 : ct_command_line_find_command(&ct_argument_table, word, &nearest);
    const char *now = is_first ? ct_command_line_now(&ct_argument_table, word, strlen(word)) : NULL;
    if (now)
        return ct_error_set(p->error, CT_EXIT_USAGE, "%s is the old name; write now: %s", word,
                            now);
    if (command >= 0 && o->have_command)
        return ct_error_set(p->error, CT_EXIT_USAGE,
                            "two commands, %s and %s; a trace of that name is ./%s",
                            ct_argument_table_name(o->command), word, word);
    if (command >= 0) {
        o->command = (enum ct_command)command;
        o->have_command = 1;
    } else if (is_first && strcmp(word, "help") == 0) {
        p->asks_help = o->help = 1;
    } else if (p->asks_help && strcmp(word, "noise") == 0) {
        o->topic = CT_HELP_OF_NOISE;
    } else if (p->asks_help && strcmp(word, "licenses") == 0) {
        o->topic = CT_HELP_OF_LICENSES;
    } else if (p->asks_help) {
        return report_mistyped(p, word, "not a command", nearest);
    } else {
        o->paths[o->path_count++] = word;
    }
    return 0;
}

// Whether a word looks like a command, and no file has that name.
static int is_mistyped(const char *word) {
    return word[strspn(word, "abcdefghijklmnopqrstuvwxyz")] == 0 && access(word, F_OK) != 0;
}

// ---- what does not go together ------------------------------------------------------------------

static int check_output(const struct parser *p) {
    const struct ct_arguments *o = p->o;
    if (!o->output)
        return 0;
    const int may_be_stdout = o->command == CT_COMMAND_export || o->command == CT_COMMAND_html;
    if (strcmp(o->output, "-") == 0 && (!may_be_stdout || o->json))
        return ct_error_set(p->error, CT_EXIT_USAGE, "%s: the result must be a file; name one",
                            p->given[CT_ARGUMENT_OUTPUT] == '-' ? "--output=-" : "-o -");
    if (o->path_count > 1 && o->command != CT_COMMAND_html && o->command != CT_COMMAND_bundle &&
        o->command != CT_COMMAND_copy)
        return ct_error_set(p->error, CT_EXIT_USAGE, "%s takes one trace",
                            spell(p, CT_ARGUMENT_OUTPUT).text);
    return 0;
}

// One of the files may be standard input.
static int check_log(const struct parser *p) {
    const struct ct_arguments *o = p->o;
    int count = 0;
    for (int i = 0; i < o->path_count; i++)
        count += strcmp(o->paths[i], "-") == 0;
    for (int i = 0; i < 2 && o->log[i]; i++)
        if (strcmp(o->log[i], "-") == 0 && count++)
            return ct_error_set(p->error, CT_EXIT_USAGE,
                                "--log=-: standard input is read already; name a file");
    return 0;
}

static int check_paths(const struct parser *p) {
    const struct ct_arguments *o = p->o;
    const char *nearest;
    if (o->command == CT_COMMAND_explain)
        return 0; // (standard input, if there is none)
    for (int i = 0; i < o->path_count && !o->have_command && !p->words.only_plain; i++)
        if (is_mistyped(o->paths[i])) {
            (void)ct_command_line_find_command(&ct_argument_table, o->paths[i], &nearest);
            return report_mistyped(p, o->paths[i], "neither a command nor a file", nearest);
        }
    if (!o->path_count)
        return ct_error_set(p->error, CT_EXIT_USAGE,
                            "no trace named; usage: cutrace-report %s [OPTION...] TRACE...",
                            o->have_command ? ct_argument_table_name(o->command) : "[COMMAND]");
    return 0;
}

// diff compares two traces, or two moments of one.
static int check_diff(const struct parser *p) {
    const struct ct_arguments *o = p->o;
    if (o->command != CT_COMMAND_diff) {
        if (ct_fail_on_has_change(&o->fail_on))
            return ct_error_set(p->error, CT_EXIT_USAGE,
                                "--fail-on: a bound with + is a change, and only diff knows one");
        return 0;
    }
    if (o->path_count > 2)
        return ct_error_set(p->error, CT_EXIT_USAGE, "diff compares two traces, and %d are named",
                            o->path_count);
    if (o->path_count == 2 && strcmp(o->paths[0], "-") == 0 && strcmp(o->paths[1], "-") == 0)
        return ct_error_set(p->error, CT_EXIT_USAGE,
                            "diff: standard input is one trace; name a file for the other");
    if (o->path_count == 1 && o->at_count < 2)
        return ct_error_set(p->error, CT_EXIT_USAGE,
                            "diff compares two traces, or two moments of one: name a second trace, "
                            "or give --at twice: --at=1h --at=oom");
    if (o->at_count > 2)
        return ct_error_set(p->error, CT_EXIT_USAGE,
                            "diff compares two moments, and --at is given %u times", o->at_count);
    return 0;
}

// Refuses those that were given of a list that ends with CT_ARGUMENTS.
static int refuse(const struct parser *p, const enum ct_argument *list, const char *why) {
    for (; *list != CT_ARGUMENTS; list++)
        if (p->given[*list])
            return ct_error_set(p->error, CT_EXIT_USAGE, "%s: %s", spell(p, *list).text, why);
    return 0;
}

static int check_copy(const struct parser *p) {
    static const enum ct_argument of_copies[] = {
        CT_ARGUMENT_OUTPUT,    CT_ARGUMENT_FROM,       CT_ARGUMENT_TO, CT_ARGUMENT_SCRUB,
        CT_ARGUMENT_SYMBOLIZE, CT_ARGUMENT_NO_JOURNAL, CT_ARGUMENTS};
    static const enum ct_argument of_scrub[] = {CT_ARGUMENT_WORDS, CT_ARGUMENTS};
    static const enum ct_argument of_symbolize[] = {CT_ARGUMENT_SYSROOT, CT_ARGUMENT_DEBUG_DIR,
                                                    CT_ARGUMENT_DEBUGINFOD, CT_ARGUMENTS};
    const struct ct_arguments *o = p->o;
    if (o->command != CT_COMMAND_copy)
        return 0;
    if (o->seal && refuse(p, of_copies, "--seal writes no copy, it changes the trace itself"))
        return -1;
    if (o->level == CT_SCRUB_NO && refuse(p, of_scrub, "needs --scrub=paths or --scrub=strict"))
        return -1;
    return !o->symbolize && refuse(p, of_symbolize, "needs --symbolize") ? -1 : 0;
}

// A format of `export` has no use for some of its options.
static int check_format(const struct parser *p) {
    static const struct {
        enum ct_argument argument;
        unsigned option;
    } rows[] = {{CT_ARGUMENT_AT, CT_EXPORT_AT}, {CT_ARGUMENT_TOP, CT_EXPORT_EVENTS}};
    const struct ct_export_format_row *format = &ct_export_formats[p->o->format];
    for (size_t i = 0; i < sizeof rows / sizeof *rows && p->o->command == CT_COMMAND_export; i++)
        if (p->given[rows[i].argument] && !(format->options & rows[i].option))
            return ct_error_set(p->error, CT_EXIT_USAGE, "%s: --format=%s has no use for it",
                                spell(p, rows[i].argument).text, format->name);
    return 0;
}

// At one moment, top and frag read the events after a checkpoint. Only all events tell when the
// OOM or the peak was.
static int check_quick_moment(const struct parser *p) {
    const enum ct_time_kind kind = p->o->at.kind;
    static const enum ct_argument of_ranges[] = {CT_ARGUMENT_FROM, CT_ARGUMENT_TO,
                                                 CT_ARGUMENT_RULES, CT_ARGUMENTS};
    if (refuse(p, of_ranges, "needs all events, which --quick does not read"))
        return -1;
    if (kind == CT_TIME_OF_CROSSING || kind == CT_TIME_OF_PEAK)
        return ct_error_set(p->error, CT_EXIT_USAGE,
                            "%s: only all events tell when that was; with --quick name a time or "
                            "an event (summary --quick has the peak's)",
                            spell(p, CT_ARGUMENT_AT).text);
    return 0;
}

// What needs events, a digest does not know.
static int check_quick(const struct parser *p) {
    static const enum ct_argument needs_events[] = {
        CT_ARGUMENT_CAPACITY, CT_ARGUMENT_DEVICE,  CT_ARGUMENT_FROM,
        CT_ARGUMENT_TO,       CT_ARGUMENT_AT,      CT_ARGUMENT_LOG,
        CT_ARGUMENT_RULES,    CT_ARGUMENT_FAIL_ON, CT_ARGUMENTS};
    if (!p->o->quick)
        return 0;
    if (p->o->command == CT_COMMAND_top || p->o->command == CT_COMMAND_frag)
        return check_quick_moment(p);
    return refuse(p, needs_events, "needs events, which --quick does not read");
}

static int check_arguments(const struct parser *p) {
    const struct ct_arguments *o = p->o;
    const char *servers = getenv("DEBUGINFOD_URLS");
    if (check_paths(p))
        return -1;
    for (int a = 0; a < CT_ARGUMENTS; a++)
        if (p->given[a] && !ct_argument_table_takes(o->command, (enum ct_argument)a))
            return report_unused_option(p, (enum ct_argument)a);
    if (check_output(p) || check_log(p) || check_copy(p) || check_diff(p) || check_format(p) ||
        check_quick(p))
        return -1;
    if (o->lines.debuginfod && (!servers || !*servers))
        return ct_error_set(p->error, CT_EXIT_USAGE,
                            "--debuginfod: the environment names no server: set DEBUGINFOD_URLS");
    return 0;
}

int ct_arguments_parse(struct ct_arguments *o, int argc, char **argv, struct ct_error *error) {
    struct parser p = {.o = o, .error = error};
    p.words = (struct ct_words){
        .table = &ct_argument_table, .command = -1, .argc = argc, .argv = argv, .at = 1};
    *o = (struct ct_arguments){.device = -1};
    o->paths = argv; // filled in place, never ahead of the word that is read
    for (;;) {
        const char *word = argv[p.words.at];
        const int found = ct_words_next(&p.words);
        if (found == CT_WORD_END)
            break;
        if (found == CT_WORD_WRONG) {
            *error = p.words.error;
            return -1;
        }
        if (found == CT_WORD_PLAIN ? parse_word(&p, argv[p.words.at - 1])
                                   : parse_option(&p, (enum ct_argument)found, word))
            return -1;
    }
    if (!o->max_bytes)
        o->max_bytes = o->command == CT_COMMAND_bundle ? BUNDLE_BYTES : UINT32_MAX - 1;
    if (!p.given[CT_ARGUMENT_SCRUB])
        o->level = o->command == CT_COMMAND_bundle ? CT_SCRUB_PATHS : CT_SCRUB_NO;
    if (o->help || o->version)
        return 0;
    return check_arguments(&p);
}
