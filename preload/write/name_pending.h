// SPDX-License-Identifier: Apache-2.0
// Gives names to the frames that have none, and drains, so that the names are in the trace.
#ifndef CT_WRITE_NAME_PENDING_H
#define CT_WRITE_NAME_PENDING_H

// Drain lock not held. Waits up to `ms` milliseconds for another thread that does the same. Returns
// 1 if it took over a changed list of loaded objects, 0 if not, or -EBUSY.
int ct_name_pending_resolve(unsigned ms);

#endif
