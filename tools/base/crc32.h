// SPDX-License-Identifier: Apache-2.0
// CRC-32 as zip files have it.
#ifndef CT_CRC32_H
#define CT_CRC32_H

#include <stddef.h>
#include <stdint.h>

// Continues a checksum (0 at first) with more bytes.
uint32_t ct_crc32(uint32_t crc, const void *bytes, size_t n);

#endif
