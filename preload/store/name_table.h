// SPDX-License-Identifier: Apache-2.0
// Names and short texts by number: what ct_name_intern and ct_text hand out.
#ifndef CT_NAMES_H
#define CT_NAMES_H

#include <stdint.h>

#define CT_NAME_MAX_LITERALS 8192u // literals
#define CT_NAME_MAX_TEXTS 4096u // copied texts

// Ids: 1 .. CT_NAME_MAX_LITERALS for literals, then the texts.
#define CT_NAME_IDS (1 + CT_NAME_MAX_LITERALS + CT_NAME_MAX_TEXTS)

// The text of an id, or NULL for 0 and for ids that were never handed out.
const char *ct_name_get_text(uint32_t id);

#endif
