// SPDX-License-Identifier: Apache-2.0
// Included before live_state.c, for drain_cost_plain: the recorder without digests, to measure what
// they cost. Only the call-back of a changed total remains, which then does nothing.
#ifndef CT_BENCH_NO_DIGEST_H
#define CT_BENCH_NO_DIGEST_H

#include <cutrace/model/digest.h>

#define ct_digest_begin(maker, live, first_event) (void)(first_event)
#define ct_digest_note_event(maker, event, number) (void)0
#define ct_digest_note_facts(maker, event) (void)0
#define ct_digest_note_change(maker, live, object, sign) (void)(object), (void)(sign)
#define ct_digest_note_owner(maker, object, by) (void)(object), (void)(by)
#define ct_digest_end(maker, live) \
    (void)to_id;                   \
    return NULL

#endif
