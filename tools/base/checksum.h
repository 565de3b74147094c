// SPDX-License-Identifier: Apache-2.0
// Checksums: CRC-32 as zip files have it, and SHA-256 (FIPS 180-4), which users can repeat, and of
// which pseudonyms are made.
#ifndef CT_CHECKSUM_H
#define CT_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

// Continues a CRC-32 (0 at first) with more bytes.
uint32_t ct_crc32(uint32_t crc, const void *bytes, size_t n);

enum { CT_SHA256_BYTES = 32, CT_SHA256_TEXT = 65 };

struct ct_sha256 {
    uint32_t state[8];
    uint64_t bytes;
    uint8_t block[64];
};

void ct_sha256_begin(struct ct_sha256 *s);
void ct_sha256_add(struct ct_sha256 *s, const void *bytes, size_t n);
void ct_sha256_end(struct ct_sha256 *s, uint8_t digest[CT_SHA256_BYTES]);
// Writes a digest in hexadecimal digits.
void ct_sha256_print(const uint8_t digest[CT_SHA256_BYTES], char text[CT_SHA256_TEXT]);

#endif
