// SPDX-License-Identifier: Apache-2.0
#include "base/json_find.h"

#include <stdlib.h>
#include <string.h>

// After the string that begins at `at` with a quotation mark; NULL: it does not end.
static const char *skip_string(const char *at) {
    for (at++; *at && *at != '"'; at++)
        if (*at == '\\' && !*++at)
            return NULL;
    return *at ? at + 1 : NULL;
}

// After the value that begins at `at`, and the end of its line: a document has one. NULL: it does
// not end.
static const char *skip_value(const char *at) {
    size_t depth = 0;
    do {
        if (*at == '"') {
            at = skip_string(at);
            if (!at)
                return NULL;
            continue;
        }
        if (*at == '{' || *at == '[')
            depth++;
        else if ((*at == '}' || *at == ']') && depth)
            depth--;
        else if (!depth)
            return at + strcspn(at, ",}]\n");
        at++;
    } while (depth && *at);
    return depth ? NULL : at + strspn(at, "\n");
}

const char *ct_json_find(const char *object, const char *key) {
    const size_t n = strlen(key);
    if (!object || *object != '{')
        return NULL;
    for (const char *at = object + 1; at && *at == '"'; at += *at == ',') {
        const char *value = skip_string(at);
        if (!value || *value != ':')
            return NULL;
        if ((size_t)(value - at) == n + 2 && memcmp(at + 1, key, n) == 0)
            return value + 1;
        at = skip_value(value + 1);
        if (!at)
            return NULL;
    }
    return NULL;
}

const char *ct_json_element(const char *list, size_t i) {
    if (!list || *list != '[')
        return NULL;
    const char *at = list + 1;
    while (*at && *at != ']' && i--) {
        at = skip_value(at);
        if (!at || *at != ',')
            return NULL;
        at++;
    }
    return *at && *at != ']' ? at : NULL;
}

int ct_json_is_true(const char *value) {
    return value && strncmp(value, "true", 4) == 0;
}

int ct_json_is_null(const char *value) {
    return !value || strncmp(value, "null", 4) == 0;
}

int64_t ct_json_to_number(const char *value) {
    char *end;
    if (!value || *value < '0' || *value > '9')
        return -1;
    const long long number = strtoll(value, &end, 10);
    return *end == '.' || *end == 'e' ? -1 : number;
}

// The character that \u and four digits stand for, if it is one of ASCII: only control characters
// are written so.
static char decode_escape(const char *at) {
    char digits[5] = "";
    if (*at != 'u' || strlen(at) < 5)
        return *at == 'n' ? '\n' : *at == 't' ? '\t' : *at;
    memcpy(digits, at + 1, 4);
    const long code = strtol(digits, NULL, 16);
    return (char)(code > 0 && code < 128 ? code : '?');
}

const char *ct_json_to_text(const char *value, char *to, size_t size) {
    size_t n = 0;
    const int is_string = value && *value == '"';
    for (const char *at = value ? value + is_string : ""; *at && n + 1 < size; at++) {
        if (is_string ? *at == '"' : strchr(",}]", *at) != NULL)
            break;
        if (*at == '\\' && at[1]) {
            to[n++] = decode_escape(++at);
            at += *at == 'u' && strlen(at) >= 5 ? 4 : 0;
        } else {
            to[n++] = *at;
        }
    }
    to[n] = 0;
    return to;
}
