// SPDX-License-Identifier: Apache-2.0
// Looks again at what the loader has loaded: for a Python interpreter, and for whatever the hooks
// wait for (PyTorch's allocator). Takes the loader's lock, so the writer thread does it, and the
// first event of a process.
#ifndef CT_RESCAN_H
#define CT_RESCAN_H

// What the hooks look for. Set once, before the first event.
void ct_rescan_set(void (*scan)(void));

// Looks now. Not under the drain lock.
void ct_rescan(void);

// Asks the writer thread to look. Any thread at any time.
void ct_rescan_request(void);
int ct_rescan_is_requested(void);

#endif
