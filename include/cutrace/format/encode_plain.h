// SPDX-License-Identifier: Apache-2.0
// Plain EVENTS sections (FORMAT.md, section 3): a column of presence masks, then one column of
// values or differences for each field. Times are exact. For few events that lie in memory: no
// tables are needed, and the columns are written one after the other into one buffer.
#ifndef CUTRACE_ENCODE_PLAIN_H
#define CUTRACE_ENCODE_PLAIN_H

#include <cutrace/format/columns.h>

static inline void ct_encode_plain_column(struct ct_out *o, unsigned field,
                                          const struct ct_event *events, size_t n) {
    const enum ct_coding coding = field ? ct_field_coding(field) : CT_VARINT;
    static const uint8_t zero[4];
    uint64_t last = 0;
    ct_put_varint(o, field);
    ct_put_varint(o, coding);
    uint8_t *length_at = o->at;
    ct_put_bytes(o, zero, 4);
    for (size_t i = 0; i < n && !o->bad; i++) {
        const uint64_t v = field ? ct_event_get(&events[i], field) : events[i].present;
        if (field && !(events[i].present >> field & 1))
            continue;
        ct_put_varint(o, coding == CT_DELTA ? ct_zigzag(v - last) : v);
        last = v;
    }
    ct_section_end(o, length_at);
}

// A whole EVENTS section.
static inline void ct_encode_plain(struct ct_out *o, const struct ct_event *events, size_t n) {
    uint64_t used = 1;
    for (size_t i = 0; i < n; i++)
        used |= events[i].present;
    uint8_t *length_at = ct_section_begin(o, CT_SECTION_EVENTS);
    ct_put_varint(o, n);
    for (unsigned f = 0; f < CT_FIELDS_END; f++)
        if (used >> f & 1)
            ct_encode_plain_column(o, f, events, n);
    ct_section_end(o, length_at);
}

#endif
