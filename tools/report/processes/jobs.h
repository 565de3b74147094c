// SPDX-License-Identifier: Apache-2.0
// Which of several processes are of the same job, as far as their traces prove it: one was started
// by the other, or both by the program that starts the ranks of a job.
#ifndef CT_JOBS_H
#define CT_JOBS_H

#include "processes/process.h"

// Sets `job` of each process: the position of the first one of the same job; SIZE_MAX: it is not
// known to be of a job with any other. Needs their hosts.
void ct_jobs_find(struct ct_process *list, size_t count);

#endif
