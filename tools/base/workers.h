// SPDX-License-Identifier: Apache-2.0
// Independent work on all processors that the process may use.
#ifndef CT_WORKERS_H
#define CT_WORKERS_H

#include <stddef.h>

// How many threads may work at the same time, the calling one included: the processors that the
// process may use, at most 16; or what CUTRACE_REPORT_WORKERS says, 0 to 16. With 0 and 1 no thread
// is started.
unsigned ct_workers_count(void);

// Calls `work` once for each i below n, on up to so many threads, and returns when all calls have.
// The calls begin in the order of i. They may share nothing that one of them changes, and leave
// their results at a place of their own: then the number of threads decides on nothing but the
// time. Within such work no more threads are started: the one at work makes all calls itself.
void ct_workers_run(size_t n, void (*work)(void *user, size_t i), void *user);

#endif
