// SPDX-License-Identifier: Apache-2.0
// The bytes of a digest: a skippable frame between the body of a chunk and its filler. FORMAT.md,
// section 10, specifies them.
#ifndef CUTRACE_DIGEST_CODE_H
#define CUTRACE_DIGEST_CODE_H

#include <cutrace/format/bytes.h>
#include <cutrace/format/xxh64.h>
#include <cutrace/model/digest.h>

#define CT_DIGEST_FRAME 8u                               // magic and length
#define CT_DIGEST_HEAD (CT_DIGEST_FRAME + 8 + 8 + 8 + 4) // and those, sums and version
#define CT_DIGEST_SUMMED (CT_DIGEST_FRAME + 8 + 8) // the checksum is of the bytes from here on
#define CT_DIGEST_BYTES 8192u                      // of the frame, at most

enum ct_digest_part {
    CT_DIGEST_BODY = 1,
    CT_DIGEST_EVENTS,
    CT_DIGEST_FAILURES,
    CT_DIGEST_DEVICES,
    CT_DIGEST_SITES_PART,
    CT_DIGEST_REST,
    CT_DIGEST_FREES,
};

// What a device's entry has beside live_bytes and the flow.
enum {
    CT_DIGEST_HAS_PEAK = 1,
    CT_DIGEST_HAS_LOWEST = 2,
    CT_DIGEST_HAS_LAST = 4,
    CT_DIGEST_HAS_REPORTED = 8,
};

// What the chunk's body has, for readers that want to read a part of it only.
struct ct_digest_body {
    int has_checkpoint, checkpoint; // a part of one, with these flags (CT_CHECKPOINT_*)
    uint64_t definition_bytes;      // so many bytes of the body hold all definitions
};

// ---- writing ------------------------------------------------------------------------------------

static inline void ct_digest_put_flow(struct ct_out *o, const struct ct_digest_flow *f) {
    ct_put_varint(o, f->taken.bytes);
    ct_put_varint(o, f->taken.count);
    ct_put_varint(o, f->given.bytes);
    ct_put_varint(o, f->given.count);
}

static inline void ct_digest_put_body(struct ct_out *o, const struct ct_digest_body *b) {
    uint8_t *const length_at = ct_section_begin(o, (enum ct_section)CT_DIGEST_BODY);
    ct_put_varint(o, b->has_checkpoint ? 1 + (unsigned)b->checkpoint : 0);
    ct_put_varint(o, b->definition_bytes);
    ct_section_end(o, length_at);
}

static inline void ct_digest_put_events(struct ct_out *o, const struct ct_digest *g) {
    uint8_t *const length_at = ct_section_begin(o, (enum ct_section)CT_DIGEST_EVENTS);
    unsigned last = 0;
    for (unsigned op = 0; op < CT_DIGEST_OPS; op++) {
        if (!g->ops[op])
            continue;
        ct_put_varint(o, op - last);
        ct_put_varint(o, g->ops[op]);
        last = op;
    }
    ct_section_end(o, length_at);
}

static inline void ct_digest_put_failures(struct ct_out *o, const struct ct_digest *g) {
    uint64_t last = g->first_event;
    if (!g->lost && !g->failed)
        return;
    uint8_t *const length_at = ct_section_begin(o, (enum ct_section)CT_DIGEST_FAILURES);
    ct_put_varint(o, g->lost);
    ct_put_varint(o, g->failed);
    for (uint64_t i = 0; i < g->failed && i < CT_DIGEST_FAILED; i++) {
        ct_put_varint(o, g->failed_event[i] - last);
        last = g->failed_event[i];
    }
    ct_section_end(o, length_at);
}

static inline void ct_digest_put_reading(struct ct_out *o, const struct ct_digest_reading *r,
                                         uint64_t t_first_ns) {
    ct_put_varint(o, r->free);
    ct_put_varint(o, r->total);
    ct_put_varint(o, ct_zigzag(r->t_ns - t_first_ns));
}

static inline void ct_digest_put_device(struct ct_out *o, const struct ct_digest *g, int index,
                                        uint64_t t_first_ns) {
    const struct ct_digest_device *d = &g->device[index];
    ct_put_varint(o, (d->has_peak ? CT_DIGEST_HAS_PEAK : 0u) |
                         (d->has_lowest ? CT_DIGEST_HAS_LOWEST : 0u) |
                         (d->has_last ? CT_DIGEST_HAS_LAST : 0u) |
                         (d->has_reported ? CT_DIGEST_HAS_REPORTED : 0u));
    ct_put_varint(o, d->live_bytes);
    ct_digest_put_flow(o, &d->flow);
    if (d->has_peak) {
        ct_put_varint(o, d->peak_bytes);
        ct_put_varint(o, d->peak_event - g->first_event);
        ct_put_varint(o, ct_zigzag(d->peak_ns - t_first_ns));
    }
    if (d->has_lowest)
        ct_digest_put_reading(o, &d->lowest, t_first_ns);
    if (d->has_last)
        ct_digest_put_reading(o, &d->last, t_first_ns);
    if (!d->has_reported)
        return;
    ct_put_varint(o, d->allocated);
    ct_put_varint(o, d->reserved);
    ct_put_varint(o, d->most_allocated);
    ct_put_varint(o, d->most_allocated_event - g->first_event);
    ct_put_varint(o, d->most_reserved);
    ct_put_varint(o, d->most_reserved_event - g->first_event);
}

static inline int ct_digest_device_is_used(const struct ct_digest_device *d) {
    return d->live_bytes || d->flow.taken.count || d->flow.given.count || d->has_lowest ||
           d->has_last || d->has_reported;
}

static inline void ct_digest_put_devices(struct ct_out *o, const struct ct_digest *g,
                                         uint64_t t_first_ns) {
    uint8_t *const length_at = ct_section_begin(o, (enum ct_section)CT_DIGEST_DEVICES);
    int next = 0;
    for (int i = 0; i < CT_DEVICES; i++) {
        if (!ct_digest_device_is_used(&g->device[i]))
            continue;
        ct_put_varint(o, (uint64_t)(i - next));
        ct_digest_put_device(o, g, i, t_first_ns);
        next = i + 1;
    }
    ct_section_end(o, length_at);
}

// Lists sites as long as the frame ends before `limit`; the others join the rest.
static inline void ct_digest_put_sites(struct ct_out *o, const struct ct_digest *g,
                                       const uint8_t *limit) {
    struct ct_digest_flow rest = g->rest;
    uint32_t i = 0;
    uint8_t *length_at = ct_section_begin(o, (enum ct_section)CT_DIGEST_SITES_PART);
    for (; i < g->sites; i++) {
        struct ct_out before = *o;
        ct_put_varint(o, g->site[i].stack);
        ct_digest_put_flow(o, &g->site[i].flow);
        if (o->at <= limit)
            continue;
        *o = before;
        break;
    }
    ct_section_end(o, length_at);
    for (; i < g->sites; i++)
        ct_digest_flow_join(&rest, &g->site[i].flow);
    length_at = ct_section_begin(o, (enum ct_section)CT_DIGEST_REST);
    ct_digest_put_flow(o, &rest);
    ct_section_end(o, length_at);
}

static inline void ct_digest_put_frees(struct ct_out *o, const struct ct_digest *g) {
    if (!g->failed_frees)
        return;
    uint8_t *const length_at = ct_section_begin(o, (enum ct_section)CT_DIGEST_FREES);
    ct_put_varint(o, g->failed_frees);
    ct_section_end(o, length_at);
}

static inline void ct_digest_put_u64(uint8_t *at, uint64_t v) {
    struct ct_out o = {at, at + 8, 0};
    ct_put_u32(&o, (uint32_t)v);
    ct_put_u32(&o, (uint32_t)(v >> 32));
}

// Writes the frame of a digest to `out`, which has CT_DIGEST_BYTES. `head` is the chunk's prefix
// with its checksum. Sites are listed as long as the frame is small beside the chunk. Returns its
// bytes; 0: it would be too large, and the chunk has no digest.
static inline size_t ct_digest_encode(const struct ct_digest *g, const struct ct_digest_body *body,
                                      const struct ct_chunk *head, uint8_t *out) {
    struct ct_out o = {out + CT_DIGEST_HEAD, out + CT_DIGEST_BYTES, 0};
    uint64_t limit = 256 + head->body_bytes / 64;
    limit = limit < CT_DIGEST_BYTES / 2 ? limit : CT_DIGEST_BYTES / 2;
    ct_digest_put_body(&o, body);
    ct_digest_put_events(&o, g);
    ct_digest_put_failures(&o, g);
    ct_digest_put_devices(&o, g, head->t_first_ns);
    ct_digest_put_sites(&o, g, out + limit);
    ct_digest_put_frees(&o, g);
    if (o.bad)
        return 0;
    const size_t n = (size_t)(o.at - out);
    struct ct_out frame = {out, out + CT_DIGEST_HEAD, 0};
    ct_put_u32(&frame, CT_DIGEST_MAGIC);
    ct_put_u32(&frame, (uint32_t)(n - CT_DIGEST_FRAME));
    ct_put_bytes(&frame, CT_DIGEST_NAME, 8);
    ct_digest_put_u64(out + CT_DIGEST_SUMMED, head->checksum);
    const uint8_t version[4] = {CT_DIGEST_VERSION, 0, 0, 0};
    memcpy(out + CT_DIGEST_SUMMED + 8, version, sizeof version);
    ct_digest_put_u64(out + CT_DIGEST_FRAME + 8,
                      ct_xxh64(out + CT_DIGEST_SUMMED, n - CT_DIGEST_SUMMED));
    return n;
}

// ---- reading ------------------------------------------------------------------------------------

enum ct_digest_found {
    CT_DIGEST_VALID,
    CT_DIGEST_UNKNOWN, // another tool's frame, or a later version's
    CT_DIGEST_FOREIGN, // of another chunk: the chunk was edited by a tool that knows no digests
    CT_DIGEST_DAMAGED, // its checksum is wrong
    CT_DIGEST_MALFORMED,
};

static inline uint64_t ct_digest_get_u64(const uint8_t *at) {
    uint64_t v = 0;
    for (int i = 7; i >= 0; i--)
        v = v << 8 | at[i];
    return v;
}

static inline struct ct_digest_flow ct_digest_get_flow(struct ct_in *in) {
    struct ct_digest_flow f;
    f.taken.bytes = ct_get_varint(in);
    f.taken.count = ct_get_varint(in);
    f.given.bytes = ct_get_varint(in);
    f.given.count = ct_get_varint(in);
    return f;
}

// An event of the chunk, or the one after it.
static inline uint64_t ct_digest_get_event(struct ct_in *in, uint64_t from,
                                           const struct ct_chunk *head) {
    const uint64_t past = ct_get_varint(in), most = head->first_event + head->events - from;
    if (past > most)
        in->bad = 1;
    return from + (past > most ? 0 : past);
}

static inline void ct_digest_get_body(struct ct_in *in, struct ct_digest_body *b,
                                      const struct ct_chunk *head) {
    const uint64_t checkpoint = ct_get_varint(in);
    b->has_checkpoint = checkpoint != 0;
    b->checkpoint = checkpoint ? (int)((checkpoint - 1) & 0xFF) : 0;
    b->definition_bytes = ct_get_varint(in);
    if (b->definition_bytes > head->raw_bytes)
        in->bad = 1;
}

static inline void ct_digest_get_events(struct ct_in *in, struct ct_digest *g,
                                        const struct ct_chunk *head) {
    uint64_t op = 0, sum = 0;
    while (in->at < in->end && !in->bad) {
        const uint64_t step = ct_get_varint(in), n = ct_get_varint(in);
        if (step >= CT_DIGEST_OPS || (op += step) >= CT_DIGEST_OPS || n > head->events - sum) {
            in->bad = 1;
            return;
        }
        g->ops[op] += n;
        sum += n;
    }
    if (sum != head->events)
        in->bad = 1;
}

static inline void ct_digest_get_failures(struct ct_in *in, struct ct_digest *g,
                                          const struct ct_chunk *head) {
    uint64_t last = head->first_event;
    g->lost = ct_get_varint(in);
    g->failed = ct_get_varint(in);
    if (g->failed > head->events)
        in->bad = 1;
    for (uint64_t i = 0; i < g->failed && i < CT_DIGEST_FAILED && !in->bad; i++)
        last = g->failed_event[i] = ct_digest_get_event(in, last, head);
}

static inline struct ct_digest_reading ct_digest_get_reading(struct ct_in *in,
                                                             const struct ct_chunk *head) {
    struct ct_digest_reading r;
    r.free = ct_get_varint(in);
    r.total = ct_get_varint(in);
    r.t_ns = head->t_first_ns + ct_unzigzag(ct_get_varint(in));
    return r;
}

static inline void ct_digest_get_device(struct ct_in *in, struct ct_digest_device *d,
                                        const struct ct_chunk *head) {
    const uint64_t has = ct_get_varint(in);
    d->has_peak = (has & CT_DIGEST_HAS_PEAK) != 0;
    d->has_lowest = (has & CT_DIGEST_HAS_LOWEST) != 0;
    d->has_last = (has & CT_DIGEST_HAS_LAST) != 0;
    d->has_reported = (has & CT_DIGEST_HAS_REPORTED) != 0;
    if (has > 15)
        in->bad = 1; // fields of unknown length follow
    d->live_bytes = ct_get_varint(in);
    d->flow = ct_digest_get_flow(in);
    d->peak_bytes = d->live_bytes + d->flow.given.bytes - d->flow.taken.bytes;
    if (d->has_peak) {
        d->peak_bytes = ct_get_varint(in);
        d->peak_event = ct_digest_get_event(in, head->first_event, head);
        d->peak_ns = head->t_first_ns + ct_unzigzag(ct_get_varint(in));
    }
    if (d->has_lowest)
        d->lowest = ct_digest_get_reading(in, head);
    if (d->has_last)
        d->last = ct_digest_get_reading(in, head);
    if (!d->has_reported)
        return;
    d->allocated = ct_get_varint(in);
    d->reserved = ct_get_varint(in);
    d->most_allocated = ct_get_varint(in);
    d->most_allocated_event = ct_digest_get_event(in, head->first_event, head);
    d->most_reserved = ct_get_varint(in);
    d->most_reserved_event = ct_digest_get_event(in, head->first_event, head);
}

static inline void ct_digest_get_devices(struct ct_in *in, struct ct_digest *g,
                                         const struct ct_chunk *head) {
    uint64_t index = 0;
    while (in->at < in->end && !in->bad) {
        const uint64_t step = ct_get_varint(in);
        if (step >= CT_DEVICES || (index += step) >= CT_DEVICES) {
            in->bad = 1;
            return;
        }
        ct_digest_get_device(in, &g->device[index++], head);
    }
}

static inline void ct_digest_get_sites(struct ct_in *in, struct ct_digest *g) {
    while (in->at < in->end && !in->bad) {
        const uint64_t stack = ct_get_varint(in);
        if (g->sites == CT_DIGEST_SITES || stack >= CT_DIGEST_NO_ID) {
            in->bad = 1;
            return;
        }
        struct ct_digest_site *s = &g->site[g->sites++];
        s->stack = (uint32_t)stack;
        s->flow = ct_digest_get_flow(in);
    }
}

static inline void ct_digest_get_part(struct ct_in *in, unsigned part, struct ct_digest *g,
                                      struct ct_digest_body *body, const struct ct_chunk *head) {
    switch (part) {
    case CT_DIGEST_BODY:
        ct_digest_get_body(in, body, head);
        break;
    case CT_DIGEST_EVENTS:
        ct_digest_get_events(in, g, head);
        break;
    case CT_DIGEST_FAILURES:
        ct_digest_get_failures(in, g, head);
        break;
    case CT_DIGEST_DEVICES:
        ct_digest_get_devices(in, g, head);
        break;
    case CT_DIGEST_SITES_PART:
        ct_digest_get_sites(in, g);
        break;
    case CT_DIGEST_REST:
        g->rest = ct_digest_get_flow(in);
        break;
    case CT_DIGEST_FREES:
        g->failed_frees = ct_get_varint(in);
        break;
    default:
        break; // of a later writer
    }
}

// Each part is there once; FAILURES and FREES may be missing.
#define CT_DIGEST_NEEDED                                                       \
    (1u << CT_DIGEST_BODY | 1u << CT_DIGEST_EVENTS | 1u << CT_DIGEST_DEVICES | \
     1u << CT_DIGEST_SITES_PART | 1u << CT_DIGEST_REST)

static inline int ct_digest_get_parts(struct ct_in in, struct ct_digest *g,
                                      struct ct_digest_body *body, const struct ct_chunk *head) {
    unsigned part, seen = 0;
    struct ct_in content;
    int more;
    while ((more = ct_section_next(&in, &part, &content)) > 0) {
        const unsigned bit = part <= CT_DIGEST_FREES ? 1u << part : 0;
        if (seen & bit)
            return -1;
        seen |= bit;
        ct_digest_get_part(&content, part, g, body, head);
        if (content.bad)
            return -1;
    }
    return more < 0 || (seen & CT_DIGEST_NEEDED) != CT_DIGEST_NEEDED ? -1 : 0;
}

// Reads the n bytes of a skippable frame with CT_DIGEST_MAGIC that follows the body of a chunk.
// `head` is the chunk's prefix, whose checksum matches.
static inline enum ct_digest_found ct_digest_decode(struct ct_digest *g,
                                                    struct ct_digest_body *body,
                                                    const struct ct_chunk *head,
                                                    const uint8_t *frame, size_t n) {
    memset(g, 0, sizeof *g);
    *body = (struct ct_digest_body){0};
    g->first_event = head->first_event;
    if (n < CT_DIGEST_HEAD || memcmp(frame + CT_DIGEST_FRAME, CT_DIGEST_NAME, 8) != 0)
        return CT_DIGEST_UNKNOWN;
    if (ct_digest_get_u64(frame + CT_DIGEST_FRAME + 8) !=
        ct_xxh64(frame + CT_DIGEST_SUMMED, n - CT_DIGEST_SUMMED))
        return CT_DIGEST_DAMAGED;
    if (frame[CT_DIGEST_SUMMED + 8] != CT_DIGEST_VERSION || frame[CT_DIGEST_SUMMED + 9])
        return CT_DIGEST_UNKNOWN;
    if (ct_digest_get_u64(frame + CT_DIGEST_SUMMED) != head->checksum)
        return CT_DIGEST_FOREIGN;
    const struct ct_in in = {frame + CT_DIGEST_HEAD, frame + n, 0};
    return ct_digest_get_parts(in, g, body, head) ? CT_DIGEST_MALFORMED : CT_DIGEST_VALID;
}

#endif
