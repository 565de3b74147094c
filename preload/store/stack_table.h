// SPDX-License-Identifier: Apache-2.0
// Call stacks, kept once each, in the journal. (capture.h takes them.)
#ifndef CT_STACKS_H
#define CT_STACKS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cutrace/format/journal.h>

// A stack that was seen: a struct ct_journal_stack. Frames are words (cutrace/journal.h), innermost first; a native frame
// is a return address (the innermost one, too: all are taken inside a call). Without frames it is an alias.
struct ct_stack_entry {
    _Atomic uint64_t hash; // written last; never 0
    uint32_t frames;
    uint32_t
        file_id; // the drainer's: id in the file's dictionary ... (of an alias: the stack it stands for)
    uint32_t file_generation; // ... of this generation
    uint32_t reserved;
    uint64_t frame[];
};
_Static_assert(sizeof(struct ct_stack_entry) == sizeof(struct ct_journal_stack) &&
                   offsetof(struct ct_stack_entry, frame) ==
                       offsetof(struct ct_journal_stack, frame),
               "as the journal has it");

// The stack with an id that ct_stack_table_intern returned, or NULL.
struct ct_stack_entry *ct_stack_entry(uint32_t id);

// The hash of a stack, in steps of 8 frames; behind the last one there are zeros. A multiplication for each two frames,
// of which four do not wait for each other.
struct ct_stack_hash {
    uint64_t lane[4];
};
#define CT_STACK_HASH_STEP 8

static inline uint64_t ct_stack_hash_mix(uint64_t a, uint64_t b) {
    __extension__ const unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline struct ct_stack_hash ct_stack_hash_begin(size_t n) {
    return (struct ct_stack_hash){{n, UINT64_C(0xE7037ED1A0B428DB), UINT64_C(0x8EBC6AF09C88C6E3),
                                   UINT64_C(0x589965CC75374CC3)}};
}

static inline void ct_stack_hash_step(struct ct_stack_hash *h, uint64_t a, uint64_t b, uint64_t c,
                                      uint64_t d, uint64_t e, uint64_t f, uint64_t g, uint64_t i) {
    const uint64_t k = UINT64_C(0xA0761D6478BD642F);
    h->lane[0] = ct_stack_hash_mix(a ^ k, b ^ h->lane[0]);
    h->lane[1] = ct_stack_hash_mix(c ^ k, d ^ h->lane[1]);
    h->lane[2] = ct_stack_hash_mix(e ^ k, f ^ h->lane[2]);
    h->lane[3] = ct_stack_hash_mix(g ^ k, i ^ h->lane[3]);
}

// Never 0.
static inline uint64_t ct_stack_hash_end(const struct ct_stack_hash *h) {
    const uint64_t all = ct_stack_hash_mix(h->lane[0] ^ h->lane[1] ^ UINT64_C(0x1D8E4E27C47D124F),
                                      h->lane[2] ^ h->lane[3] ^ UINT64_C(0xEB44ACCAB455D165));
    return all | !all;
}

uint64_t ct_stack_hash(const uint64_t *frames, size_t n);

// Id of a stack of n frames, 0 when the table is full. Lock-free.
uint32_t ct_stack_table_intern(const uint64_t *frames, size_t n);

// Another key for a stack: what tells it without having it (the hashes that it was made from). A key is as good as a
// hash: never 0. Returns the stack, 0 if the key is not known. Lock-free.
uint32_t ct_stack_table_find_alias(uint64_t key);
void ct_stack_table_add_alias(uint64_t key, uint32_t stack);

// Stacks that found the table full.
extern _Atomic uint64_t ct_stack_table_dropped;

// A forked child: the parent's stacks are in the parent's journal. Only the forking thread may be running.
void ct_stack_table_reinit_child(void);

#endif
