// SPDX-License-Identifier: Apache-2.0
// Writes Python's pickle, protocol 2, with the opcodes that PyTorch's own memory viewer (torch/utils/viz/MemoryViz.js) can
// read in JavaScript: nothing that makes objects of a class, no integer of more than 8 bytes.
#ifndef CT_PICKLE_H
#define CT_PICKLE_H

#include "read/new_file.h"

// The viewer passes what one APPENDS adds as the arguments of one call: few enough.
enum { CT_PICKLE_BATCH = 1000 };

struct ct_pickle {
    struct ct_new_file *file;
    int failed; // the file's error says why; nothing is written any more
    size_t used;
    uint8_t buffer[1 << 16];
};

#define CT_PICKLE_DICT '}'     // an empty one
#define CT_PICKLE_LIST ']'     // an empty one
#define CT_PICKLE_MARK '('     // what follows ...
#define CT_PICKLE_SETITEMS 'u' // ... are keys and values of the dictionary before the mark,
#define CT_PICKLE_APPENDS 'e'  // elements of the list before the mark
#define CT_PICKLE_SETITEM 's'
#define CT_PICKLE_TUPLE2 0x86
#define CT_PICKLE_TRUE 0x88
#define CT_PICKLE_FALSE 0x89

void ct_pickle_begin(struct ct_pickle *p, struct ct_new_file *file);
// 0, or -1: see `failed`. The file is still to be completed or given up.
int ct_pickle_end(struct ct_pickle *p);
void ct_pickle_op(struct ct_pickle *p, unsigned op);
void ct_pickle_number(struct ct_pickle *p, uint64_t value); // at most INT64_MAX, or that
// Bytes of a trace: what is not UTF-8 becomes U+FFFD.
void ct_pickle_bytes(struct ct_pickle *p, const char *bytes, size_t length);
void ct_pickle_text(struct ct_pickle *p, const char *text);
// Remembers what was just written under a number; writes it again.
void ct_pickle_memoize(struct ct_pickle *p, uint32_t memo);
void ct_pickle_recall(struct ct_pickle *p, uint32_t memo);

#endif
