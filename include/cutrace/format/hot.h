// SPDX-License-Identifier: Apache-2.0
// How functions of these headers are compiled: most events go the same way, and for them a call is a good part of the work.
#ifndef CUTRACE_HOT_H
#define CUTRACE_HOT_H

#define CT_HOT static inline __attribute__((always_inline))    // on that way: into its caller
#define CT_COLD static __attribute__((noinline, cold, unused)) // beside it
// What each call goes through is put together from the small functions of several files: the optimiser of the whole library does
// that where it is told to, and saves every tenth instruction of a hook. What is rare is kept out of it (CT_COLD).
#define CT_WHOLE __attribute__((flatten))

#endif
