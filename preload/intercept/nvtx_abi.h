// SPDX-License-Identifier: Apache-2.0
// What an NVTX v3 injection library has to know of NVTX: written from the headers of NVIDIA/NVTX
// (c/include/nvtx3, releases v3.0 to v3.2: nvtxDetail/nvtxTypes.h, nvtxDetail/nvtxExtTypes.h,
// nvToolsExt.h, nvToolsExtMem.h), whose application binary interface they promise not to change.
#ifndef CT_NVTX_ABI_H
#define CT_NVTX_ABI_H

#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

// Every module of a program that includes NVTX has a copy of it: each calls
// InitializeInjectionNvtx2 of the library that NVTX_INJECTION64_PATH names, at its first use, with
// its own tables.
typedef const void *ct_nvtx_get_export_table(uint32_t id);
enum { CT_NVTX_TABLE_CALLBACKS = 1 };

typedef void (*ct_nvtx_function)(void);
struct ct_nvtx_callbacks {
    size_t struct_size;
    // Sets *table to pointers to the slots of a module's functions, *size to their number. 1: done.
    int (*get_module_function_table)(int module, ct_nvtx_function ***table, unsigned *size);
};
enum { CT_NVTX_MODULE_CORE = 1, CT_NVTX_MODULE_CORE2 = 5 };

// nvtxEventAttributes_v2, nvtxMessageType_t
struct ct_nvtx_attributes {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type;
    const void *message;
};
_Static_assert(sizeof(struct ct_nvtx_attributes) == 48, "nvtxEventAttributes_v2 has 48 bytes");
enum { CT_NVTX_ASCII = 1, CT_NVTX_UNICODE = 2, CT_NVTX_REGISTERED = 3 };

// ---- extensions: memory (nvToolsExtMem.h) -------------------------------------------------------

struct ct_nvtx_segment {
    size_t id, slots;
    intptr_t *slot;
};
struct ct_nvtx_module {
    uint16_t nvtx_version, struct_size, module, compat;
    size_t segments;
    struct ct_nvtx_segment *segment;
    void *get_export_function;
    const void *info;
};

struct ct_nvtx_heap {
    uint16_t compat, struct_size;
    uint32_t reserved, usage, type;
    size_t range_bytes;
    const void *range;
    uint32_t category, message_type;
    const void *message;
};
_Static_assert(sizeof(struct ct_nvtx_heap) == 48, "nvtxMemHeapDesc_v1 has 48 bytes");

enum { CT_NVTX_VIRTUAL_ADDRESS = 1 };
struct ct_nvtx_range {
    size_t bytes;
    const void *ptr;
};

struct ct_nvtx_regions {
    uint16_t compat, struct_size;
    uint32_t type; // CT_NVTX_VIRTUAL_ADDRESS: the elements are ranges
    const void *heap;
    size_t count, element_bytes;
    const void *elements;
    const void **handles; // may be NULL
};

enum { CT_NVTX_BY_POINTER = 1, CT_NVTX_BY_HANDLE = 2 };

// What is resized, and what is unregistered.
struct ct_nvtx_elements {
    uint16_t compat, struct_size;
    uint32_t type; // CT_NVTX_VIRTUAL_ADDRESS: the elements are ranges; CT_NVTX_BY_*: references
    size_t count, element_bytes;
    const void *elements;
};

struct ct_nvtx_region_name {
    uint32_t type; // CT_NVTX_BY_*
    int32_t name_type;
    const void *region, *name;
    uint32_t category, reserved;
};
struct ct_nvtx_region_names {
    uint16_t compat, struct_size;
    uint32_t reserved;
    size_t count, element_bytes;
    const void *elements;
    size_t reserved1;
};

#endif
