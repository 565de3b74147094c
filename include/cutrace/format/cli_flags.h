// SPDX-License-Identifier: Apache-2.0
// Reads those flags of a command line that cli_flags.def names. The recorder reads the command
// lines of processes with it, the report the process.argv of older traces.
//
// A command line is untrusted text of any length. Nothing is allocated, and no text is changed.
#ifndef CT_CLI_FLAGS_H
#define CT_CLI_FLAGS_H

#include <stddef.h>
#include <string.h>

// ---- values -------------------------------------------------------------------------------------

// Which values of a command line's flags are harmless. Users show traces to strangers: a value is
// recorded only if it cannot be a path, an address, a name or a key.

// Room for the longest value that is recorded, with its NUL.
enum { CT_CLI_VALUE = 128 };

enum ct_cli_flag_kind { // as in cli_flags.def
    CT_CLI_FLAG_SWITCH,
    CT_CLI_FLAG_NUMBER,
    CT_CLI_FLAG_NUMBERS,
    CT_CLI_FLAG_WORD,
    CT_CLI_FLAG_COUNTS,
    CT_CLI_FLAG_NAME,
    CT_CLI_FLAG_HIDDEN,
};

// A part of a command line, not terminated.
struct ct_cli_text {
    const char *at;
    size_t n;
};

static inline int ct_cli_is_digit(char c) {
    return c >= '0' && c <= '9';
}

static inline int ct_cli_is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static inline int ct_cli_is_sign(char c, const char *signs) {
    return c && strchr(signs, c);
}

static inline int ct_cli_is_any(struct ct_cli_text v, const char *words) {
    for (; *words; words += *words == ' ') {
        const size_t n = strcspn(words, " ");
        if (v.n == n && !memcmp(v.at, words, n))
            return 1;
        words += n;
    }
    return 0;
}

static inline int ct_cli_is_true(struct ct_cli_text v) {
    return ct_cli_is_any(v, "true True TRUE 1 yes on");
}

static inline int ct_cli_is_false(struct ct_cli_text v) {
    return ct_cli_is_any(v, "false False FALSE 0 no off");
}

static inline size_t ct_cli_count_digits(struct ct_cli_text v, size_t from) {
    size_t n = 0;
    while (from + n < v.n && ct_cli_is_digit(v.at[from + n]))
        n++;
    return n;
}

// Whether a text from `from` on is nothing, an exponent, or a unit of at most three letters.
static inline int ct_cli_is_unit(struct ct_cli_text v, size_t from) {
    size_t i = from;
    while (i < v.n && ct_cli_is_letter(v.at[i]))
        i++;
    if (i == v.n)
        return i - from <= 3;
    if (i != from + 1 || (v.at[from] != 'e' && v.at[from] != 'E'))
        return 0;
    i += v.at[i] == '-' || v.at[i] == '+';
    return i < v.n && v.n - i <= 3 && ct_cli_count_digits(v, i) == v.n - i;
}

// A number of at most 20 digits, with a unit: 0.9, -1, 32k, 8GiB, 1e-5; or a word for one.
static inline int ct_cli_is_number(struct ct_cli_text v) {
    if (ct_cli_is_any(v, "auto none None inf max all"))
        return 1;
    size_t i = v.n && (*v.at == '-' || *v.at == '+'), part = 0;
    const size_t whole = ct_cli_count_digits(v, i);
    i += whole;
    if (i < v.n && v.at[i] == '.') {
        part = ct_cli_count_digits(v, i + 1);
        i += 1 + part;
    }
    return whole + part && whole + part <= 20 && ct_cli_is_unit(v, i);
}

// A word like fp8_e4m3, FULL_AND_PIECEWISE or compressed-tensors, or a number. Keys and tokens are
// long runs of letters and digits; paths and names of hosts have other characters, or dots.
static inline int ct_cli_is_word(struct ct_cli_text v) {
    size_t run = 0;
    if (ct_cli_is_number(v))
        return 1;
    if (!v.n || v.n > 32 || !ct_cli_is_letter(*v.at))
        return 0;
    for (size_t i = 0; i < v.n; i++) {
        const char c = v.at[i];
        run = ct_cli_is_letter(c) || ct_cli_is_digit(c) ? run + 1 : 0;
        if ((!run && c != '_' && c != '-') || run > 16)
            return 0;
    }
    return 1;
}

// Numbers of at most 8 digits and, if `words`, words of at most 16 letters, with signs of lists and
// JSON between them.
static inline int ct_cli_is_list(struct ct_cli_text v, int words) {
    size_t letters = 0, digits = 0;
    if (!v.n || v.n >= CT_CLI_VALUE)
        return 0;
    for (size_t i = 0; i < v.n; i++) {
        const char c = v.at[i];
        const int letter = words && ct_cli_is_letter(c), digit = ct_cli_is_digit(c);
        if (!letter && !digit && !ct_cli_is_sign(c, words ? "[], {}\":=_" : "[], "))
            return 0;
        if ((letter && digits) || (digit && letters))
            return 0;
        letters = letter ? letters + 1 : 0;
        digits = digit ? digits + 1 : 0;
        if (letters > 16 || digits > 8)
            return 0;
    }
    return 1;
}

// The last component of a path; of a model in the cache of the Hugging Face Hub, which lies in
// models--OWNER--NAME/snapshots/HASH, the model's name.
static inline struct ct_cli_text ct_cli_last_component(struct ct_cli_text v) {
    static const char hub[] = "models--";
    struct ct_cli_text part = {v.at, 0};
    while (v.n && v.at[v.n - 1] == '/')
        v.n--;
    for (size_t i = 0; i <= v.n; i++) {
        if (i < v.n && v.at[i] != '/' && v.at[i] != '\\')
            continue;
        part.n = (size_t)(v.at + i - part.at);
        if (part.n >= sizeof hub && !memcmp(part.at, hub, sizeof hub - 1))
            break;
        if (i < v.n)
            part.at = v.at + i + 1;
    }
    for (size_t i = part.n; i >= sizeof hub; i--)
        if (!memcmp(part.at, hub, sizeof hub - 1) && !memcmp(part.at + i - 2, "--", 2))
            return (struct ct_cli_text){part.at + i, part.n - i};
    return part;
}

static inline int ct_cli_is_name(struct ct_cli_text v) {
    if (!v.n || v.n >= 96 || *v.at == '.')
        return 0;
    for (size_t i = 0; i < v.n; i++)
        if (!ct_cli_is_letter(v.at[i]) && !ct_cli_is_digit(v.at[i]) &&
            !ct_cli_is_sign(v.at[i], "._+-"))
            return 0;
    return 1;
}

// The value of a flag as it is recorded: what is harmless of it, or <given>.
static inline struct ct_cli_text ct_cli_clean(enum ct_cli_flag_kind kind, struct ct_cli_text v) {
    static const struct ct_cli_text given = {"<given>", 7}, on = {"true", 4}, off = {"false", 5};
    int harmless = 0;
    switch (kind) {
    case CT_CLI_FLAG_SWITCH:
        harmless = ct_cli_is_true(v) || ct_cli_is_false(v);
        v = ct_cli_is_true(v) ? on : off;
        break;
    case CT_CLI_FLAG_NUMBER:
        harmless = ct_cli_is_number(v);
        break;
    case CT_CLI_FLAG_NUMBERS:
        harmless = ct_cli_is_list(v, 0);
        break;
    case CT_CLI_FLAG_WORD:
        harmless = ct_cli_is_word(v);
        break;
    case CT_CLI_FLAG_COUNTS:
        harmless = ct_cli_is_list(v, 1);
        break;
    case CT_CLI_FLAG_NAME:
        v = ct_cli_last_component(v);
        harmless = ct_cli_is_name(v);
        break;
    case CT_CLI_FLAG_HIDDEN:
        break;
    }
    return harmless ? v : given;
}

// ---- the table ----------------------------------------------------------------------------------

struct ct_cli_flag {
    const char *name;
    enum ct_cli_flag_kind kind;
    const char *aliases; // separated by spaces
};

enum ct_cli_program_kind { CT_CLI_SERVER, CT_CLI_TRAINER };

struct ct_cli_program {
    const char *name;
    enum ct_cli_program_kind kind;
    const char *patterns; // separated by spaces
};

static const struct ct_cli_flag ct_cli_flags[] = {
#define CT_CLI_FLAG(name, kind, aliases, why) {name, CT_CLI_FLAG_##kind, aliases},
#include <cutrace/format/cli_flags.def>
};
static const struct ct_cli_program ct_cli_programs[] = {
#define CT_CLI_PROGRAM(name, kind, patterns) {name, CT_CLI_##kind, patterns},
#include <cutrace/format/cli_flags.def>
};
enum {
    CT_CLI_FLAGS = sizeof ct_cli_flags / sizeof *ct_cli_flags,
    CT_CLI_PROGRAMS = sizeof ct_cli_programs / sizeof *ct_cli_programs,
};

// Receives a flag and its value as it is recorded.
struct ct_cli_sink {
    void (*found)(void *user, const struct ct_cli_flag *flag, struct ct_cli_text value);
    void *user;
    int letters; // read aliases of one letter
};

// Arguments in memory, each with `separator` after it; after the last one it may be missing.
struct ct_cli_arguments {
    const char *at, *end;
    char separator;
};

static inline struct ct_cli_text ct_cli_argument(const struct ct_cli_arguments *a) {
    const char *stop =
        a->at < a->end ? memchr(a->at, a->separator, (size_t)(a->end - a->at)) : NULL;
    return (struct ct_cli_text){a->at, (size_t)((stop ? stop : a->end) - a->at)};
}

// Steps over the first argument, which it returns.
static inline struct ct_cli_text ct_cli_next_argument(struct ct_cli_arguments *a) {
    const struct ct_cli_text first = ct_cli_argument(a);
    a->at += first.n;
    a->at += a->at < a->end; // the separator
    return first;
}

static inline struct ct_cli_text ct_cli_skip(struct ct_cli_text t, size_t n) {
    return (struct ct_cli_text){t.at + n, t.n - n};
}

// ---- names --------------------------------------------------------------------------------------

static inline int ct_cli_has_name(struct ct_cli_text given, const char *name, size_t n) {
    if (given.n != n)
        return 0;
    for (size_t i = 0; i < n; i++)
        if ((given.at[i] == '_' ? '-' : given.at[i]) != name[i])
            return 0;
    return 1;
}

// Whether a name is that of the flag, or an alias. One letter means something else in most
// programs.
static inline int ct_cli_is_named(const struct ct_cli_flag *f, struct ct_cli_text given,
                                  int letters) {
    if (ct_cli_has_name(given, f->name, strlen(f->name)))
        return 1;
    for (const char *alias = f->aliases; *alias; alias += *alias == ' ') {
        const size_t n = strcspn(alias, " ");
        if ((n > 1 || letters) && ct_cli_has_name(given, alias, n))
            return 1;
        alias += n;
    }
    return 0;
}

static inline const struct ct_cli_flag *ct_cli_flag_find(struct ct_cli_text given, int letters) {
    for (size_t i = 0; i < CT_CLI_FLAGS; i++)
        if (ct_cli_is_named(&ct_cli_flags[i], given, letters))
            return &ct_cli_flags[i];
    return NULL;
}

// ---- JSON ---------------------------------------------------------------------------------------

// Finds the value of a key, which has '-' for '_', at any depth. Without its quotes.
static inline struct ct_cli_text ct_cli_find_key(struct ct_cli_text json, const char *key) {
    const size_t n = strlen(key);
    for (size_t i = 1; i + n + 1 < json.n; i++) {
        if (json.at[i - 1] != '"' || json.at[i + n] != '"' ||
            !ct_cli_has_name((struct ct_cli_text){json.at + i, n}, key, n))
            continue;
        struct ct_cli_text v = ct_cli_skip(json, i + n + 1);
        while (v.n && (*v.at == ' ' || *v.at == ':'))
            v = ct_cli_skip(v, 1);
        const char *const ends = v.n && *v.at == '[' ? "]" : ",}";
        for (size_t k = 0; k < v.n; k++) {
            if (!strchr(ends, v.at[k]))
                continue;
            v.n = k + (*ends == ']');
            break;
        }
        if (v.n > 1 && *v.at == '"' && v.at[v.n - 1] == '"')
            return (struct ct_cli_text){v.at + 1, v.n - 2};
        return v;
    }
    return (struct ct_cli_text){NULL, 0};
}

static inline void ct_cli_emit(const struct ct_cli_sink *sink, const struct ct_cli_flag *f,
                               struct ct_cli_text value) {
    const size_t n = strlen(f->name);
    sink->found(sink->user, f, ct_cli_clean(f->kind, value));
    for (size_t i = 0; f->kind == CT_CLI_FLAG_HIDDEN && i < CT_CLI_FLAGS; i++) {
        const struct ct_cli_flag *part = &ct_cli_flags[i];
        if (strncmp(part->name, f->name, n) != 0 || part->name[n] != '.')
            continue;
        const struct ct_cli_text v = ct_cli_find_key(value, part->name + n + 1);
        if (v.at)
            sink->found(sink->user, part, ct_cli_clean(part->kind, v));
    }
}

// ---- arguments ----------------------------------------------------------------------------------

// Whether an argument is a value rather than the next flag.
static inline int ct_cli_is_value(const struct ct_cli_flag *f, struct ct_cli_text t) {
    if (f->kind == CT_CLI_FLAG_SWITCH)
        return ct_cli_is_true(t) || ct_cli_is_false(t);
    return t.n && (*t.at != '-' || ct_cli_is_number(t));
}

// Reads the value that follows a flag in arguments of its own.
static inline void ct_cli_read_value(struct ct_cli_arguments *a, const struct ct_cli_flag *f,
                                     const struct ct_cli_sink *sink) {
    char joined[CT_CLI_VALUE];
    struct ct_cli_text next = ct_cli_argument(a);
    size_t n = 0;
    if (!ct_cli_is_value(f, next)) {
        if (f->kind == CT_CLI_FLAG_SWITCH || f->kind == CT_CLI_FLAG_WORD) // a word may be left out
            ct_cli_emit(sink, f, (struct ct_cli_text){"true", 4});
        return;
    }
    if (f->kind != CT_CLI_FLAG_NUMBERS) {
        ct_cli_emit(sink, f, ct_cli_next_argument(a));
        return;
    }
    for (; ct_cli_is_list(next, 0) && n + next.n + 2 < sizeof joined; next = ct_cli_argument(a)) {
        if (n)
            joined[n++] = ' ';
        memcpy(joined + n, next.at, next.n);
        n += next.n;
        (void)ct_cli_next_argument(a);
    }
    ct_cli_emit(sink, f, (struct ct_cli_text){joined, n});
}

// NAME=VALUE without dashes, as Hydra has it.
static inline void ct_cli_read_setting(struct ct_cli_text t, const struct ct_cli_sink *sink) {
    while (t.n && *t.at == '+')
        t = ct_cli_skip(t, 1);
    const char *equals = t.n ? memchr(t.at, '=', t.n) : NULL;
    const struct ct_cli_text name = {t.at, equals ? (size_t)(equals - t.at) : 0};
    const struct ct_cli_flag *f =
        name.n && memchr(name.at, '.', name.n) ? ct_cli_flag_find(name, 0) : NULL;
    if (f)
        ct_cli_emit(sink, f, ct_cli_skip(t, name.n + 1));
}

static inline void ct_cli_read_argument(struct ct_cli_arguments *a,
                                        const struct ct_cli_sink *sink) {
    const struct ct_cli_text given = ct_cli_next_argument(a);
    if (!given.n || *given.at != '-') {
        ct_cli_read_setting(given, sink);
        return;
    }
    struct ct_cli_text name = given;
    while (name.n && *name.at == '-')
        name = ct_cli_skip(name, 1);
    const char *equals = name.n ? memchr(name.at, '=', name.n) : NULL;
    const struct ct_cli_text value =
        equals ? ct_cli_skip(name, (size_t)(equals + 1 - name.at)) : (struct ct_cli_text){0};
    name.n = equals ? (size_t)(equals - name.at) : name.n;
    const struct ct_cli_flag *f = ct_cli_flag_find(name, sink->letters);
    if (f && equals)
        ct_cli_emit(sink, f, value);
    else if (f)
        ct_cli_read_value(a, f, sink);
    else if (sink->letters && name.n > 1 && *name.at == 'O' && ct_cli_is_digit(name.at[1])) // -O3
        ct_cli_emit(sink, ct_cli_flag_find((struct ct_cli_text){"O", 1}, 1), ct_cli_skip(name, 1));
    else if (name.n > 3 && ct_cli_has_name((struct ct_cli_text){name.at, 3}, "no-", 3) &&
             (f = ct_cli_flag_find(ct_cli_skip(name, 3), 0)) && f->kind == CT_CLI_FLAG_SWITCH)
        ct_cli_emit(sink, f, (struct ct_cli_text){"false", 5});
}

// Reads all arguments; what is given twice comes twice.
static inline void ct_cli_read(struct ct_cli_arguments a, const struct ct_cli_sink *sink) {
    while (a.at < a.end)
        ct_cli_read_argument(&a, sink);
}

#endif
