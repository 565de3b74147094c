// SPDX-License-Identifier: Apache-2.0
// Writes a synthetic trace for measuring the report: make_trace EVENTS LIVE FILE [blocks].
// Allocations and frees of many sizes from a few hundred stacks, LIVE of them alive in the mean.
// With `blocks` they are PyTorch's, in segments of 20 MiB.
#include <stdio.h>
#include <stdlib.h>
#include <zstd.h>

#include <cutrace/format/bytes.h>
#include <cutrace/format/xxh64.h>

#include "../lib/draw.h"
#include "pack.h"

enum { PER_CHUNK = 65536, STACKS = 300 };

static uint8_t body[32 << 20], packed[33 << 20];
static struct ct_event events[PER_CHUNK];

static void entry(struct ct_out *o, uint64_t id, const struct ct_out *payload,
                  const uint8_t *start) {
    ct_put_varint(o, id);
    ct_put_text(o, (const char *)start, (size_t)(payload->at - start));
}

static void dictionaries(struct ct_out *o) {
    uint8_t text[100];
    uint8_t *at = ct_section_begin(o, CT_SECTION_STRINGS);
    for (uint64_t i = 1; i <= STACKS + 1; i++) {
        ct_put_varint(o, i);
        const int n = snprintf((char *)text, sizeof text, "function_%d", (int)i);
        ct_put_text(o, (const char *)text, (size_t)n);
    }
    ct_section_end(o, at);
    at = ct_section_begin(o, CT_SECTION_FRAMES);
    for (uint64_t i = 1; i <= STACKS; i++) {
        struct ct_out p = {text, text + sizeof text, 0};
        const uint64_t fields[] = {CT_FRAME_NATIVE, 0x1000 + i * 16, 0, 0x1000 + i * 16, i, 3};
        for (size_t f = 0; f < sizeof fields / sizeof *fields; f++)
            ct_put_varint(&p, fields[f]);
        entry(o, i, &p, text);
    }
    ct_section_end(o, at);
    at = ct_section_begin(o, CT_SECTION_STACKS);
    for (uint64_t i = 1; i <= STACKS; i++) {
        struct ct_out p = {text, text + sizeof text, 0};
        ct_put_varint(&p, 0); // a tree of its own, of three nodes
        ct_put_varint(&p, 3);
        ct_put_varint(&p, i * 3 - 2);
        ct_put_varint(&p, ct_zigzag(i > 1 ? 2 : 3));
        ct_put_varint(&p, ct_zigzag(UINT64_C(0) - 1));
        ct_put_varint(&p, ct_zigzag(i > 1 ? i - 1 : UINT64_C(0) - 1));
        entry(o, i, &p, text);
    }
    ct_section_end(o, at);
    at = ct_section_begin(o, CT_SECTION_THREADS);
    struct ct_out p = {text, text + sizeof text, 0};
    ct_put_varint(&p, 4242);
    ct_put_varint(&p, 0);
    entry(o, 1, &p, text);
    ct_section_end(o, at);
}

static void put_chunk(FILE *f, uint64_t seq, uint64_t first, size_t n, int last) {
    static const uint8_t zero[16];
    struct ct_out o = {body, body + sizeof body, 0};
    struct ct_chunk h = {
        .version = CT_FORMAT_VERSION, .header_bytes = sizeof h, .seq = seq, .trace_id = 7};
    if (!seq)
        dictionaries(&o);
    pack_events(&o, events, n);
    memcpy(h.magic, CT_CHUNK_MAGIC, 8);
    h.flags = last ? CT_CHUNK_LAST : 0u;
    h.first_event = first;
    h.events = (uint32_t)n;
    h.t_first_ns = events[0].t_ns;
    h.t_last_ns = events[n - 1].t_ns;
    h.raw_bytes = (uint64_t)(o.at - body);
    h.body_bytes = ZSTD_compress(packed, sizeof packed, body, h.raw_bytes, 1);
    h.checksum = ct_xxh64(&h, offsetof(struct ct_chunk, checksum));
    const uint32_t prefix[2] = {CT_PREFIX_MAGIC, sizeof h};
    const uint32_t filler[2] = {CT_FILLER_MAGIC,
                                (uint32_t)(-(CT_PREFIX_BYTES + h.body_bytes + 8) & 7)};
    if (o.bad || fwrite(prefix, 8, 1, f) != 1 || fwrite(&h, sizeof h, 1, f) != 1 ||
        fwrite(packed, h.body_bytes, 1, f) != 1 || fwrite(filler, 8, 1, f) != 1 ||
        fwrite(zero, 1, filler[1], f) != filler[1]) {
        fputs("make_trace: cannot write\n", stderr);
        exit(1);
    }
}

enum { SEGMENT = 20 << 20, BLOCK_ROOM = 16 << 10, IN_SEGMENT = SEGMENT / BLOCK_ROOM };

// An allocation of the driver's, at a place among those that lie `room` bytes apart.
static void put_alloc(struct ct_event *e, uint64_t place, uint64_t room, uint64_t bytes) {
    CT_SET(e, op, CT_OP_ALLOC);
    CT_SET(e, ptr, UINT64_C(0x7f0000000000) + place * room);
    CT_SET(e, api, STACKS + 1);
    CT_SET(e, result, 0);
    CT_SET(e, device, 0);
    CT_SET(e, context, 0x55aa);
    CT_SET(e, bytes, bytes);
    CT_SET(e, stack, (uint32_t)(1 + draw(STACKS)));
    CT_SET(e, duration_ns, 1000 + draw(1000));
    CT_SET(e, space, CT_SPACE_DEVICE);
}

// A block: of many sizes, each with a free range behind it.
static void put_block(struct ct_event *e, uint64_t slot, uint32_t *size) {
    static uint64_t allocated;
    const int begins = !*size;
    if (begins)
        *size = (uint32_t)(1 + draw(BLOCK_ROOM / 512 - 1)) * 512;
    allocated += begins ? *size : 0 - (uint64_t)*size;
    CT_SET(e, op, begins ? CT_OP_BLOCK_ALLOC : CT_OP_BLOCK_FREE);
    CT_SET(e, ptr, UINT64_C(0x7f0000000000) + slot * BLOCK_ROOM);
    CT_SET(e, bytes, *size);
    CT_SET(e, device, 0);
    CT_SET(e, allocated_bytes, allocated);
    CT_SET(e, reserved_bytes, UINT64_C(1) << 40);
    if (begins)
        CT_SET(e, stack, (uint32_t)(1 + draw(STACKS)));
    else
        *size = 0;
}

int main(int argc, char **argv) {
    if (argc < 4)
        return 2;
    const int blocks = argc > 4 && !strcmp(argv[4], "blocks");
    const uint64_t count = strtoull(argv[1], NULL, 10), live = strtoull(argv[2], NULL, 10);
    FILE *f = fopen(argv[3], "wb");
    uint32_t *alive = calloc(live * 2, sizeof *alive);
    const uint64_t segments = blocks ? live * 2 / IN_SEGMENT + 1 : 0;
    if (!f || !alive)
        return 1;
    uint64_t t = 1000000000, seq = 0;
    size_t n = 0;
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t slot = draw(live * 2);
        struct ct_event *e = &events[n++];
        e->present = 0;
        t += 500 + draw(5000);
        CT_SET(e, t_ns, t);
        CT_SET(e, thread, 1);
        if (i < segments) {
            put_alloc(e, i, SEGMENT, SEGMENT);
        } else if (blocks) {
            put_block(e, slot, &alive[slot]);
        } else if (alive[slot]) {
            CT_SET(e, op, CT_OP_FREE);
            CT_SET(e, ptr, UINT64_C(0x7f0000000000) + slot * (2 << 20));
            alive[slot] = 0;
        } else {
            put_alloc(e, slot, 2 << 20, (1 + draw(4096)) * 512);
            alive[slot] = 1;
        }
        if (n == PER_CHUNK || i + 1 == count) {
            put_chunk(f, seq++, i + 1 - n, n, i + 1 == count);
            n = 0;
        }
    }
    free(alive);
    return fclose(f) != 0;
}
