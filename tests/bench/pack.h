// SPDX-License-Identifier: Apache-2.0
// Events in memory as an EVENTS section in packed columns, for programs that measure.
#ifndef CT_BENCH_PACK_H
#define CT_BENCH_PACK_H

#include <stdlib.h>

#include <cutrace/format/encode.h>

#define PACK_TICK_NS 100u
#define PACK_STREAM_BYTES (1u << 20) // of a column

static uint8_t *pack_stream[CT_COLUMNS];

static int pack_room(void *user, unsigned column, struct ct_out *out) {
    (void)user;
    if (!pack_stream[column])
        pack_stream[column] = (uint8_t *)malloc(PACK_STREAM_BYTES);
    if (out->at || !pack_stream[column])
        return -1;
    *out = (struct ct_out){pack_stream[column], pack_stream[column] + PACK_STREAM_BYTES, 0};
    return 0;
}

static void pack_columns(struct ct_encoder *columns, const struct ct_event *events, size_t n) {
    static void *memory;
    if (!memory && !(memory = malloc(ct_encoder_memory_bytes())))
        abort();
    columns->room = pack_room;
    ct_encoder_begin(columns, memory, PACK_TICK_NS);
    for (size_t i = 0; i < n; i++) {
        columns->next_ns = i + 1 < n ? events[i + 1].t_ns : 0;
        if (ct_encoder_put(columns, &events[i]))
            abort();
    }
}

static void pack_events(struct ct_out *o, const struct ct_event *events, size_t n) {
    static struct ct_encoder columns;
    pack_columns(&columns, events, n);
    uint8_t *section = ct_section_begin(o, CT_SECTION_EVENTS);
    ct_put_varint(o, n);
    for (unsigned c = 0; c < CT_COLUMNS; c++) {
        const struct ct_out *stream = &columns.stream[c];
        if (!stream->at)
            continue;
        const size_t bytes = (size_t)(stream->at - pack_stream[c]);
        ct_encoder_put_column_head(o, c, (uint32_t)bytes);
        ct_put_bytes(o, pack_stream[c], bytes);
    }
    ct_section_end(o, section);
}

#endif
