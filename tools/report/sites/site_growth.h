// SPDX-License-Identifier: Apache-2.0
// How call sites came to hold their memory: what they have taken and given back up to a moment,
// since when they hold it, and how fast the least that they held has risen.
//
// A site whose memory comes and goes (activations) holds much at one moment and nothing at the
// next. So growth is measured on the least that it held in each of several parts of a stretch of
// time: that rises with what stays, not with what comes and goes.
#ifndef CT_SITE_GROWTH_H
#define CT_SITE_GROWTH_H

#include "analyze/moment.h"
#include "replay/replay.h"
#include "sites/site_groups.h"
#include "sites/site_history.h"

// The second half of the time from the beginning of the range (or from the last gap in the events)
// to the moment: a program is often still starting in the first.
struct ct_growth_stretch {
    int known; // it is at least CT_GROWTH_SHORTEST_NS long
    uint64_t from_ns, to_ns;
};

#define CT_GROWTH_SHORTEST_NS UINT64_C(100000000)

struct ct_site_growth_request {
    const struct ct_moment *moment;
    uint64_t from_ns; // of the range
    int device;       // an index
    enum ct_holding_rows rows;
    struct ct_site_histories *histories; // initialised, to be filled; NULL: none are wanted
};

// Sets `growth` of all groups, which are sorted, by another replay of the trace. Holdings and
// groups have to be of the same rows. The groups' own figures stay.
struct ct_growth_stretch ct_site_growth_measure(struct ct_site_groups *g,
                                                struct ct_call_sites *sites, struct ct_trace *t,
                                                const struct ct_site_growth_request *request);
// The same in a pass that others share; the request and the groups must stay up to the finish.
struct ct_site_growth_pass *ct_site_growth_join(struct ct_listeners *to, struct ct_site_groups *g,
                                                struct ct_call_sites *sites,
                                                const struct ct_trace *t,
                                                const struct ct_site_growth_request *request);
struct ct_growth_stretch ct_site_growth_finish(struct ct_site_growth_pass *p);
// Growth in a time of this length, from the first part of the stretch to the last: bytes, rounded
// half away from zero.
int64_t ct_site_growth_in(const struct ct_growth_stretch *s, int64_t bytes, uint64_t ns);

#endif
