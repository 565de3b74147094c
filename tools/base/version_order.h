// SPDX-License-Identifier: Apache-2.0
// The order of versions of Python packages (PEP 440): 0.21.0 < 0.29rc1 < 0.29 = 0.29.0 <
// 0.29.post1. What follows a + is a label of the build and does not count: 2.14.0+cu130 = 2.14.
#ifndef CT_VERSION_ORDER_H
#define CT_VERSION_ORDER_H

// Compares two versions: sets *order below, equal to or above 0. Returns 0, or -1 if one of them is
// no version, which sets nothing.
int ct_version_order(const char *a, const char *b, int *order);

#endif
