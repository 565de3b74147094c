// SPDX-License-Identifier: Apache-2.0
#include "watch/http_accept.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

// "1", "0.75": thousandths. What is no weight is none.
static unsigned read_weight(const char *text) {
    unsigned weight = *text == '1' ? 1000 : 0, place = 100;
    if ((*text != '0' && *text != '1') || text[1] != '.')
        return weight;
    for (text += 2; isdigit((unsigned char)*text) && place; text++, place /= 10)
        weight += (unsigned)(*text - '0') * place;
    return weight < 1000 ? weight : 1000;
}

// Whether one of the parameters after a type, ";name=value;...", is this one; NULL, or its value.
static const char *find_parameter(const char *at, size_t n, const char *name) {
    const char *end = at + n;
    const size_t length = strlen(name);
    while ((at = memchr(at, ';', (size_t)(end - at)))) {
        at++;
        while (at < end && (*at == ' ' || *at == '\t'))
            at++;
        if ((size_t)(end - at) > length && strncasecmp(at, name, length) == 0 && at[length] == '=')
            return at + length + 1;
    }
    return NULL;
}

static void add_range(struct ct_http_accept *a, const char *range, size_t n) {
    const char *q = find_parameter(range, n, "q");
    const char *version = find_parameter(range, n, "version");
    const unsigned weight = q ? read_weight(q) : 1000;
    const size_t type = strcspn(range, ";, \t");
    // Version 1.0.0 is what 0.0.1 was made into; others are not written.
    const int is_known = !version || strncmp(version, "1.", 2) == 0 || *version == '0';
    unsigned *of = NULL;
    if (type == 28 && strncasecmp(range, "application/openmetrics-text", 28) == 0 && is_known)
        of = &a->openmetrics;
    else if ((type == 10 && strncasecmp(range, "text/plain", 10) == 0) ||
             (type == 6 && strncasecmp(range, "text/*", 6) == 0) ||
             (type == 3 && strncmp(range, "*/*", 3) == 0))
        of = &a->text;
    if (of && weight > *of)
        *of = weight;
}

void ct_http_accept_add(struct ct_http_accept *a, const char *value) {
    for (const char *at = value; *at;) {
        at += strspn(at, ", \t");
        const size_t n = strcspn(at, ",");
        if (n)
            add_range(a, at, n);
        at += n;
    }
}

int ct_http_accept_is_openmetrics(const struct ct_http_accept *a) {
    return a->openmetrics && a->openmetrics >= a->text;
}
