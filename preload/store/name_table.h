// SPDX-License-Identifier: Apache-2.0
// Interns names and short texts: events carry their ids, and the writer maps the ids of the process
// to those of the file. Lock-free; any thread.
#ifndef CT_STORE_NAME_TABLE_H
#define CT_STORE_NAME_TABLE_H

#include <stddef.h>
#include <stdint.h>

#define CT_NAME_MAX_LITERALS 8192u
#define CT_NAME_MAX_TEXTS 4096u

// Ids 1 .. CT_NAME_MAX_LITERALS are literals, the ids after them are copied texts.
#define CT_NAME_IDS (1 + CT_NAME_MAX_LITERALS + CT_NAME_MAX_TEXTS)

// Interns a string literal, or a text that lives as long as the process: the table keeps the
// pointer. Returns an id for ct_event.api or ct_event.text, the same one for the same pointer; 0
// for NULL and when the table is full.
uint32_t ct_name_intern(const char *literal);

// Formats a text (at most 200 bytes of it) and keeps a copy. Returns an id for ct_event.text, 0
// when the table is full. For rare notes only.
uint32_t ct_name_intern_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Interns a text of the program's own, such as the name of a range: keeps a copy. Returns an id for
// ct_event.text, the same one for the same text. At most `most` bytes of it are read and 200 kept,
// cut between two characters. A program may make a new name for each step: when three quarters of
// the table are used, each run of digits becomes '#', and when that is not enough, all further
// names are CT_NAME_TOO_MANY. 0 for NULL.
uint32_t ct_name_intern_copy(const char *text, size_t most);
#define CT_NAME_TOO_MANY "(too many different names)"

// A hash of a text.
uint32_t ct_name_hash(const char *text, size_t n);

// The text of an id; NULL for 0 and for unused ids.
const char *ct_name_get_text(uint32_t id);

#endif
