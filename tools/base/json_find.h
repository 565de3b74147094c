// SPDX-License-Identifier: Apache-2.0
// Looks up values in JSON that cutrace-report has written: compact, valid, NUL-terminated. Text
// that is no JSON leads to NULL, never beyond the NUL.
#ifndef CT_JSON_FIND_H
#define CT_JSON_FIND_H

#include <stddef.h>
#include <stdint.h>

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
