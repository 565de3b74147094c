// SPDX-License-Identifier: Apache-2.0
// How functions of these headers are compiled: most events go the same way, and for them a call is a good part of the work.
#ifndef CUTRACE_HOT_H
#define CUTRACE_HOT_H

#define CT_HOT static inline __attribute__((always_inline))    // on that way: into its caller
#define CT_COLD static __attribute__((noinline, cold, unused)) // beside it

#endif
