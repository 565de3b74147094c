// SPDX-License-Identifier: Apache-2.0
#include "cli/joined_words.h"

#include <string.h>

#include "base/utf8.h"

enum { LONGEST = 40 }; // a longer word is no number, unit or noun that matters here

static const char *const units[] = {"B",  "KiB", "MiB", "GiB", "TiB", "KB", "MB",
                                    "GB", "TB",  "s",   "ms",  "us",  "ns", "%"};
static const char *const nouns[] = {"GPU",    "event",  "events",  "thread", "process",
                                    "offset", "column", "version", "device"};

size_t ct_joined_words_escape(const char *at, size_t left) {
    if (left < 2 || at[0] != '\033' || at[1] != '[')
        return 0;
    size_t n = 2;
    while (n < left && at[n] != 'm')
        n++;
    return n < left ? n + 1 : n;
}

// Copies a word without escape sequences; "" if it is too long.
static void copy(char *to, const char *from, size_t n) {
    size_t used = 0;
    for (size_t i = 0; i < n && used + 1 < LONGEST;) {
        const size_t escape = ct_joined_words_escape(from + i, n - i);
        if (!escape)
            to[used++] = from[i];
        i += escape ? escape : 1;
    }
    to[used + 1 < LONGEST ? used : 0] = 0;
}

static size_t count_digits(const char *s) {
    return strspn(s, "0123456789");
}

static int is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static int is_unit(const char *word) {
    const size_t n = strcspn(word, ".,;:)");
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strlen(units[i]) == n && strncmp(word, units[i], n) == 0)
            return 1;
    return 0;
}

static int is_noun(const char *word) {
    for (size_t i = 0; i < sizeof nouns / sizeof *nouns; i++)
        if (strcmp(word, nouns[i]) == 0)
            return 1;
    return 0;
}

// What follows a number: its unit, what it counts, three more digits of it, or the time after days.
static int follows_number(const char *number, const char *second) {
    const size_t all = strlen(number), digits = count_digits(number);
    if (digits == all)
        return is_letter(*second) || (all <= 3 && count_digits(second) == 3);
    if (digits && digits + 1 == all && number[digits] == 'd')
        return count_digits(second) == 2;
    return count_digits(number + all - 1) && is_unit(second);
}

int ct_joined_words(const char *first, size_t first_bytes, const char *second,
                    size_t second_bytes) {
    char a[LONGEST], b[LONGEST];
    copy(a, first, first_bytes);
    copy(b, second, second_bytes);
    if (!*a || !*b)
        return 0;
    if (strcmp(a, "<-") == 0) // the arrow stays with the caller
        return 1;
    const char *word = a + strspn(a, "(+<>");
    if (is_noun(word) && count_digits(b))
        return 1;
    if (*b == '(' && count_digits(b + 1) && strchr(b, ')')) // a result: "NAME (2)"
        return 1;
    return *word && follows_number(word, b);
}
