// SPDX-License-Identifier: Apache-2.0
#include "base/command_line.h"

#include <string.h>

#include "base/wrap.h"

// ---- mistyped words -----------------------------------------------------------------------------

enum { LONGEST = 32, MOST_EDITS = 2 };

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

// Returns the edits that make one word of the other (Damerau and Levenshtein, neighbours exchanged
// at most once).
static size_t count_edits(const char *a, size_t n, const char *b, size_t m) {
    size_t row[LONGEST + 1][LONGEST + 1];
    for (size_t i = 0; i <= n; i++)
        for (size_t j = 0; j <= m; j++) {
            if (!i || !j) {
                row[i][j] = i + j;
                continue;
            }
            const size_t replaced = row[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            row[i][j] = least(replaced, least(row[i - 1][j], row[i][j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[i][j] = least(row[i][j], row[i - 2][j - 2] + 1);
        }
    return row[n][m];
}

void ct_nearest_try(struct ct_nearest *n, const char *word) {
    const size_t length = strlen(word);
    if (n->length > LONGEST || length > LONGEST || !n->length)
        return;
    const size_t edits = count_edits(n->typed, n->length, word, length);
    if (edits <= MOST_EDITS && edits < least(n->length, length) && (!n->best || edits < n->edits)) {
        n->best = word;
        n->edits = edits;
    }
}

// ---- looking up ---------------------------------------------------------------------------------

static int is_same(const char *name, const char *word, size_t length) {
    return strlen(name) == length && strncmp(name, word, length) == 0;
}

int ct_command_line_takes(const struct ct_command_line *table, int command, int option) {
    return command < 0 || (table->options[option].commands >> command & 1);
}

int ct_command_line_find_command(const struct ct_command_line *table, const char *word,
                                 const char **nearest) {
    struct ct_nearest n = {.typed = word, .length = strlen(word)};
    for (int i = 0; i < table->command_count; i++) {
        if (strcmp(table->commands[i].name, word) == 0)
            return i;
        ct_nearest_try(&n, table->commands[i].name);
    }
    *nearest = n.best;
    return -1;
}

const char *ct_command_line_now(const struct ct_command_line *table, const char *word,
                                size_t length) {
    for (int i = 0; i < table->old_count; i++)
        if (is_same(table->old[i].name, word, length))
            return table->old[i].now;
    return NULL;
}

// ---- reading ------------------------------------------------------------------------------------

static int fail_unknown(struct ct_words *w, const char *word) {
    const struct ct_command_line *table = w->table;
    const size_t length = strcspn(word, "=");
    const char *now = ct_command_line_now(table, word, length);
    struct ct_nearest n = {.typed = word + strspn(word, "-")};
    n.length = word[1] == '-' ? strcspn(n.typed, "=") : 0; // (a letter is near to nothing)
    for (int i = 0; i < table->option_count; i++)
        if (ct_command_line_takes(table, w->command, i))
            ct_nearest_try(&n, table->options[i].name);
    if (now)
        ct_error_set(&w->error, CT_EXIT_USAGE, "%.*s is the old name; write now: %s", (int)length,
                     word, now);
    else if (n.best)
        ct_error_set(&w->error, CT_EXIT_USAGE, "unknown option %.100s; did you mean --%s?", word,
                     n.best);
    else
        ct_error_set(&w->error, CT_EXIT_USAGE, "unknown option %.100s; see %s%s%s --help", word,
                     table->program, w->command < 0 ? "" : " ",
                     w->command < 0 ? "" : table->commands[w->command].name);
    return CT_WORD_WRONG;
}

// Finds the option of a word, "--name", "--name=value", "-n" or "-nvalue". `value` gets what is in
// the same word, or NULL.
static int find_option(const struct ct_words *w, const char *word, const char **value) {
    const int is_name = word[1] == '-';
    const size_t length = is_name ? strcspn(word + 2, "=") : 1;
    const char *end = word + (is_name ? 2 : 1) + length;
    *value = *end ? end + is_name : NULL;
    for (int i = 0; i < w->table->option_count; i++)
        if (ct_command_line_takes(w->table, w->command, i) &&
            (is_name ? is_same(w->table->options[i].name, word + 2, length)
                     : w->table->options[i].letter == word[1]))
            return i;
    return -1;
}

static int read_option(struct ct_words *w, const char *word) {
    const char *value;
    const int found = find_option(w, word, &value);
    if (found < 0)
        return fail_unknown(w, word);
    const struct ct_option_row *row = &w->table->options[found];
    const int length = word[1] == '-' ? (int)strcspn(word, "=") : 2;
    const int needs_value = row->argument && *row->argument != '[';
    if (needs_value && !value && w->at < w->argc)
        value = w->argv[w->at++];
    w->value = value;
    if (!row->argument && value)
        ct_error_set(&w->error, CT_EXIT_USAGE, "%.*s takes no value", length, word);
    else if (needs_value && !value)
        ct_error_set(&w->error, CT_EXIT_USAGE, "%s needs a value: %s", word, row->argument);
    else
        return found;
    return CT_WORD_WRONG;
}

int ct_words_next(struct ct_words *w) {
    if (w->at < w->argc && !w->only_plain && strcmp(w->argv[w->at], "--") == 0) {
        w->only_plain = 1;
        w->at++;
    }
    if (w->at >= w->argc)
        return CT_WORD_END;
    const char *word = w->argv[w->at++];
    if (!w->only_plain && word[0] == '-' && word[1])
        return read_option(w, word);
    w->value = word;
    return CT_WORD_PLAIN;
}

// ---- help ---------------------------------------------------------------------------------------

size_t ct_command_line_clause(const char *help) {
    const char *at = help;
    for (int depth = 0; *at && (depth || strncmp(at, "; ", 2) != 0); at++)
        depth += (*at == '(') - (*at == ')');
    return (size_t)(at - help);
}

// The commands that a clause begins with, as a set of bits, and its text after them.
static unsigned find_commands(const struct ct_command_line *table, const char **clause) {
    const char *at = *clause, *nearest;
    unsigned found = 0;
    for (;;) {
        const size_t n = strcspn(at, ",: ");
        char name[16];
        (void)snprintf(name, sizeof name, "%.*s", (int)n, at);
        const int command = ct_command_line_find_command(table, name, &nearest);
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
static void print_clauses(const struct ct_command_line *table, int command, const char *help,
                          FILE *out) {
    const char *separator = "";
    for (size_t n; *help; help += n + (help[n] ? 2 : 0)) {
        const char *clause = help;
        n = ct_command_line_clause(help);
        const unsigned commands = command < 0 ? 0 : find_commands(table, &clause);
        if (commands && !(commands >> command & 1))
            continue;
        fprintf(out, "%s%.*s", separator, (int)(help + n - clause), clause);
        separator = "; ";
    }
    putc('\n', out);
}

void ct_command_line_print_option(const struct ct_command_line *table, int option, int command,
                                  FILE *out) {
    enum { LEFT = 32 };
    const struct ct_option_row *row = &table->options[option];
    const int is_optional = row->argument && *row->argument == '['; // "[text|json]"
    char letter[5] = "   ", left[64];
    if (row->letter)
        (void)snprintf(letter, sizeof letter, "-%c,", row->letter);
    (void)snprintf(left, sizeof left, "%s --%s%s%s", letter, row->name,
                   !row->argument ? ""
                   : is_optional  ? "[="
                                  : "=",
                   row->argument ? row->argument + is_optional : "");
    fprintf(out, "  %-*s " CT_WRAP_HANG, LEFT, left);
    print_clauses(table, command, row->help, out);
}

void ct_command_line_print_options(const struct ct_command_line *table, int command, FILE *out) {
    for (int i = 0; i < table->option_count; i++)
        if (ct_command_line_takes(table, command, i))
            ct_command_line_print_option(table, i, command, out);
}

void ct_command_line_print_row(const char *name, const char *help, FILE *out) {
    fprintf(out, "  %-12s " CT_WRAP_HANG "%s\n", name, help);
}

void ct_command_line_print_command(const struct ct_command_line *table, int command, FILE *out) {
    const struct ct_command_row *row = &table->commands[command];
    fprintf(out, "usage: %s %s %s\n" CT_WRAP_HANG "%s\n\noptions:\n", table->program, row->name,
            row->usage, row->help);
    ct_command_line_print_options(table, command, out);
}
