// SPDX-License-Identifier: Apache-2.0
// Static data (`__device__` variables) of the modules that CUPTI shows: names and sizes, from the
// symbol table of the code, which is an ELF file (a cubin). For INFO.
//
// Why not by CUPTI's activity records (MEMORY2), which have them, too: README.md.
#ifndef CT_CUPTI_MODULES_H
#define CT_CUPTI_MODULES_H

#include <stddef.h>

// Any thread, in a call-back. The code is not trusted.
void ct_cupti_modules_loaded(const void *cubin, size_t bytes);
void ct_cupti_modules_unloads(const void *cubin, size_t bytes);

void ct_cupti_modules_publish_info(void);

#endif
