// SPDX-License-Identifier: Apache-2.0
// What partly filled blocks of the KV cache waste, for requests whose lengths are known.
#ifndef CT_KV_WASTE_H
#define CT_KV_WASTE_H

#include "diagnose/kv_arithmetic.h"
#include "text/facts.h"

// Finds it for a list of lengths (ct_kv_waste_add_list; NULL: those of the new requests in the
// scheduler's output that the log has), in blocks as the list or else the log says. Returns 0, or
// -1: the lengths or the size of a block are not known.
int ct_kv_waste_find(const struct ct_text_facts *f, const char *lengths, struct ct_kv_waste *w);

#endif
