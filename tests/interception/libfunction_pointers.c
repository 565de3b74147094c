// SPDX-License-Identifier: Apache-2.0
// Like cuew and its kin: pointers to driver functions, exported under the functions' names.
int (*cuMemAlloc_v2)(unsigned long long *, unsigned long);
int (*cuMemFree_v2)(unsigned long long);
