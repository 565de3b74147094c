// SPDX-License-Identifier: Apache-2.0
// Reads Python's pickle as data: dictionaries, lists, tuples, numbers and texts, by the opcodes of
// base/pickle_opcodes.def. Nothing is ever run: an opcode that names a class or calls a function is
// an error. The bytes are a stranger's: memory is bounded by constants, and nothing recurses.
#ifndef CT_PICKLE_READ_H
#define CT_PICKLE_READ_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum ct_pickle_type {
    CT_PICKLE_IS_NONE,
    CT_PICKLE_IS_BOOL,
    CT_PICKLE_IS_NUMBER,
    CT_PICKLE_IS_REAL,
    CT_PICKLE_IS_TEXT,
    CT_PICKLE_IS_BYTES,
    CT_PICKLE_IS_LIST, // from here on: with elements
    CT_PICKLE_IS_TUPLE,
    CT_PICKLE_IS_DICT, // keys and values in turn
};

struct ct_pickle_value {
    enum ct_pickle_type type;
    uint32_t length; // of a text or of bytes
    union {
        int64_t number; // of a truth value 0 or 1
        double real;
        const char *text;   // within the bytes that were parsed, not terminated
        uint32_t container; // the same number is the same object
    };
};

struct ct_pickle_chunk {
    size_t first; // element
    uint32_t count, next;
};

struct ct_pickle_container {
    uint32_t first, last; // chunks, 0: none
    uint64_t count;       // elements, of a dictionary keys and values
};

struct ct_pickle_document {
    unsigned protocol;
    struct ct_pickle_value root;
    struct ct_pickle_value *items; // elements of all containers
    struct ct_pickle_container *containers;
    struct ct_pickle_chunk *chunks;
    size_t item_count, item_room, container_count, container_room, chunk_count, chunk_room;
};

// Parses all of it. `bytes` must outlive the document; `name` is for the message. 0, or -1 with the
// error set, which names the offset. The document is to be freed in either case.
int ct_pickle_parse(struct ct_pickle_document *d, const char *name, const void *bytes, size_t size,
                    struct ct_error *error);
void ct_pickle_document_free(struct ct_pickle_document *d);

// The elements of a container; none of any other value.
struct ct_pickle_walk {
    const struct ct_pickle_document *document;
    uint32_t chunk, at;
};
struct ct_pickle_walk ct_pickle_walk(const struct ct_pickle_document *d,
                                     const struct ct_pickle_value *v);
const struct ct_pickle_value *ct_pickle_next(struct ct_pickle_walk *w); // NULL after the last one
uint64_t ct_pickle_count(const struct ct_pickle_document *d, const struct ct_pickle_value *v);
// The value of a key of a dictionary (of equal keys the last one's), or NULL.
const struct ct_pickle_value *ct_pickle_find(const struct ct_pickle_document *d,
                                             const struct ct_pickle_value *dict, const char *key);
// Whether a text is this one. NULL is none.
int ct_pickle_is_text(const struct ct_pickle_value *v, const char *text);

#endif
