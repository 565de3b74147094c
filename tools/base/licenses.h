// SPDX-License-Identifier: Apache-2.0
// The licences of the libraries that are linked into cutrace, as text.
#ifndef CT_LICENSES_H
#define CT_LICENSES_H

#include <stdio.h>

void ct_licenses_print(FILE *out);

#endif
