// SPDX-License-Identifier: Apache-2.0
// How many calls of annotations this process made while it was traced, and how many of them its
// trace leaves out (INFO annotations.*). Any thread at any time.
#ifndef CT_ANNOTATION_COUNTS_H
#define CT_ANNOTATION_COUNTS_H

#include <stdint.h>

void ct_annotation_count_call(void);
// Of these: before the first event, and not recorded later.
void ct_annotation_count_early(void);
// Sub-allocations of calls with very many.
void ct_annotation_count_skipped(uint64_t count);

// In a forked child: its trace leaves out that many ranges, which began in the parent.
void ct_annotation_counts_reinit_child(uint64_t left_out);

#endif
