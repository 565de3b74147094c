// SPDX-License-Identifier: Apache-2.0
// Writes Python's pickle, protocol 2, with the opcodes that PyTorch's own memory viewer
// (torch/utils/viz/MemoryViz.js) reads in JavaScript: no objects of classes, no integers of more
// than 8 bytes.
#ifndef CT_PICKLE_H
#define CT_PICKLE_H

#include "base/pickle_opcodes.h"
#include "read/new_file.h"

// Elements of one APPENDS. The viewer passes them as the arguments of one call, so they must be
// few.
enum { CT_PICKLE_BATCH = 1000 };

struct ct_pickle {
    struct ct_new_file *file;
    int failed; // the file's error has the reason; nothing more is written
    size_t used;
    uint8_t buffer[1 << 16];
};

void ct_pickle_begin(struct ct_pickle *p, struct ct_new_file *file);
// Returns 0, or -1 if `failed`. The caller still has to complete the file or to give it up.
int ct_pickle_end(struct ct_pickle *p);
void ct_pickle_op(struct ct_pickle *p, unsigned op);
void ct_pickle_number(struct ct_pickle *p, uint64_t value); // larger numbers become INT64_MAX
// Writes bytes of a trace; those that are not UTF-8 become U+FFFD.
void ct_pickle_bytes(struct ct_pickle *p, const char *bytes, size_t length);
void ct_pickle_text(struct ct_pickle *p, const char *text);
// Remembers the value that was just written under a number, and writes the value of a number again.
void ct_pickle_memoize(struct ct_pickle *p, uint32_t memo);
void ct_pickle_recall(struct ct_pickle *p, uint32_t memo);

#endif
