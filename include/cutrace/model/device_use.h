// SPDX-License-Identifier: Apache-2.0
// Which events show that a process uses a device. The recorder asks what such a device is and
// samples it, and the report makes an account of it.
#ifndef CUTRACE_DEVICE_USE_H
#define CUTRACE_DEVICE_USE_H

#include <cutrace/format/format.h>

// Memory of another process lies where that process allocated it: to import, open or release it,
// this process needs no context there. (A release does not say whose memory it is; what it releases
// was created or imported by an earlier event.) A reading of free memory needs a context, whatever
// the call is.
static inline int ct_event_uses_device(const struct ct_event *e) {
    if (!CT_HAS(e, device))
        return 0;
    return CT_HAS(e, free_bytes) || (e->op != CT_OP_IPC_CLOSE && e->op != CT_OP_RELEASE &&
                                     !(CT_HAS(e, flags) && e->flags & CT_FLAG_FOREIGN));
}

#endif
