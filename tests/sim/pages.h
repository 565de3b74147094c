// SPDX-License-Identifier: Apache-2.0
// Copies, and fills with zeros, that skip untouched pages.
#ifndef SIM_PAGES_H
#define SIM_PAGES_H

#include <stddef.h>
#include <stdint.h>

// As memmove: a source page that was never touched is not read, and makes zeros of the target.
void sim_pages_copy(uint64_t to, uint64_t from, size_t n);
// As memset to 0: a page that was never touched stays so.
void sim_pages_zero(uint64_t to, size_t n);

#endif
