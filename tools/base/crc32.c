// SPDX-License-Identifier: Apache-2.0
#include "base/crc32.h"

uint32_t ct_crc32(uint32_t crc, const void *bytes, size_t n) {
    static uint32_t table[256];
    const uint8_t *p = bytes;
    for (uint32_t i = 0; i < 256 && !table[255]; i++) {
        uint32_t v = i;
        for (unsigned bit = 0; bit < 8; bit++)
            v = v & 1 ? v >> 1 ^ 0xEDB88320u : v >> 1;
        table[i] = v;
    }
    crc = ~crc;
    for (size_t i = 0; i < n; i++)
        crc = table[(crc ^ p[i]) & 0xFF] ^ crc >> 8;
    return ~crc;
}
