// SPDX-License-Identifier: Apache-2.0
// INFO about the environment of the process, without anything private.
#define _GNU_SOURCE
#include "write/environment.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/options.h"
#include "base/print.h"
#include "write/info_table.h"

extern char **environ;

static int contains(const char *name, size_t n, const char *word) {
    const size_t w = strlen(word);
    for (size_t i = 0; i + w <= n; i++)
        if (!strncasecmp(name + i, word, w))
            return 1;
    return 0;
}

static int is_secret(const char *name, size_t n) {
    static const char *const words[] = {"TOKEN", "KEY", "SECRET", "PASS", "AUTH", "CREDENTIAL"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (contains(name, n, words[i]))
            return 1;
    return 0;
}

static int ends(const char *name, size_t n, const char *suffix) {
    const size_t s = strlen(suffix);
    return n >= s && !memcmp(name + n - s, suffix, s);
}

static int matches(const char *name, size_t n, const char *pattern, size_t length) {
    if (length && pattern[length - 1] == '*')
        return n >= length - 1 && !memcmp(name, pattern, length - 1);
    return n == length && !memcmp(name, pattern, n);
}

static const struct {
    const char *name;
    enum { SETTING, DETAIL } kind;
} variables[] = {
#define CT_VARIABLE(name, kind, why) {name, kind},
#include "write/environment.def"
#undef CT_VARIABLE
};

static int is_known(const char *name, size_t n) {
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        if (matches(name, n, variables[i].name, strlen(variables[i].name)))
            return variables[i].kind == SETTING || !CT_OPTION_NUMBER(PRIVATE);
    return 0;
}

// Whether CUTRACE_ENV_ALLOW names it: NAME or PREFIX_*, separated by commas.
static int is_asked_for(const char *name, size_t n) {
    for (const char *at = CT_OPTION_TEXT(ENV_ALLOW); at && *at;) {
        const size_t length = strcspn(at, ",");
        if (matches(name, n, at, length))
            return 1;
        at += length + (at[length] == ',');
    }
    return 0;
}

// The value, or what replaces it: paths contain user names; addresses and the UUIDs of devices
// identify machines.
static const char *hide_private(const char *name, size_t n, const char *value) {
    size_t dots = 0, colons = 0;
    for (const char *c = value; *c; c++) {
        dots += *c == '.' && isdigit((unsigned char)c[1]);
        colons += *c == ':';
        if (*c == '/' || *c == '@' || *c == '~')
            return "<path>";
    }
    if (strstr(value, "GPU-") || strstr(value, "MIG-"))
        return "<uuid>";
    // (Settings of PyTorch's allocator are pairs with a colon.)
    if (ends(name, n, "_IP") || ends(name, n, "_HOST") || ends(name, n, "_ADDR") || dots >= 3 ||
        (colons >= 3 && !ends(name, n, "_ALLOC_CONF")))
        return "<address>";
    return value;
}

void ct_environment_publish(void) {
    for (char *const *e = environ; e && *e; e++) {
        const char *equals = strchr(*e, '=');
        const size_t n = equals ? (size_t)(equals - *e) : 0;
        char key[160];
        if (!n || n > 128)
            continue;
        const int asked = is_asked_for(*e, n);
        if (!asked && (!is_known(*e, n) || is_secret(*e, n)))
            continue;
        ct_print(key, sizeof key, "process.env.%.*s", (int)n, *e);
        ct_info_set(key, "%.1000s", asked ? equals + 1 : hide_private(*e, n, equals + 1));
    }
}
