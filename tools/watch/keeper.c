// SPDX-License-Identifier: Apache-2.0
#include "watch/keeper.h"

#include <cutrace/format/xxh64.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/now.h"
#include "watch/seal.h"
#include "watch/search.h"

#define LOOK_NS UINT64_C(1000000000)
#define RETRY_NS UINT64_C(30000000000) // after a failure, such as a full disk
enum { MOST_RETRIES = 4096 };

int ct_keeper_is_wanted(const struct ct_keeper_options *o) {
    return o->seal;
}

void ct_keeper_begin(struct ct_keeper *k, const struct ct_keeper_options *o, const char *folder,
                     FILE *out) {
    *k = (struct ct_keeper){.options = o, .folder = folder, .told = {.out = out}};
    signal(SIGXFSZ, SIG_IGN); // a file-size limit is like a full disk
}

// ---- what failed before -------------------------------------------------------------------------

static uint64_t *find_retry(struct ct_keeper *k, const char *name) {
    const uint64_t hash = ct_xxh64(name, strlen(name));
    if (k->retry.count >= MOST_RETRIES)
        ct_map_free(&k->retry);
    return ct_map_add(&k->retry, hash);
}

static void seal_found(void *user, const char *folder, const char *name) {
    struct ct_keeper *k = user;
    uint64_t *retry_ns = find_retry(k, name);
    if (k->now_ns < *retry_ns)
        return;
    const int failed = ct_seal_trace(folder, name, k->options->dry_run, &k->told) == CT_SEAL_FAILED;
    k->has_failed |= failed;
    *retry_ns = failed ? k->now_ns + RETRY_NS : 0;
}

// ---- looks --------------------------------------------------------------------------------------

void ct_keeper_look(struct ct_keeper *k) {
    k->now_ns = ct_now_ns(CLOCK_MONOTONIC);
    k->next_ns = k->now_ns + LOOK_NS;
    if (k->options->seal)
        ct_watch_search_folder(k->folder, seal_found, k);
}

void ct_keeper_tick(struct ct_keeper *k) {
    if (ct_now_ns(CLOCK_MONOTONIC) >= k->next_ns)
        ct_keeper_look(k);
}

void ct_keeper_end(struct ct_keeper *k) {
    ct_map_free(&k->retry);
}
