// SPDX-License-Identifier: Apache-2.0
// Reads those flags of a command line that cli_flags.def names. The recorder reads the command
// lines of processes with it, the report the process.argv of older traces.
//
// A command line is untrusted text of any length. Nothing is allocated, and no text is changed.
#ifndef CT_CLI_FLAGS_H
#define CT_CLI_FLAGS_H

#include <cutrace/format/cli_values.h>

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
