// SPDX-License-Identifier: Apache-2.0
#ifndef CT_FRAG_CONCLUSION_H
#define CT_FRAG_CONCLUSION_H

#include "analyze/scan.h"
#include "answer/view.h"

// Prints whether fragmentation made requests of a device (an index) fail, and by which figures.
void ct_frag_conclusion_print(struct ct_view *v, const struct ct_scan *s, int device);

#endif
