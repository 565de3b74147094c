// SPDX-License-Identifier: Apache-2.0
// A gate between this library's use of the dynamic loader and fork: fork copies the loader's locks,
// and a lock that is held in that instant is held for ever in the child. Any thread; no lock.
#ifndef CT_BASE_LOADER_GATE_H
#define CT_BASE_LOADER_GATE_H

// Enters the gate before a call into the loader. Returns 0, or -EBUSY while the gate is closed: the
// caller tries later.
int ct_loader_gate_enter(void);
void ct_loader_gate_leave(void);

// Whether a thread is inside.
int ct_loader_gate_is_busy(void);

// Closes the gate before a fork, once all threads have left it. Returns 0, or -EBUSY if one is
// still inside after 50 ms.
int ct_loader_gate_close(void);
void ct_loader_gate_open(void);

// In a forked child: opens the gate, which the threads inside it did not survive.
void ct_loader_gate_reinit_child(void);

#endif
