// SPDX-License-Identifier: Apache-2.0
// The JSON writer.
#include "base/json.h"

#include <inttypes.h>
#include <string.h>

#include "base/utf8.h"

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

void ct_json_text(struct ct_json *j, const char *key, const char *text) {
    ct_json_bytes(j, key, text, strlen(text));
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
