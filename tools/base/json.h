// SPDX-License-Identifier: Apache-2.0
// JSON: writes it, and finds values in what was written.
#ifndef CT_JSON_H
#define CT_JSON_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

// ---- writing ------------------------------------------------------------------------------------

// Compact, one document a line: valid UTF-8 and whole numbers, whatever a trace contains.

struct ct_json {
    FILE *out;
    int comma; // the next value needs a comma before it
};

// `key` is a literal of this program and is written as it is: NULL inside a list, "" after
// ct_json_key.
void ct_json_open(struct ct_json *j, const char *key, char bracket);
void ct_json_close(struct ct_json *j, char bracket);
void ct_json_number(struct ct_json *j, const char *key, uint64_t value);
void ct_json_signed(struct ct_json *j, const char *key, int64_t value);
void ct_json_hex(struct ct_json *j, const char *key, uint64_t value);
// part / whole as a decimal number from 0 to 1 with four digits after the point, rounded down.
void ct_json_ratio(struct ct_json *j, const char *key, uint64_t part, uint64_t whole);
void ct_json_bool(struct ct_json *j, const char *key, int value);
void ct_json_null(struct ct_json *j, const char *key);
void ct_json_text(struct ct_json *j, const char *key, const char *text);
// Bytes of a trace: each one that is not part of valid UTF-8 becomes U+FFFD.
void ct_json_bytes(struct ct_json *j, const char *key, const char *bytes, size_t length);
// null if the value is not known; if there is no text; if it has no bytes. What opens an object or
// a list returns `known`.
void ct_json_number_or_null(struct ct_json *j, const char *key, int known, uint64_t value);
void ct_json_signed_or_null(struct ct_json *j, const char *key, int known, int64_t value);
void ct_json_text_or_null(struct ct_json *j, const char *key, const char *text);
void ct_json_bytes_or_null(struct ct_json *j, const char *key, const char *bytes, size_t length);
int ct_json_open_or_null(struct ct_json *j, const char *key, int known, char bracket);
// A value as another of these writers has written it.
void ct_json_written(struct ct_json *j, const char *key, const char *value, size_t length);
// A key that comes from a trace. Its value follows with key "".
void ct_json_key(struct ct_json *j, const char *bytes, size_t length);
void ct_json_end_line(struct ct_json *j);

// ---- reading ------------------------------------------------------------------------------------

// Looks up values in JSON that cutrace-report has written: compact, valid, NUL-terminated. Text
// that is no JSON leads to NULL, never beyond the NUL.

// The value of a key of the object that begins at `object`; NULL: `object` is NULL or no object, or
// has no such key.
const char *ct_json_find(const char *object, const char *key);
// Element i of the list that begins at `list`, or NULL.
const char *ct_json_element(const char *list, size_t i);

int ct_json_is_true(const char *value);
int ct_json_is_null(const char *value); // also of NULL
// A whole number; -1: it is none.
int64_t ct_json_to_number(const char *value);
// Copies a string, without its escapes, or the characters of any other value without parts. Returns
// `to`, which is "" for NULL.
const char *ct_json_to_text(const char *value, char *to, size_t size);

#endif
