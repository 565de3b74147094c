// SPDX-License-Identifier: Apache-2.0
#include "read/unpack.h"

#include <pthread.h>
#include <zstd.h>

#include "base/heap.h"
#include "base/workers.h"

// ---- one body after the other -------------------------------------------------------------------

void ct_unpacker_begin(struct ct_unpacker *u) {
    *u = (struct ct_unpacker){.dctx = ZSTD_createDCtx()};
    if (!u->dctx)
        ct_heap_exhausted();
}

void ct_unpacker_end(struct ct_unpacker *u) {
    free(u->packed);
    free(u->body);
    ZSTD_freeDCtx(u->dctx);
    *u = (struct ct_unpacker){.dctx = NULL};
}

const char *ct_unpacker_read(struct ct_unpacker *u, const struct ct_source *source,
                             const struct ct_index_chunk *c, struct ct_in *body) {
    const uint64_t packed = c->head.body_bytes, raw = c->head.raw_bytes;
    if (packed > ZSTD_compressBound(CT_MAX_BODY) + 1024)
        return "chunk with impossible sizes";
    if (packed > u->packed_room)
        u->packed = ct_heap_resize(u->packed, u->packed_room = (size_t)packed, 1);
    if (ct_source_read(source, c->body, u->packed, (size_t)packed) != packed)
        return "bytes that cannot be read";
    // Decompress only a frame that says beforehand how large it will be.
    if (ZSTD_getFrameContentSize(u->packed, (size_t)packed) != raw)
        return "chunk whose body has another size than its prefix says";
    if (raw > u->body_room)
        u->body = ct_heap_resize(u->body, u->body_room = (size_t)raw, 1);
    if (ZSTD_decompressDCtx(u->dctx, u->body, (size_t)raw, u->packed, (size_t)packed) != raw)
        return "chunk with a damaged body";
    *body = (struct ct_in){u->body, u->body + raw, 0};
    return NULL;
}

// ---- all bodies, side by side -------------------------------------------------------------------
// The thread that has decompressed the next chunk hands it on, and those after it that are ready,
// while the others decompress.

enum {
    EACH = 2,            // bodies for each worker, decompressed or being so
    FEW_BYTES = 1 << 20, // of a file: one thread reads it as fast
    MOST_RAW = 4 << 20,  // of a body that is decompressed beside others: recorders write less
};

struct slot {
    struct ct_unpacker unpacker;
    struct ct_unpacked unpacked;
    int is_ready;
};

struct run {
    const struct ct_source *source;
    const struct ct_index *index;
    void (*take)(void *user, size_t chunk, const struct ct_unpacked *u);
    void *user;
    struct slot *list; // of chunk i: element i % room
    size_t room;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    // Under the lock: the next chunk to hand on; whether a thread hands chunks on.
    size_t next;
    int is_taken;
};

static void read_body(const struct run *r, const struct ct_index_chunk *c, struct slot *s) {
    struct ct_unpacked *u = &s->unpacked;
    u->is_left = c->head.raw_bytes > MOST_RAW || c->head.body_bytes > MOST_RAW;
    if (!u->is_left)
        u->damage = ct_unpacker_read(&s->unpacker, r->source, c, &u->body);
}

// Hands on what is ready, unless another thread does. Under the lock.
static void hand_on(struct run *r) {
    if (r->is_taken)
        return;
    r->is_taken = 1;
    for (struct slot *s; (s = &r->list[r->next % r->room])->is_ready;) {
        pthread_mutex_unlock(&r->lock);
        r->take(r->user, r->next, &s->unpacked);
        pthread_mutex_lock(&r->lock);
        s->is_ready = 0;
        r->next++;
        pthread_cond_broadcast(&r->moved);
    }
    r->is_taken = 0;
}

static void unpack(void *user, size_t chunk) {
    struct run *r = user;
    struct slot *s = &r->list[chunk % r->room];
    pthread_mutex_lock(&r->lock);
    while (chunk >= r->next + r->room)
        pthread_cond_wait(&r->moved, &r->lock);
    pthread_mutex_unlock(&r->lock);
    read_body(r, &r->index->chunks[chunk], s);
    pthread_mutex_lock(&r->lock);
    s->is_ready = 1;
    hand_on(r);
    pthread_mutex_unlock(&r->lock);
}

static void unpack_beside(struct run *r) {
    r->list = ct_heap_alloc_zeroed(r->room, sizeof *r->list);
    for (size_t i = 0; i < r->room; i++)
        ct_unpacker_begin(&r->list[i].unpacker);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->moved, NULL);
    ct_workers_run(r->index->count, unpack, r);
    pthread_cond_destroy(&r->moved);
    pthread_mutex_destroy(&r->lock);
    for (size_t i = 0; i < r->room; i++)
        ct_unpacker_end(&r->list[i].unpacker);
    free(r->list);
}

void ct_unpack_in_order(const struct ct_source *source, const struct ct_index *index,
                        void (*take)(void *user, size_t chunk, const struct ct_unpacked *u),
                        void *user) {
    static const struct ct_unpacked left = {.is_left = 1};
    const unsigned workers = ct_workers_count();
    struct run r = {.source = source,
                    .index = index,
                    .take = take,
                    .user = user,
                    .room = (size_t)workers * EACH};
    if (workers > 1 && source->bytes > FEW_BYTES)
        unpack_beside(&r);
    else
        for (size_t i = 0; i < index->count; i++)
            take(user, i, &left);
}
