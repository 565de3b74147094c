// SPDX-License-Identifier: Apache-2.0
// Searches in arrays that are sorted by a key of 64 bits: how many elements come before a place.
#ifndef CT_SEARCH_H
#define CT_SEARCH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

// `size`: of an element; `at`: offset of the key in it.
static inline size_t ct_search_below(const void *list, size_t count, size_t size, size_t at,
                                     uint64_t key) {
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        uint64_t there;
        memcpy(&there, (const char *)list + middle * size + at, sizeof there);
        if (there < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static inline size_t ct_search_up_to(const void *list, size_t count, size_t size, size_t at,
                                     uint64_t key) {
    return key == UINT64_MAX ? count : ct_search_below(list, count, size, at, key + 1);
}

// The number of elements whose `member` is below the key; those with the key, too.
#define CT_COUNT_BELOW(list, count, member, key) \
    ct_search_below((list), (count), sizeof *(list), offsetof(__typeof__(*(list)), member), (key))
#define CT_COUNT_UP_TO(list, count, member, key) \
    ct_search_up_to((list), (count), sizeof *(list), offsetof(__typeof__(*(list)), member), (key))

#endif
