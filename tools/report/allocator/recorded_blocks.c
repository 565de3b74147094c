// SPDX-License-Identifier: Apache-2.0
#include "allocator/recorded_blocks.h"

int ct_release_note(struct ct_release *f, const struct ct_replay *r, const struct ct_event *e,
                    int device, int failed) {
    if (f->open && f->thread == ct_recorded_thread(e))
        f->grew |= e->op == CT_OP_ALLOC || e->op == CT_OP_CREATE;
    if ((e->op != CT_OP_FREE && e->op != CT_OP_UNMAP) || (CT_HAS(e, result) && e->result) ||
        !CT_HAS(e, ptr) || failed || f->open || !ct_recorded_region(r, e->ptr, device))
        return 0;
    *f = (struct ct_release){
        .open = 1, .thread = ct_recorded_thread(e), .before = r->pool.device[device].own_bytes};
    return 1;
}

int ct_release_may_be_garbage(const struct ct_release *f, const struct ct_what_if *w) {
    return w->recorded.collect_ppm &&
           (double)f->before > (double)w->recorded.collect_ppm / 1e6 * (double)w->limit;
}

int ct_release_is_inside_request(const struct ct_release *f, const struct ct_what_if *w,
                                 const struct ct_event *e) {
    if (w->limit == UINT64_MAX || f->thread != ct_recorded_thread(e) || e->op == CT_OP_BLOCK_FREE)
        return 0;
    if (e->op == CT_OP_BLOCK_OOM)
        return 1;
    if (!f->grew)
        return 0;
    return f->before + ct_allocator_segment_size(&w->recorded, e->bytes) > w->limit ||
           ct_release_may_be_garbage(f, w);
}
