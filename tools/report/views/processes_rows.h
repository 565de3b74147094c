// SPDX-License-Identifier: Apache-2.0
// The table of several processes: a row for each process and GPU.
#ifndef CT_PROCESSES_ROWS_H
#define CT_PROCESSES_ROWS_H

#include "print/label.h"
#include "views/processes_shown.h"

// The number of a GPU: NVML's, or else CUDA's; with that of its host where there are several, and
// with the first digits of the hash of its UUID where another GPU has the same. `gpu`: a position
// in the list.
struct ct_human_text ct_processes_rows_gpu(const struct ct_processes *all, int gpu);
// Prints "rank 3 (pid 4714)", or "pid 4714 (python3)" where the rank is unknown.
void ct_processes_rows_print_name(const struct ct_processes_shown *s, size_t i);
void ct_processes_rows_print(const struct ct_processes_shown *s);
// The number of traces that count: readable, and no copies.
size_t ct_processes_rows_count_usable(const struct ct_processes_shown *s);
// The number of processes that they are of.
size_t ct_processes_rows_count_processes(const struct ct_processes_shown *s);

#endif
