// SPDX-License-Identifier: Apache-2.0
// Noise: frames that do not name the code that asked for memory. The table is noise.def.
#ifndef CT_NOISE_H
#define CT_NOISE_H

#include <stddef.h>
#include <stdio.h>

enum ct_noise_subject { CT_NOISE_MODULE, CT_NOISE_FUNCTION, CT_NOISE_FILE };

enum ct_noise_group {
    CT_NOISE_NONE,
#define CT_NOISE_GROUP(NAME, title, reason) CT_NOISE_##NAME,
#include "symbols/noise.def"
    CT_NOISE_GROUPS
};

// The group of the first row whose pattern matches a name (NUL-terminated), or CT_NOISE_NONE.
enum ct_noise_group ct_noise_classify(enum ct_noise_subject what, const char *name);

// Prints the table as the document NOISE.md.
void ct_noise_print_document(FILE *out);

#endif
