// SPDX-License-Identifier: Apache-2.0
// What NVTX's handles and numbers stand for: domains, registered strings, categories, heaps. Names
// are ids (store/name_table.h). Lock-free; any thread.
#ifndef CT_NVTX_NAMES_H
#define CT_NVTX_NAMES_H

#include <stdint.h>

#include "intercept/nvtx_abi.h"

// A handle that is ours and differs from all others.
void *ct_nvtx_names_make_handle(void);

// Remembers the name of a handle (a domain, a registered string, a heap), ours or another tool's.
// A handle that is used again gets the new name. Names that find no room are not known.
void ct_nvtx_names_set(const void *handle, uint32_t name);
uint32_t ct_nvtx_names_get(const void *handle);

// Categories are numbers within a domain. One without a name is "category 7"; 0 is none.
void ct_nvtx_names_set_category(const void *domain, uint32_t category, uint32_t name);
uint32_t ct_nvtx_names_get_category(const void *domain, uint32_t category);

// The name in a message of the given type (CT_NVTX_ASCII, ...); 0: there is none.
uint32_t ct_nvtx_names_read(int32_t type, const void *message);
uint32_t ct_nvtx_names_read_wide(const wchar_t *text);

#endif
