// SPDX-License-Identifier: Apache-2.0
// Counts look-ups of driver functions: by way, which modules have one of the driver's resolvers by
// dlsym, as each copy of the CUDA runtime does, and which answers passed unchanged, because they
// have no wrapper. Any thread, also inside dlsym; no locks.
#ifndef CT_LOOK_UPS_H
#define CT_LOOK_UPS_H

enum ct_look_up_way { CT_LOOK_UP_DLSYM, CT_LOOK_UP_PROC_ADDRESS, CT_LOOK_UP_ENTRY_POINT };

// A look-up of a name, with dlsym those that begin like the driver's.
void ct_look_ups_count(enum ct_look_up_way way);
// It got a wrapper.
void ct_look_ups_count_wrapped(enum ct_look_up_way way);
// `caller`: the return address of a dlsym of one of the driver's resolvers.
void ct_look_ups_note_resolver(const void *caller);

// Publishes look_ups.WAY, look_ups.WAY.wrapped and look_ups.resolver.N. Drain lock held.
void ct_look_ups_publish_info(void);

// ---- answers without a wrapper ----------------------------------------------------------------

// `version` as asked for: 0 for dlsym, the CUDA version for cuGetProcAddress, -1 for an answer that
// belongs to a second interposer. Lock-free and without allocation: it runs inside dlsym.
void ct_unwrapped_count(const char *name, int version);

// Publishes the counts (INFO unwrapped.NAME.VERSION, look_ups.hooked_passed.NAME.VERSION).
void ct_unwrapped_publish_info(void);

#endif
