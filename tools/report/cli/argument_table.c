// SPDX-License-Identifier: Apache-2.0
#include "cli/argument_table.h"

#include <stdio.h>
#include <string.h>

#include "base/nearest.h"

// Sets of commands, for arguments.def.
#define ON(name) (1u << CT_COMMAND_##name)
#define ALL ((1u << CT_COMMANDS) - 1)
// FRAMES show stacks, EVENTS tell of events.
#define FRAMES \
    (ON(summary) | ON(oom) | ON(top) | ON(leaks) | ON(frag) | ON(phases) | ON(diff) | ON(dump))
#define EVENTS (FRAMES | ON(stats) | ON(timeline) | ON(export))

const struct ct_command_row ct_argument_table_commands[CT_COMMANDS] = {
#define CT_COMMAND(name, help, example) {#name, help, example},
#include "cli/arguments.def"
};

const struct ct_argument_row ct_argument_table[CT_ARGUMENTS] = {
#define CT_ARGUMENT(NAME, name, letter, argument, commands, help) \
    {name, argument, help, letter, commands},
#include "cli/arguments.def"
};

// Names of before, and what is written now.
static const struct {
    const char *name, *now;
} old_names[] = {
    {"seal", "cutrace-report copy --seal TRACE"},
    {"trim", "cutrace-report copy --from=TIME --to=TIME --output=FILE TRACE"},
    {"scrub", "cutrace-report copy --scrub=paths --output=FILE TRACE"},
    {"symbolize", "cutrace-report copy --symbolize --output=FILE TRACE"},
    {"merge", "cutrace-report copy --output=FILE.zip TRACE TRACE"},
    {"coverage", "cutrace-report info TRACE"},
    {"check", "cutrace-report info TRACE"},
    {"--level", "--scrub=paths, or --scrub=strict"},
    {"--around", "--from=oom-60s --to=oom+60s"},
    {"--dry-run", "--output=/dev/null --force"},
    {"--limit", "--top=N, or -n N"},
    {"--events", "--top=N, or -n N"},
    {"--noise", "cutrace-report help noise"},
    {"--licenses", "cutrace-report help licenses"},
    {"--no-pager", "PAGER=cat in the environment"},
    {"--progress", "nothing; progress is shown on a terminal alone"},
    {"--table", "--format=csv:TABLE, or ndjson:TABLE"},
    {"--salt", "--scrub=paths:SECRET, or strict:SECRET"},
    {"--metrics", "--log=FILE, also beside a --log of the server's log"},
    {"--error", "--log=FILE with the message, or --log=- and the message in a pipe"},
    {"--block-size", "--lengths=17,2048x10/16"},
};

const char *ct_argument_table_now(const char *word, size_t length) {
    for (size_t i = 0; i < sizeof old_names / sizeof *old_names; i++)
        if (strlen(old_names[i].name) == length && strncmp(old_names[i].name, word, length) == 0)
            return old_names[i].now;
    return NULL;
}

int ct_argument_table_find_command(const char *word) {
    for (int c = 0; c < CT_COMMANDS; c++)
        if (strcmp(word, ct_argument_table_commands[c].name) == 0)
            return c;
    return -1;
}

int ct_argument_table_find_name(const char *name, size_t length) {
    for (int a = 0; a < CT_ARGUMENTS; a++)
        if (strlen(ct_argument_table[a].name) == length &&
            strncmp(ct_argument_table[a].name, name, length) == 0)
            return a;
    return -1;
}

int ct_argument_table_find_letter(char letter) {
    for (int a = 0; a < CT_ARGUMENTS; a++)
        if (ct_argument_table[a].letter == letter)
            return a;
    return -1;
}

int ct_argument_table_takes(enum ct_command command, enum ct_argument argument) {
    return ct_argument_table[argument].commands >> command & 1;
}

const char *ct_argument_table_nearest_command(const char *word) {
    struct ct_nearest n = {.typed = word, .length = strlen(word)};
    for (int c = 0; c < CT_COMMANDS; c++)
        ct_nearest_try(&n, ct_argument_table_commands[c].name);
    return n.best;
}

const char *ct_argument_table_nearest_name(const char *name, size_t length) {
    struct ct_nearest n = {.typed = name, .length = length};
    for (int a = 0; a < CT_ARGUMENTS; a++)
        ct_nearest_try(&n, ct_argument_table[a].name);
    return n.best;
}

size_t ct_argument_table_clause(const char *help) {
    const char *at = help;
    for (int depth = 0; *at && (depth || strncmp(at, "; ", 2) != 0); at++)
        depth += (*at == '(') - (*at == ')');
    return (size_t)(at - help);
}

void ct_argument_table_list(enum ct_command command, char *to, size_t size) {
    size_t at = 0;
    *to = 0;
    for (int a = 0; a < CT_ARGUMENTS && at < size; a++)
        if (ct_argument_table_takes(command, (enum ct_argument)a))
            at += (size_t)snprintf(to + at, size - at, "%s--%s", at ? ", " : "",
                                   ct_argument_table[a].name);
}
