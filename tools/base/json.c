// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

// ---- writing ------------------------------------------------------------------------------------

static void put_key(struct ct_json *j, const char *key) {
    if (key && !*key) {
        j->comma = 1; // ct_json_key wrote the key
        return;
    }
    if (j->comma)
        putc_unlocked(',', j->out);
    j->comma = 1;
    if (key) {
        putc_unlocked('"', j->out);
        fputs_unlocked(key, j->out);
        fputs_unlocked("\":", j->out);
    }
}

void ct_json_open(struct ct_json *j, const char *key, char bracket) {
    put_key(j, key);
    putc_unlocked(bracket, j->out);
    j->comma = 0;
}

void ct_json_close(struct ct_json *j, char bracket) {
    putc_unlocked(bracket, j->out);
    j->comma = 1;
}

static void put_number(struct ct_json *j, uint64_t v) {
    char digits[20], *p = digits + sizeof digits;
    do
        *--p = (char)('0' + v % 10);
    while (v /= 10);
    fwrite_unlocked(p, 1, (size_t)(digits + sizeof digits - p), j->out);
}

void ct_json_number(struct ct_json *j, const char *key, uint64_t value) {
    put_key(j, key);
    put_number(j, value);
}

void ct_json_signed(struct ct_json *j, const char *key, int64_t value) {
    put_key(j, key);
    if (value < 0)
        putc_unlocked('-', j->out);
    put_number(j, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

void ct_json_hex(struct ct_json *j, const char *key, uint64_t value) {
    char digits[20], *p = digits + sizeof digits;
    put_key(j, key);
    do
        *--p = "0123456789abcdef"[value & 15];
    while (value >>= 4);
    fputs_unlocked("\"0x", j->out);
    fwrite_unlocked(p, 1, (size_t)(digits + sizeof digits - p), j->out);
    putc_unlocked('"', j->out);
}

void ct_json_ratio(struct ct_json *j, const char *key, uint64_t part, uint64_t whole) {
    const unsigned n = whole ? (unsigned)((unsigned __int128)part * 10000 / whole) : 0;
    put_key(j, key);
    fprintf(j->out, "%u.%04u", n / 10000, n % 10000);
}

void ct_json_bool(struct ct_json *j, const char *key, int value) {
    put_key(j, key);
    fputs_unlocked(value ? "true" : "false", j->out);
}

void ct_json_null(struct ct_json *j, const char *key) {
    put_key(j, key);
    fputs_unlocked("null", j->out);
}

// How many bytes stand for themselves in a string: most strings are of these.
static size_t count_plain(const unsigned char *p, size_t length) {
    size_t i = 0;
    while (i < length && p[i] >= 0x20 && p[i] < 0x7F && p[i] != '"' && p[i] != '\\')
        i++;
    return i;
}

static void put_string(struct ct_json *j, const char *bytes, size_t length) {
    const unsigned char *p = (const unsigned char *)bytes;
    putc_unlocked('"', j->out);
    for (size_t i = 0; i < length;) {
        const size_t plain = count_plain(p + i, length - i);
        fwrite_unlocked(p + i, 1, plain, j->out);
        i += plain;
        if (i == length)
            break;
        uint32_t code = 0;
        const unsigned n = ct_utf8_decode(p + i, length - i, &code);
        if (!n)
            fputs_unlocked("\\ufffd", j->out);
        else if (code < 0x20 || (code >= 0x7F && code < 0xA0) || (code >= 0x2028 && code <= 0x202E))
            fprintf(j->out, "\\u%04" PRIx32, code);
        else if (code == '"' || code == '\\')
            fprintf(j->out, "\\%c", (int)code);
        else
            fwrite_unlocked(p + i, 1, n, j->out);
        i += n ? n : 1;
    }
    putc_unlocked('"', j->out);
}

void ct_json_bytes(struct ct_json *j, const char *key, const char *bytes, size_t length) {
    put_key(j, key);
    put_string(j, bytes, length);
}

void ct_json_bytes_or_null(struct ct_json *j, const char *key, const char *bytes, size_t length) {
    if (length)
        ct_json_bytes(j, key, bytes, length);
    else
        ct_json_null(j, key);
}

void ct_json_written(struct ct_json *j, const char *key, const char *value, size_t length) {
    put_key(j, key);
    fwrite_unlocked(value, 1, length, j->out);
}

void ct_json_number_or_null(struct ct_json *j, const char *key, int known, uint64_t value) {
    if (known)
        ct_json_number(j, key, value);
    else
        ct_json_null(j, key);
}

void ct_json_signed_or_null(struct ct_json *j, const char *key, int known, int64_t value) {
    if (known)
        ct_json_signed(j, key, value);
    else
        ct_json_null(j, key);
}

int ct_json_open_or_null(struct ct_json *j, const char *key, int known, char bracket) {
    if (known)
        ct_json_open(j, key, bracket);
    else
        ct_json_null(j, key);
    return known;
}

void ct_json_text(struct ct_json *j, const char *key, const char *text) {
    ct_json_bytes(j, key, text, strlen(text));
}

void ct_json_text_or_null(struct ct_json *j, const char *key, const char *text) {
    if (text)
        ct_json_text(j, key, text);
    else
        ct_json_null(j, key);
}

void ct_json_key(struct ct_json *j, const char *bytes, size_t length) {
    if (j->comma)
        putc_unlocked(',', j->out);
    put_string(j, bytes, length);
    putc_unlocked(':', j->out);
}

void ct_json_end_line(struct ct_json *j) {
    putc_unlocked('\n', j->out);
    j->comma = 0;
}

// ---- reading ------------------------------------------------------------------------------------

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
