// SPDX-License-Identifier: Apache-2.0
// Names and short texts by number: what ct_name_intern and ct_text hand out.
#ifndef CT_NAMES_H
#define CT_NAMES_H

#include <stdint.h>

#define CT_NAME_MAX_LITERALS 8192u // literals
#define CT_NAME_MAX_TEXTS 4096u // copied texts

// Ids: 1 .. CT_NAME_MAX_LITERALS for literals, then the texts.
#define CT_NAME_IDS (1 + CT_NAME_MAX_LITERALS + CT_NAME_MAX_TEXTS)

// Names are string literals or live as long as the process; the table keeps the pointer. Returns an id for ct_event.api or
// ct_event.text; the same pointer yields the same id; 0 when the (bounded) table is full. Lock-free. The id is the
// process's, the writer maps it to the file's.
uint32_t ct_name_intern(const char *literal);

// Copies text (cut at 200 bytes) and returns an id for ct_event.text. For rare notes only.
uint32_t ct_text(const char *format, ...) __attribute__((format(printf, 1, 2)));

// The text of an id, or NULL for 0 and for ids that were never handed out.
const char *ct_name_get_text(uint32_t id);

#endif
