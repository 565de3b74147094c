// SPDX-License-Identifier: Apache-2.0
#include "watch/keeper.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/now.h"
#include "base/parse.h"
#include "watch/files.h"

#define LOOK_NS UINT64_C(1000000000)
#define RETRY_NS UINT64_C(30000000000) // after a failure, such as a full disk
enum { MOST_RETRIES = 4096 };

// ---- options ------------------------------------------------------------------------------------

// A number of traces, a time ("5m" is minutes), or a size.
int ct_keeper_set_keep(struct ct_keeper_options *o, const char *text) {
    struct ct_time t;
    struct ct_parsed_size size;
    if (*text && strspn(text, "0123456789") == strlen(text)) {
        o->budget.keep_count = strtoull(text, NULL, 10);
        return o->budget.keep_count ? 0 : -1;
    }
    if (ct_parse_time(text, &t) == 0 && t.kind == CT_TIME_ELAPSED) {
        o->budget.keep_ns = t.ns;
        return t.ns ? 0 : -1;
    }
    if (ct_parse_size(text, &size) != CT_PARSE_OK || !size.bytes)
        return -1;
    o->budget.keep_bytes = size.bytes;
    return 0;
}

int ct_keeper_is_wanted(const struct ct_keeper_options *o) {
    return o->seal || o->bundle_on_oom || ct_budget_is_given(&o->budget);
}

void ct_keeper_begin(struct ct_keeper *k, const struct ct_keeper_options *o, const char *folder,
                     FILE *out) {
    *k = (struct ct_keeper){.options = o,
                            .folder = folder,
                            .told = {.out = out},
                            .budget = {.rules = o->budget, .dry_run = o->dry_run}};
    signal(SIGXFSZ, SIG_IGN); // a file-size limit is like a full disk
}

// ---- what failed before -------------------------------------------------------------------------

static uint64_t *find_retry(struct ct_keeper *k, const char *name) {
    const uint64_t hash = ct_hash_bytes(name, strlen(name));
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

void ct_keeper_look(struct ct_keeper *k, int is_last) {
    k->now_ns = ct_now_ns(CLOCK_MONOTONIC);
    k->next_ns = k->now_ns + LOOK_NS;
    if (k->options->seal)
        ct_watch_search_folder(k->folder, seal_found, k);
    if (k->options->bundle_on_oom &&
        ct_oom_bundles_look(&k->bundles, k->folder, &k->budget, is_last, &k->told))
        k->has_failed = 1;
    if (ct_budget_is_given(&k->budget.rules) &&
        ct_budget_enforce(&k->budget, k->folder, 0, k->bundles.maker ? k->bundles.name : NULL,
                          &k->told))
        k->has_failed = 1;
}

void ct_keeper_tick(struct ct_keeper *k) {
    if (ct_now_ns(CLOCK_MONOTONIC) >= k->next_ns)
        ct_keeper_look(k, 0);
}

void ct_keeper_end(struct ct_keeper *k) {
    ct_map_free(&k->retry);
    ct_budget_free(&k->budget);
}
