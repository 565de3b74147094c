// SPDX-License-Identifier: Apache-2.0
// Coding of a chunk's body, both directions: bytes and sections (bytes.h), events into columns (columns.h) and out of
// them (columns_in.h).
#ifndef CUTRACE_CODEC_H
#define CUTRACE_CODEC_H

#include <cutrace/format/bytes.h>
#include <cutrace/format/decode.h>
#include <cutrace/format/encode.h>

// Where the next block of the compressor should begin: before the first section or column of events that begins at least
// CT_CUT_BYTES behind `at`; else at the end. Columns differ in what their bytes look like, and blocks have codes of their
// own: a body that is cut between columns takes about a tenth less.
#define CT_CUT_BYTES 4096u

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
