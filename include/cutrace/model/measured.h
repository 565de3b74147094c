// SPDX-License-Identifier: Apache-2.0
// Memory of a process that has no address, as far as calls were measured to take it: contexts,
// modules, limits and graph executables. Free memory was read before and after such a call.
//
// Header-only like live.h, because the recorder and the report must come to the same result.
#ifndef CUTRACE_MEASURED_H
#define CUTRACE_MEASURED_H

#include <cutrace/format/format.h>
#include <cutrace/format/hot.h>

enum ct_measured_part {
    CT_MEASURED_CONTEXTS,
    CT_MEASURED_MODULES,
    CT_MEASURED_LIMITS,
    CT_MEASURED_GRAPHS,
    CT_MEASURED_PARTS, // also: no part
};

// A measurement is no evidence if another call of the device was under way. Of a call that returns
// later this is known only then, so the last measurements are kept, to be taken back.
struct ct_measurement {
    uint64_t t_ns;
    int64_t bytes; // taken; negative: given back
    enum ct_measured_part part;
    int is_instantiation;
};
enum { CT_MEASUREMENTS_KEPT = 8 };

// Of one device.
struct ct_measured {
    uint64_t bytes[CT_MEASURED_PARTS]; // taken and not given back
    uint8_t known[CT_MEASURED_PARTS];  // a call of the part was measured
    uint64_t instantiations, unmeasured_instantiations;
    uint64_t call_ns;   // of the last call of the device
    uint64_t count;     // of measurements so far
    uint64_t newest_ns; // end of the last one
    uint64_t contexts;  // that were created, measured or not, and not destroyed
    struct ct_measurement recent[CT_MEASUREMENTS_KEPT];
};

// The part that a call's memory belongs to. A memory-sample with flag graph is the instantiation of
// a graph or, with a handle, the end of a graph executable.
static inline enum ct_measured_part ct_measured_part_of(const struct ct_event *e) {
    switch (e->op) {
    case CT_OP_CONTEXT_CREATE:
        return CT_MEASURED_CONTEXTS;
    case CT_OP_MODULE_LOAD:
    case CT_OP_MODULE_UNLOAD:
        return CT_MEASURED_MODULES;
    case CT_OP_LIMIT:
        return CT_MEASURED_LIMITS;
    case CT_OP_MEMORY_SAMPLE:
        return CT_HAS(e, flags) && e->flags & CT_FLAG_GRAPH ? CT_MEASURED_GRAPHS
                                                            : CT_MEASURED_PARTS;
    default:
        return CT_MEASURED_PARTS;
    }
}

static inline void ct_measured_add(struct ct_measured *m, enum ct_measured_part part,
                                   int64_t bytes) {
    uint64_t *sum = &m->bytes[part];
    const uint64_t less = bytes < 0 ? 0 - (uint64_t)bytes : 0;
    *sum = bytes < 0 ? *sum - (less < *sum ? less : *sum) : *sum + (uint64_t)bytes;
}

static inline void ct_measured_keep(struct ct_measured *m, const struct ct_measurement *one) {
    ct_measured_add(m, one->part, one->bytes);
    m->known[one->part] = 1;
    m->instantiations += one->is_instantiation != 0;
    m->recent[m->count++ % CT_MEASUREMENTS_KEPT] = *one;
    m->newest_ns = one->t_ns;
}

// Takes back the measurements that ended after a time.
CT_COLD void ct_measured_take_back(struct ct_measured *m, uint64_t since_ns) {
    for (unsigned i = 0; i < CT_MEASUREMENTS_KEPT; i++) {
        struct ct_measurement *one = &m->recent[i];
        if (one->t_ns <= since_ns)
            continue;
        ct_measured_add(m, one->part, -one->bytes);
        m->instantiations -= one->is_instantiation != 0;
        m->unmeasured_instantiations += one->is_instantiation != 0;
        *one = (struct ct_measurement){.t_ns = 0};
    }
}

// What the calls of a part took is no longer known: something was given back, and nobody knows how
// much.
CT_COLD void ct_measured_forget(struct ct_measured *m, enum ct_measured_part part) {
    for (unsigned i = 0; i < CT_MEASUREMENTS_KEPT; i++)
        if (m->recent[i].part == part)
            m->recent[i] = (struct ct_measurement){.t_ns = 0};
    m->bytes[part] = 0;
    if (part == CT_MEASURED_GRAPHS) {
        m->unmeasured_instantiations += m->instantiations;
        m->instantiations = 0;
    }
}

// The end of a device's only context ends what lay in it.
static inline void ct_measured_end_context(struct ct_measured *m) {
    for (unsigned part = 0; part < CT_MEASURED_PARTS; part++)
        m->bytes[part] = 0;
}

// Notes a call of a part. `is_alone`: no other call of the device was under way, as far as is
// known.
CT_COLD void ct_measured_note(struct ct_measured *m, const struct ct_event *e,
                              enum ct_measured_part part, int is_alone) {
    const int ends = part == CT_MEASURED_GRAPHS && CT_HAS(e, handle);
    const int is_instantiation = part == CT_MEASURED_GRAPHS && !ends;
    // (Its event comes before the call, whose result is amended: so it may fail after all.)
    if (e->op == CT_OP_MODULE_UNLOAD) {
        ct_measured_forget(m, part);
        return;
    }
    if (CT_HAS(e, result) && e->result)
        return;
    m->contexts += e->op == CT_OP_CONTEXT_CREATE;
    if (!is_alone || !CT_HAS(e, free_before_bytes) || !CT_HAS(e, free_bytes)) {
        m->unmeasured_instantiations += is_instantiation;
        if (ends)
            ct_measured_forget(m, part);
        return;
    }
    struct ct_measurement one = {.t_ns = e->t_ns, .part = part};
    one.bytes = (int64_t)(e->free_before_bytes - e->free_bytes);
    one.is_instantiation = is_instantiation;
    // What creates or loads gives nothing back, and what ends takes nothing: that was somebody
    // else.
    if (ends ? one.bytes > 0 : one.bytes < 0)
        one.bytes = 0;
    ct_measured_keep(m, &one);
}

#endif
