// SPDX-License-Identifier: Apache-2.0
// Counts look-ups of driver functions whose answer passed unchanged, because it has no wrapper.
#ifndef CT_UNWRAPPED_H
#define CT_UNWRAPPED_H

// `version` as asked for: 0 for dlsym, the CUDA version for cuGetProcAddress, -1 for an answer that
// belongs to a second interposer. Lock-free and without allocation: it runs inside dlsym.
void ct_unwrapped_count(const char *name, int version);

// Publishes the counts (INFO unwrapped.NAME.VERSION, look_ups.hooked_passed.NAME.VERSION).
void ct_unwrapped_publish_info(void);

#endif
