// SPDX-License-Identifier: Apache-2.0
// Where the recorder cuts a chunk's body into zstd blocks. Columns differ in the bytes that they
// hold and a zstd block has an entropy code of its own: a body that is cut between columns takes
// about a tenth less.
#ifndef BODY_CUT_H
#define BODY_CUT_H

#include <cutrace/format/bytes.h>

// Where the zstd block that begins at `at` ends: at the first section, or column of events, that
// begins CT_CUT_BYTES or more after `at`; else at the end of the body.
static inline size_t ct_body_next_cut(const uint8_t *body, size_t bytes, size_t at) {
    struct ct_in all = {body, body + bytes, 0}, section;
    unsigned kind;
    while (ct_section_next(&all, &kind, &section) > 0) {
        if (kind == CT_SECTION_EVENTS && (size_t)(section.end - body) > at + CT_CUT_BYTES)
            for (ct_get_varint(&section); section.at < section.end && !section.bad;) {
                const size_t here = (size_t)(section.at - body);
                if (here >= at + CT_CUT_BYTES)
                    return here;
                ct_get_varint(&section);
                ct_get_varint(&section);
                const uint32_t n = ct_get_u32(&section);
                (void)ct_get_slice(&section, n);
            }
        const size_t here = (size_t)(all.at - body);
        if (here >= at + CT_CUT_BYTES)
            return here;
    }
    return bytes;
}

#endif
