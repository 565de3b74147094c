// SPDX-License-Identifier: Apache-2.0
// Unwind rules: for a return address, where its frame keeps the return address and the frame
// pointer of its caller. One word for each address, learned once from libunwind, in a table for all
// threads. Lock-free to read.
#ifndef CT_UNWIND_RULES_H
#define CT_UNWIND_RULES_H

#include <stdatomic.h>
#include <stdint.h>

// A rule has 16 bits. By each rule the return address lies at CFA - 8, and the caller's stack
// pointer is the CFA:
//   size >> 3 << 4 | n   CFA = rsp + size; the caller's rbp is ours (n 0), or lies at CFA - 8 * n
//   (n from 2)
//   size >> 3 << 4 | 1   CFA = rbp + size; the caller's rbp lies at CFA - 16 (libffi's calls)
//   CT_RULE_FRAME        CFA = rbp + 16; the caller's rbp lies at rbp
//   CT_RULE_ALIGNED + k  CFA = the word at rbp - 8 * k (k 1 to 11); the caller's rbp lies at rbp
//   CT_RULE_END          there is no caller
//   CT_RULE_LOST         there is no unwind information: the caller is not known
//   CT_RULE_OTHER        anything else
//   CT_RULE_NONE         the table has no rule of this address
enum {
    CT_RULE_NONE,
    CT_RULE_OTHER,
    CT_RULE_LOST,
    CT_RULE_END,
    CT_RULE_FRAME,
    CT_RULE_ALIGNED = CT_RULE_FRAME
};
#define CT_RULE_IS_RSP(rule) ((rule) >= 16 && CT_RULE_RBP(rule) != 1)
#define CT_RULE_IS_RBP(rule) ((rule) >= 16) // of the others
#define CT_RULE_SIZE(rule) ((uintptr_t)(rule) >> 4 << 3)
#define CT_RULE_RBP(rule) ((rule)&15u)

#define CT_RULES_BITS 15

// A word is the address << 16 | its rule.
extern _Atomic uint64_t *_Atomic ct_rule_table;

// The rule of a return address if the table has it, else CT_RULE_NONE. `rules` is ct_rule_table and
// not NULL.
static inline unsigned ct_rule_find(_Atomic uint64_t *rules, uintptr_t pc) {
    const uint64_t at = pc * UINT64_C(0x9E3779B97F4A7C15) >> (64 - CT_RULES_BITS);
    for (unsigned i = 0; i < 2; i++) {
        const uint64_t word = atomic_load_explicit(&rules[at ^ i], memory_order_relaxed);
        if (__builtin_expect(word >> 16 == pc, 1))
            return (uint16_t)word;
    }
    return CT_RULE_NONE;
}

// Asks libunwind for the rule and adds it to the table. Takes locks of libunwind and of the loader,
// as unw_backtrace does for an address that it sees for the first time: only between
// ct_unwind_enter and leave.
unsigned ct_rule_learn(uintptr_t pc);

// Whether nothing says who called the code that this address returns to. Between ct_unwind_enter
// and leave.
int ct_rule_is_lost(uintptr_t pc);

// Before the first use, by one thread.
void ct_rule_init(void);

// A shared object was unloaded: empties the table, because addresses may belong to other code now.
// A rule that is being learned meanwhile is not added.
void ct_rule_forget_all(void);

#endif
