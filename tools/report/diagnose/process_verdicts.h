// SPDX-License-Identifier: Apache-2.0
// Puts the verdicts of several traces into one list, in which each names the processes that it is
// about, and what is the same of several processes is said once.
#ifndef CT_PROCESS_VERDICTS_H
#define CT_PROCESS_VERDICTS_H

#include "diagnose/verdicts.h"
#include "processes/processes.h"

// Moves the verdicts of the processes, lists in the order of `all`, into one list: the strongest
// first, of equal ones that of the process that failed first. Where one process has failed, those
// that have not are no cause of it: that nothing failed is not said of them, and their verdicts
// count half. Leaves the lists empty.
void ct_process_verdicts_join(struct ct_verdicts *to, struct ct_verdicts *lists,
                              const struct ct_processes *all);

#endif
