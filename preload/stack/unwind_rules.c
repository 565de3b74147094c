// SPDX-License-Identifier: Apache-2.0
// Learning unwind rules from libunwind. See unwind_rules.h.
//
// unw_reg_states_iterate runs the call frame information of a function and hands out the state of
// each of its rows, without touching any stack. The state is libunwind's private structure. Its
// version is pinned (scripts/libunwind.sha256), its size is compared, and the self-check
// (CUTRACE_CHECK_STACKS) compares the stacks that come of the rules with libunwind's unwinding.
#include "stack/unwind_rules.h"

#include "base/pages.h"

#include <libunwind.h>

_Atomic uint64_t *_Atomic ct_rule_table;

#ifdef __x86_64__
enum { RBP = 6, RSP = 7, RIP = 16, CFA = 17, CFA_OFFSET = 18, COLUMNS };
enum { UNDEFINED, SAME, AT_CFA, IN_REGISTER, EXPRESSION };

// struct dwarf_reg_state of libunwind 1.6.2 (include/dwarf.h)
struct state {
    unw_word_t return_column;
    char where[COLUMNS];
    unw_word_t value[COLUMNS];
};

// `rule` is CT_RULE_NONE until a row was seen.
struct search {
    uintptr_t pc;
    unsigned rule;
};

// gcc writes this for a function that aligns its stack: "DW_CFA_def_cfa_expression: DW_OP_breg6
// (rbp) -8k; DW_OP_deref" and "DW_CFA_expression: rbp at DW_OP_breg6 0". Returns k, or 0 for
// anything else.
static unsigned parse_aligned(const struct state *s) {
    const uint8_t *cfa = (const uint8_t *)s->value[CFA], *rbp = (const uint8_t *)s->value[RBP];
    if (s->where[CFA] != EXPRESSION || s->where[RBP] != EXPRESSION || s->where[RIP] != AT_CFA ||
        s->value[RIP] != (unw_word_t)-8)
        return 0;
    if (cfa[0] != 3 || cfa[1] != 0x76 || cfa[3] != 0x06 || rbp[0] != 2 || rbp[1] != 0x76 || rbp[2])
        return 0;
    if (cfa[2] & 0x80 || !(cfa[2] & 0x40)) // a number of more than one byte, or no negative one
        return 0;
    const unsigned below = 0x80u - cfa[2];
    return below % 8 || below / 8 > 11 ? 0 : below / 8;
}

static unsigned standard_rule(const struct state *s) {
    const int64_t size = (int64_t)s->value[CFA_OFFSET], rbp = (int64_t)s->value[RBP];
    if (s->where[CFA] != IN_REGISTER || s->where[RIP] != AT_CFA || (int64_t)s->value[RIP] != -8)
        return CT_RULE_OTHER;
    if (size < 8 || size >= 1 << 15 || size % 8)
        return CT_RULE_OTHER;
    const unsigned rule = (unsigned)size / 8 << 4;
    if (s->value[CFA] == RBP && s->where[RBP] == AT_CFA && rbp == -16)
        return size == 16 ? CT_RULE_FRAME : rule | 1;
    if (s->value[CFA] != RSP)
        return CT_RULE_OTHER;
    if (s->where[RBP] == SAME)
        return rule;
    if (s->where[RBP] == AT_CFA && rbp <= -16 && rbp >= -120 && rbp % 8 == 0)
        return rule | (unsigned)(-rbp / 8);
    return CT_RULE_OTHER;
}

static unsigned rule_of(const struct state *s) {
    if (s->return_column != RIP || s->where[RSP] != SAME)
        return CT_RULE_OTHER;
    // unw_step ends at these. It evaluates the CFA before, which must be harmless then.
    if (s->where[RIP] == UNDEFINED || s->where[RBP] == UNDEFINED)
        return s->where[CFA] == IN_REGISTER ? CT_RULE_END : CT_RULE_OTHER;
    const unsigned k = parse_aligned(s);
    return k ? CT_RULE_ALIGNED + k : standard_rule(s);
}

static int read_row(void *data, void *state, size_t bytes, unw_word_t start, unw_word_t end) {
    struct search *search = data;
    if (search->rule == CT_RULE_NONE)
        search->rule = CT_RULE_OTHER;
    if (bytes != sizeof(struct state))
        return -1;
    const uintptr_t call = search->pc - 1; // in the instruction before the return address
    if (call < start || call >= end)
        return 0;
    search->rule = rule_of(state);
    return -1; // no more rows
}

static _Atomic uint32_t forgotten; // how often the table was emptied

static void add_rule(uintptr_t pc, unsigned rule) {
    _Atomic uint64_t *const rules = atomic_load(&ct_rule_table);
    const uint64_t at = pc * UINT64_C(0x9E3779B97F4A7C15) >> (64 - CT_RULES_BITS);
    const uint64_t first = atomic_load_explicit(&rules[at], memory_order_relaxed);
    // Each address has two places: the older rule moves to the second one, and replaces what is
    // there.
    if (first && first >> 16 != pc)
        atomic_store_explicit(&rules[at ^ 1], first, memory_order_relaxed);
    atomic_store_explicit(&rules[at], (uint64_t)pc << 16 | rule, memory_order_relaxed);
}

unsigned ct_rule_learn(uintptr_t pc) {
    unw_context_t context;
    unw_cursor_t cursor;
    struct search search = {pc, CT_RULE_NONE};
    const uint32_t before = atomic_load(&forgotten);
    if (pc >> 47)
        return CT_RULE_OTHER;
    unw_getcontext(&context);
    // libunwind itself subtracts 1 from the address, to be in the call.
    if (unw_init_local(&cursor, &context) || unw_set_reg(&cursor, UNW_REG_IP, pc))
        return CT_RULE_OTHER;
    const int rc = unw_reg_states_iterate(&cursor, read_row, &search);
    if (search.rule == CT_RULE_NONE)
        search.rule = rc == -UNW_ENOINFO ? CT_RULE_LOST : CT_RULE_OTHER;
    if (atomic_load(&forgotten) == before)
        add_rule(pc, search.rule);
    return search.rule;
}

void ct_rule_init(void) {
    if (!atomic_load(&ct_rule_table))
        atomic_store(&ct_rule_table, ct_pages_map(sizeof(uint64_t) << CT_RULES_BITS));
}

void ct_rule_forget_all(void) {
    _Atomic uint64_t *const rules = atomic_load(&ct_rule_table);
    atomic_fetch_add(&forgotten, 1);
    for (size_t i = 0; rules && i < (size_t)1 << CT_RULES_BITS; i++)
        if (atomic_load_explicit(&rules[i], memory_order_relaxed))
            atomic_store_explicit(&rules[i], 0, memory_order_relaxed);
}
#else
// On other machines libunwind unwinds every stack.
unsigned ct_rule_learn(uintptr_t pc) {
    (void)pc;
    return CT_RULE_OTHER;
}
void ct_rule_init(void) {
}
void ct_rule_forget_all(void) {
}
#endif

int ct_rule_is_lost(uintptr_t pc) {
    _Atomic uint64_t *const rules = atomic_load_explicit(&ct_rule_table, memory_order_relaxed);
    unsigned rule = rules ? ct_rule_find(rules, pc) : CT_RULE_OTHER;
    if (rule == CT_RULE_NONE)
        rule = ct_rule_learn(pc);
    return rule == CT_RULE_LOST;
}
