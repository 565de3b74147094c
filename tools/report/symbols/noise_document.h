// SPDX-License-Identifier: Apache-2.0
// The table of noise (cutrace/model/noise.def) as the document NOISE.md.
#ifndef CT_NOISE_DOCUMENT_H
#define CT_NOISE_DOCUMENT_H

#include <stdio.h>

void ct_noise_document_print(FILE *out);

#endif
