// SPDX-License-Identifier: Apache-2.0
// Which values of a command line's flags are harmless. Users show traces to strangers: a value is
// recorded only if it cannot be a path, an address, a name or a key.
#ifndef CT_CLI_VALUES_H
#define CT_CLI_VALUES_H

#include <stddef.h>
#include <string.h>

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

#endif
