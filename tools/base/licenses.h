// SPDX-License-Identifier: Apache-2.0
// The licences of the libraries that are linked into cutrace (licenses.txt, made into a C source
// when it is built).
#ifndef CT_LICENSES_H
#define CT_LICENSES_H

extern const char ct_licenses[];

#endif
