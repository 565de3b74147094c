// SPDX-License-Identifier: Apache-2.0
// Nothing of a digest is used before its checksum matches, and its figures are those that a writer
// claims: only replaying the chunk shows that they are right.
#include "read/digest.h"

#include <stdlib.h>

#include "base/heap.h"

static const char *explain(enum ct_digest_found found) {
    if (found == CT_DIGEST_DAMAGED)
        return "digest with a wrong checksum";
    if (found == CT_DIGEST_MALFORMED)
        return "malformed digest";
    return NULL;
}

int ct_digest_read(const struct ct_source *source, const struct ct_index_chunk *chunk,
                   struct ct_digest *digest, struct ct_digest_body *body, const char **what) {
    uint8_t frame[CT_DIGEST_BYTES];
    const uint32_t n = chunk->digest_bytes;
    *what = NULL;
    // (Those of a later version may be larger.)
    if (!n || n > sizeof frame)
        return 0;
    if (ct_source_read(source, chunk->body + chunk->head.body_bytes, frame, n) != n) {
        *what = "digest that cannot be read";
        return -1;
    }
    const enum ct_digest_found found = ct_digest_decode(digest, body, &chunk->head, frame, n);
    *what = explain(found);
    if (*what)
        return -1;
    return found == CT_DIGEST_VALID;
}

void ct_digest_add_damage(struct ct_index *x, const struct ct_index_chunk *chunk,
                          const char *what) {
    ct_index_add_damage(x, chunk->body + chunk->head.body_bytes, chunk->digest_bytes, what);
}

static int read_or_note(struct ct_index *x, const struct ct_source *source, size_t i,
                        struct ct_digest *digest) {
    struct ct_digest_body body;
    const char *what;
    const int found = ct_digest_read(source, &x->chunks[i], digest, &body, &what);
    if (found < 0)
        ct_digest_add_damage(x, &x->chunks[i], what);
    return found > 0;
}

size_t ct_digest_count(struct ct_index *x, const struct ct_source *source) {
    struct ct_digest *digest = ct_heap_resize(NULL, 1, sizeof *digest);
    size_t n = 0;
    for (size_t i = 0; i < x->count; i++)
        n += (size_t)read_or_note(x, source, i, digest);
    free(digest);
    return n;
}

// Whether one digest continues another, of the chunk before.
static int continues(const struct ct_digest *before, const struct ct_digest *after) {
    for (int i = 0; i < CT_DEVICES; i++) {
        const struct ct_digest_device *d = &after->device[i];
        if (d->live_bytes - d->flow.taken.bytes + d->flow.given.bytes !=
            before->device[i].live_bytes)
            return 0;
    }
    return 1;
}

size_t ct_digest_check_chain(struct ct_index *x, const struct ct_source *source) {
    struct ct_digest *pair = ct_heap_resize(NULL, 2, sizeof *pair);
    size_t n = 0;
    int has_before = 0;
    for (size_t i = 0; i < x->count; i++) {
        const int has = read_or_note(x, source, i, &pair[i % 2]);
        if (has && has_before && !x->chunks[i].gap && !continues(&pair[(i + 1) % 2], &pair[i % 2]))
            ct_digest_add_damage(x, &x->chunks[i], "digest that contradicts the one before it");
        has_before = has;
        n += (size_t)has;
    }
    free(pair);
    return n;
}
