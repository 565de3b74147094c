// SPDX-License-Identifier: Apache-2.0
// What NVTX's handles and numbers stand for: one table of keys and names, which is never emptied.
#include "intercept/nvtx_names.h"

#include <stdatomic.h>

#include "base/print.h"
#include "store/name_table.h"

#define ENTRIES 8192u // a power of two
#define PROBES 32u
#define HANDLES 4096u
#define WIDE_BYTES 204u // of a text as UTF-8: more than a name keeps

static struct {
    _Atomic uint64_t key; // 0: free
    _Atomic uint32_t name;
} entries[ENTRIES];

static char handles[HANDLES]; // addresses that nothing else has
static _Atomic uint32_t handles_used;

void *ct_nvtx_names_make_handle(void) {
    const uint32_t i = atomic_fetch_add(&handles_used, 1);
    return &handles[i < HANDLES ? i : HANDLES - 1]; // (many then share the last name)
}

static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9); // splitmix64
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

static void set(uint64_t key, uint32_t name) {
    const uint64_t at = mix(key);
    for (uint32_t i = 0; i < PROBES; i++) {
        _Atomic uint64_t *const k = &entries[(at + i) % ENTRIES].key;
        uint64_t there = 0;
        if (atomic_compare_exchange_strong(k, &there, key) || there == key) {
            atomic_store_explicit(&entries[(at + i) % ENTRIES].name, name, memory_order_release);
            return;
        }
    }
}

static uint32_t get(uint64_t key) {
    const uint64_t at = mix(key);
    for (uint32_t i = 0; i < PROBES; i++) {
        const uint64_t there =
            atomic_load_explicit(&entries[(at + i) % ENTRIES].key, memory_order_acquire);
        if (there == key)
            return atomic_load_explicit(&entries[(at + i) % ENTRIES].name, memory_order_acquire);
        if (!there)
            break;
    }
    return 0;
}

void ct_nvtx_names_set(const void *handle, uint32_t name) {
    if (handle)
        set((uintptr_t)handle, name);
}

uint32_t ct_nvtx_names_get(const void *handle) {
    return handle ? get((uintptr_t)handle) : 0;
}

// No address of user space has the top bit.
static uint64_t category_key(const void *domain, uint32_t category) {
    return mix((uintptr_t)domain ^ (uint64_t)category << 32) | UINT64_C(1) << 63;
}

void ct_nvtx_names_set_category(const void *domain, uint32_t category, uint32_t name) {
    if (category)
        set(category_key(domain, category), name);
}

uint32_t ct_nvtx_names_get_category(const void *domain, uint32_t category) {
    if (!category)
        return 0;
    const uint64_t key = category_key(domain, category);
    uint32_t name = get(key);
    if (!name) {
        char text[24];
        name = ct_name_intern_copy(text, ct_print(text, sizeof text, "category %u", category));
        set(key, name);
    }
    return name;
}

uint32_t ct_nvtx_names_read_wide(const wchar_t *text) {
    char line[WIDE_BYTES + 4];
    size_t n = 0;
    if (!text)
        return 0;
    for (; *text && n < WIDE_BYTES; text++)
        n += ct_print_utf8(line + n, (uint32_t)*text, '?');
    return ct_name_intern_copy(line, n);
}

uint32_t ct_nvtx_names_read(int32_t type, const void *message) {
    switch (type) {
    case CT_NVTX_ASCII:
        return ct_name_intern_copy(message, SIZE_MAX);
    case CT_NVTX_UNICODE:
        return ct_nvtx_names_read_wide(message);
    case CT_NVTX_REGISTERED:
        return ct_nvtx_names_get(message);
    default:
        return 0;
    }
}
