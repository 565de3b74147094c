// SPDX-License-Identifier: Apache-2.0
#include "replay/listeners.h"

#include "base/heap.h"

void ct_listeners_add(struct ct_listeners *l, const struct ct_listener *listener) {
    CT_HEAP_GROW(l->list, l->count, l->room);
    l->list[l->count++] =
        (struct ct_listeners_member){.of = *listener,
                                     .last_event = listener->end_event - 1, // (0: UINT64_MAX)
                                     .last_ns = listener->end_ns - 1};
    if (!listener->objects_self)
        l->list[l->count - 1].of.objects_self = listener->self;
}
