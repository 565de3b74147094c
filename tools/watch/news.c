// SPDX-License-Identifier: Apache-2.0
#include "watch/news.h"

#include <string.h>

static enum ct_scenario find_scenario(const char *name) {
    for (int i = 0; name && i < CT_SCENARIOS; i++)
        if (strcmp(ct_scenario_name((enum ct_scenario)i), name) == 0)
            return (enum ct_scenario)i;
    return CT_SCENARIO_UNKNOWN;
}

// A verdict is about the request that made the program fail; one that a retry healed is no part of
// it.
static enum ct_scenario judge_now(const struct ct_watch_details *d, enum ct_watch_outcome outcome) {
    return outcome == CT_WATCH_RETRIED ? CT_SCENARIO_RECOVERED : find_scenario(d->scenario);
}

static void note_incidents(struct ct_watch_news *n, const struct ct_watch_details *d) {
    for (int i = 0; i < CT_WATCH_OUTCOMES; i++) {
        const uint64_t count = d->fresh.count[i];
        n->requests[i] += count;
        n->scenarios[judge_now(d, (enum ct_watch_outcome)i)] += count;
        n->untold += count;
    }
    n->next_event = d->fresh.next_event;
}

static void note_growth(struct ct_watch_news *n, const struct ct_watch_device *d, uint64_t now_ns) {
    const int at = ct_device_to_index(d->ordinal);
    if (!d->has_full)
        return;
    if (!n->grew_ns[at] || now_ns - n->grew_ns[at] > CT_WATCH_GROWTH_APART_NS)
        n->growth[at] = 1;
    n->grew_ns[at] = now_ns;
}

void ct_watch_news_note(struct ct_watch_news *n, const struct ct_watch_details *d,
                        uint64_t now_ns) {
    note_incidents(n, d);
    for (size_t i = 0; i < d->device_count; i++)
        note_growth(n, &d->devices[i], now_ns);
}
