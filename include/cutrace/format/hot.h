// SPDX-License-Identifier: Apache-2.0
// How functions are compiled that run for each event: most events take the same path, and on it a
// call is a good part of the work.
#ifndef CUTRACE_HOT_H
#define CUTRACE_HOT_H

// On the path of most events: inlined into its caller.
#define CT_HOT static inline __attribute__((always_inline))
// Beside that path: never inlined.
#define CT_COLD static __attribute__((noinline, cold, unused))
// Inlines everything that the function calls, also across files (link-time optimisation) but not
// CT_COLD functions. A hook runs a tenth fewer instructions with it.
#define CT_WHOLE __attribute__((flatten))

#endif
