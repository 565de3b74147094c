// SPDX-License-Identifier: Apache-2.0
// Looks again at what the loader has loaded: for a Python interpreter, and for whatever the hooks
// wait for (PyTorch's allocator). Takes the loader's lock, so the writer thread does it, and the
// first event of a process.
#ifndef CT_RESCAN_H
#define CT_RESCAN_H

#include <stdatomic.h>
#include <stdint.h>

// What the hooks look for. Set once, before the first event.
void ct_rescan_set(void (*scan)(void));

// Looks now. Not under the drain lock.
void ct_rescan(void);

// The state of tables of what was found among the loaded objects. `changing` is held by the thread
// that changes them, and only inside the loader gate, so that a fork does not copy it.
struct ct_loaded_tables {
    atomic_int changing;
    _Atomic uint64_t loads; // how many objects had ever been loaded when they were last changed
};

// Calls `add` if objects were loaded since the last call, inside the loader gate and with
// `changing` held. Does nothing while another thread is at it, or the gate is closed. Keeps errno.
void ct_rescan_tables(struct ct_loaded_tables *tables, void (*add)(void));

// Asks the writer thread to look. Any thread at any time.
void ct_rescan_request(void);
int ct_rescan_is_requested(void);

#endif
