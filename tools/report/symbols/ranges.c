// SPDX-License-Identifier: Apache-2.0
#include "symbols/ranges.h"

static int begins_with(const struct ct_string *s, const char *with, int whole) {
    const size_t length = strlen(with);
    return s->length >= length && (!whole || s->length == length) &&
           memcmp(s->at, with, length) == 0;
}

static int is_noise(const struct ct_string *name, const struct ct_string *domain) {
    static const char *const domains[] = {
#define CT_NOISE_DOMAIN(domain, source) domain,
#include "symbols/range_noise.def"
    };
    static const char *const begins[] = {
#define CT_NOISE_RANGE(begin, source) begin,
#include "symbols/range_noise.def"
    };
    for (size_t i = 0; i < sizeof domains / sizeof *domains; i++)
        if (begins_with(domain, domains[i], 1))
            return 1;
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        if (begins_with(name, begins[i], 0))
            return 1;
    return 0;
}

int ct_ranges_is_noise(const struct ct_definitions *n, uint32_t text, uint32_t domain) {
    return is_noise(&n->strings[text], &n->strings[domain]);
}

// The name of a range, or NULL if it does not count.
static const struct ct_string *get_name(const struct ct_definitions *n, uint32_t text,
                                        uint32_t domain) {
    const struct ct_string *name = &n->strings[text];
    return text && name->length && !is_noise(name, &n->strings[domain]) ? name : NULL;
}

const struct ct_string *ct_ranges_find(const struct ct_definitions *n,
                                       const struct ct_open_ranges *open,
                                       const struct ct_event *e) {
    const int begins = e->op == CT_OP_RANGE_PUSH || e->op == CT_OP_RANGE_START;
    const int ends = e->op == CT_OP_RANGE_POP || e->op == CT_OP_RANGE_END;
    if (!open->used && !begins)
        return NULL;
    const uint32_t thread = CT_GET(e, thread);
    const uint32_t ended = ends ? ct_open_ranges_find(open, e) : 0;
    const struct ct_string *of_process = NULL;
    for (uint32_t i = 0; i < open->used; i++) {
        const struct ct_open_range *r = &open->range[i];
        const struct ct_string *name = get_name(n, r->text, r->domain);
        if (!name || i + 1 == ended)
            continue;
        if (r->op == CT_OP_RANGE_PUSH && r->thread == thread)
            return name;
        if (r->op == CT_OP_RANGE_START && !of_process)
            of_process = name;
    }
    const struct ct_string *own = begins ? get_name(n, CT_GET(e, text), CT_GET(e, domain)) : NULL;
    return own && (e->op == CT_OP_RANGE_PUSH || !of_process) ? own : of_process;
}

int ct_ranges_are_heard(const struct ct_definitions *n) {
    uint64_t calls = 0, early = 0;
    return ct_definitions_info_number(n, "annotations.calls", &calls) &&
           (!ct_definitions_info_number(n, "annotations.early", &early) || calls > early);
}
