// SPDX-License-Identifier: Apache-2.0
// Listens to NVTX v3: the library that NVTX_INJECTION64_PATH names.
//
// Each module of a program that uses NVTX has a table of slots of its own, and calls
// InitializeInjectionNvtx2 at its first use. We put our functions into its slots. Another tool that
// was to be loaded (`cutrace run` keeps it in CUTRACE_NVTX_NEXT) is initialized first: what it has
// put into a slot is called by ours, and its results, among them handles, are what the program
// gets.
#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "intercept/load_way.h"
#include "intercept/nvtx_abi.h"
#include "intercept/nvtx_names.h"
#include "record/annotation.h"
#include "record/tracing.h"
#include "store/name_table.h"
#include "write/info_table.h"

#define EXPORTED __attribute__((visibility("default")))

enum function {
#define CT_NVTX(MODULE, slot, name, returns, params, args, effect) ID_##name,
#define CT_NVTX_MEM(slot, name, returns, params, args, effect) ID_##name,
#include "intercept/nvtx.def"
    FUNCTIONS
};

// The other tool's functions; NULL: it does not listen to this one.
static ct_nvtx_function _Atomic next_functions[FUNCTIONS];
static _Atomic unsigned modules; // that have been initialized
static _Atomic uint64_t start_ids = 1;

static void publish_info(void) {
    ct_info_set("nvtx.modules", "%u", atomic_load(&modules));
}

// ---- what the functions record ------------------------------------------------------------------

struct named {
    uint32_t text, category;
};

static struct named named(const char *text) {
    return (struct named){.text = ct_nvtx_names_read(CT_NVTX_ASCII, text)};
}

static struct named named_wide(const wchar_t *text) {
    return (struct named){.text = ct_nvtx_names_read_wide(text)};
}

static struct named read_attributes(const void *domain, const struct ct_nvtx_attributes *a) {
    if (!a || a->size < sizeof *a)
        return (struct named){0};
    return (struct named){.text = ct_nvtx_names_read(a->message_type, a->message),
                          .category = ct_nvtx_names_get_category(domain, a->category)};
}

static struct ct_annotation annotate(const char *api, const void *domain, struct named n) {
    return (struct ct_annotation){.api = ct_name_intern(api),
                                  .text = n.text,
                                  .domain = ct_nvtx_names_get(domain),
                                  .category = n.category};
}

static void on_mark(const char *api, const void *domain, struct named n) {
    const struct ct_annotation a = annotate(api, domain, n);
    ct_annotation_record(CT_OP_MARK, &a);
}

// Both return the level of the range.
static int on_push(const char *api, const void *domain, struct named n) {
    const struct ct_annotation a = annotate(api, domain, n);
    return ct_annotation_push(&a);
}

static int on_pop(const char *api, const void *domain) {
    const struct ct_annotation a = annotate(api, domain, (struct named){0});
    return ct_annotation_pop(&a);
}

static int choose(int has_next, int of_next, int ours) {
    return has_next ? of_next : ours;
}

static uint64_t on_start(const char *api, const void *domain, struct named n, uint64_t id) {
    struct ct_annotation a = annotate(api, domain, n);
    CT_SET(&a, handle, id ? id : atomic_fetch_add(&start_ids, 1));
    ct_annotation_record(CT_OP_RANGE_START, &a);
    return a.handle;
}

static void on_end(const char *api, uint64_t id) {
    struct ct_annotation a = annotate(api, NULL, (struct named){0});
    CT_SET(&a, handle, id);
    ct_annotation_record(CT_OP_RANGE_END, &a);
}

static void on_category(const void *domain, uint32_t category, struct named n) {
    ct_nvtx_names_set_category(domain, category, n.text);
}

// Names a domain, a string or a heap, and returns its handle.
static void *on_name(void *handle, struct named n) {
    if (!handle)
        handle = ct_nvtx_names_make_handle();
    ct_nvtx_names_set(handle, n.text);
    return handle;
}

// ---- memory -------------------------------------------------------------------------------------

// More regions of one call are counted: the program waits for it.
enum { MOST_REGIONS = 65536 };

static size_t bound_count(size_t count) {
    if (count > MOST_REGIONS)
        ct_annotation_count_skipped(count - MOST_REGIONS);
    return count < MOST_REGIONS ? count : MOST_REGIONS;
}

// Of a heap as a whole.
static void on_heap_event(enum ct_op op, const char *api, const void *domain, const void *heap) {
    struct ct_annotation a = annotate(api, domain, (struct named){0});
    CT_SET(&a, handle, (uintptr_t)heap);
    ct_annotation_record(op, &a);
}

static void record_range(enum ct_op op, struct ct_annotation *a,
                         const struct ct_nvtx_range *range) {
    CT_SET(a, ptr, range ? (uintptr_t)range->ptr : 0);
    CT_SET(a, bytes, range ? range->bytes : 0);
    ct_annotation_record(op, a);
}

// The handle of a heap in virtual memory is its address, unless another tool says otherwise.
static void *on_heap(const char *api, const void *domain, void *handle,
                     const struct ct_nvtx_heap *heap) {
    if (!heap || heap->struct_size < sizeof *heap)
        return handle;
    const struct ct_nvtx_range *range = heap->range;
    const int has_range =
        heap->type == CT_NVTX_VIRTUAL_ADDRESS && range && heap->range_bytes >= sizeof *range;
    if (!handle && has_range)
        handle = (void *)(uintptr_t)range->ptr;
    const struct named n = {.text = ct_nvtx_names_read((int32_t)heap->message_type, heap->message)};
    handle = on_name(handle, n);
    struct ct_annotation a = annotate(api, domain, n);
    CT_SET(&a, handle, (uintptr_t)handle);
    record_range(CT_OP_SUBPOOL, &a, has_range ? range : NULL);
    return handle;
}

static void on_regions(const char *api, const void *domain, const struct ct_nvtx_regions *regions,
                       int has_next) {
    if (!regions || regions->struct_size < sizeof *regions || !regions->elements ||
        regions->type != CT_NVTX_VIRTUAL_ADDRESS ||
        regions->element_bytes < sizeof(struct ct_nvtx_range))
        return;
    struct ct_annotation a =
        annotate(api, domain, (struct named){.text = ct_nvtx_names_get(regions->heap)});
    CT_SET(&a, handle, (uintptr_t)regions->heap);
    const size_t most = bound_count(regions->count);
    for (size_t i = 0; i < regions->count; i++) {
        const struct ct_nvtx_range *range =
            (const void *)((const char *)regions->elements + i * regions->element_bytes);
        if (i < most)
            record_range(CT_OP_SUBALLOC, &a, range);
        if (regions->handles && !has_next)
            regions->handles[i] = range->ptr;
        else if (i >= most)
            break;
    }
}

// A resized region stays in its heap, which the program need not name again.
static void on_resizes(const char *api, const void *domain,
                       const struct ct_nvtx_elements *regions) {
    if (!regions || regions->struct_size < sizeof *regions || !regions->elements ||
        regions->type != CT_NVTX_VIRTUAL_ADDRESS ||
        regions->element_bytes < sizeof(struct ct_nvtx_range))
        return;
    struct ct_annotation a = annotate(api, domain, (struct named){0});
    const size_t most = bound_count(regions->count);
    for (size_t i = 0; i < most; i++)
        record_range(CT_OP_SUBALLOC, &a,
                     (const void *)((const char *)regions->elements + i * regions->element_bytes));
}

// Whether the references of a call are addresses. Regions that are named by another tool's handles
// are not known.
static int are_addresses(uint32_t type) {
    return type == CT_NVTX_BY_POINTER ||
           (type == CT_NVTX_BY_HANDLE && !atomic_load(&next_functions[ID_nvtxMemRegionsRegister]));
}

static void on_region_refs(const char *api, const void *domain,
                           const struct ct_nvtx_elements *refs) {
    if (!refs || refs->struct_size < sizeof *refs || refs->element_bytes < sizeof(void *) ||
        !refs->elements || !are_addresses(refs->type))
        return;
    struct ct_annotation a = annotate(api, domain, (struct named){0});
    const size_t most = bound_count(refs->count);
    for (size_t i = 0; i < most; i++) {
        const void *ptr;
        memcpy(&ptr, (const char *)refs->elements + i * refs->element_bytes, sizeof ptr);
        CT_SET(&a, ptr, (uintptr_t)ptr);
        ct_annotation_record(CT_OP_SUBFREE, &a);
    }
}

static void on_region_names(const char *api, const void *domain,
                            const struct ct_nvtx_region_names *names) {
    if (!names || names->struct_size < sizeof *names || !names->elements ||
        names->element_bytes < sizeof(struct ct_nvtx_region_name))
        return;
    const size_t most = bound_count(names->count);
    for (size_t i = 0; i < most; i++) {
        const struct ct_nvtx_region_name *name =
            (const void *)((const char *)names->elements + i * names->element_bytes);
        if (!are_addresses(name->type))
            continue;
        struct ct_annotation a = annotate(
            api, domain,
            (struct named){.text = ct_nvtx_names_read(name->name_type, name->name),
                           .category = ct_nvtx_names_get_category(domain, name->category)});
        CT_SET(&a, ptr, (uintptr_t)name->region);
        ct_annotation_record(CT_OP_SUBNAME, &a);
    }
}

// ---- the functions ------------------------------------------------------------------------------

// A tool's function is called with the arguments of the program; its `void` is our `int`.
#define FUNCTION(name, returns, params, args, effect)                                            \
    typedef returns fn_##name params;                                                            \
    static returns on_##name params {                                                            \
        static const char API[] = #name;                                                         \
        fn_##name *const next =                                                                  \
            (fn_##name *)atomic_load_explicit(&next_functions[ID_##name], memory_order_acquire); \
        const int has_next = next != NULL;                                                       \
        returns r = (returns)0;                                                                  \
        if (next)                                                                                \
            r = next args;                                                                       \
        (void)API;                                                                               \
        (void)has_next;                                                                          \
        effect;                                                                                  \
        return r;                                                                                \
    }
#define CT_NVTX(MODULE, slot, name, returns, params, args, effect) \
    FUNCTION(name, returns, params, args, effect)
#define CT_NVTX_MEM(slot, name, returns, params, args, effect) \
    FUNCTION(name, returns, params, args, effect)
#include "intercept/nvtx.def"

// ---- initialization -----------------------------------------------------------------------------

struct slots {
    enum function id;
    int module;
    unsigned slot;
    ct_nvtx_function ours, before;
};

static struct slots core_slots[] = {
#define CT_NVTX(MODULE, number, name, returns, params, args, effect) \
    {ID_##name, CT_NVTX_MODULE_##MODULE, number, (ct_nvtx_function)on_##name, NULL},
#include "intercept/nvtx.def"
};
#define CORE_SLOTS (sizeof core_slots / sizeof *core_slots)

// The slot of a function in a module's tables; NULL: the module's NVTX does not have it.
static ct_nvtx_function *find_slot(const struct ct_nvtx_callbacks *callbacks,
                                   const struct slots *s) {
    ct_nvtx_function **table = NULL;
    unsigned size = 0;
    if (!callbacks->get_module_function_table(s->module, &table, &size) || !table ||
        s->slot >= size)
        return NULL;
    return table[s->slot];
}

// A slot that the other tool has changed is its function.
static void note_next(enum function id, ct_nvtx_function before, ct_nvtx_function now,
                      ct_nvtx_function ours) {
    if (now && now != before && now != ours)
        atomic_store_explicit(&next_functions[id], now, memory_order_release);
}

static int initialize_next(ct_nvtx_get_export_table *get_export_table) {
    int (*const next)(ct_nvtx_get_export_table *) =
        (int (*)(ct_nvtx_get_export_table *))ct_load_way_find_next("CUTRACE_NVTX_NEXT",
                                                                   "InitializeInjectionNvtx2");
    return next ? next(get_export_table) : 0;
}

EXPORTED int InitializeInjectionNvtx2(ct_nvtx_get_export_table *get_export_table);
EXPORTED int InitializeInjectionNvtx2(ct_nvtx_get_export_table *get_export_table) {
    const int saved = errno;
    if (!ct_tracing_is_on() && ct_tracing_is_refused()) { // NVTX is as without us
        const int r = initialize_next(get_export_table);
        errno = saved;
        return r;
    }
    const struct ct_nvtx_callbacks *callbacks =
        get_export_table ? get_export_table(CT_NVTX_TABLE_CALLBACKS) : NULL;
    ct_nvtx_function before[CORE_SLOTS];
    if (!callbacks || callbacks->struct_size < sizeof *callbacks)
        return 0;
    for (size_t i = 0; i < CORE_SLOTS; i++) {
        ct_nvtx_function *const slot = find_slot(callbacks, &core_slots[i]);
        before[i] = slot ? *slot : NULL;
    }
    const int has_next = initialize_next(get_export_table);
    for (size_t i = 0; i < CORE_SLOTS; i++) {
        ct_nvtx_function *const slot = find_slot(callbacks, &core_slots[i]);
        if (!slot)
            continue;
        if (has_next)
            note_next(core_slots[i].id, before[i], *slot, core_slots[i].ours);
        *slot = core_slots[i].ours;
    }
    atomic_fetch_add(&modules, 1);
    (void)ct_info_add_source(publish_info);
    errno = saved;
    return 1;
}

// NVTX that was built with NVTX_SUPPORT_ALREADY_INJECTED_LIBRARY asks for these names where no
// variable names a tool. No other NVTX looks for a symbol of the process.
EXPORTED int InitializeInjectionNvtx2Preinject(ct_nvtx_get_export_table *get_export_table);
EXPORTED int InitializeInjectionNvtx2Preinject(ct_nvtx_get_export_table *get_export_table) {
    return InitializeInjectionNvtx2(get_export_table);
}

#define MEM_MODULE 1
static const struct slots mem_slots[] = {
#define CT_NVTX_MEM(number, name, returns, params, args, effect) \
    {ID_##name, MEM_MODULE, number, (ct_nvtx_function)on_##name, NULL},
#include "intercept/nvtx.def"
};
#define MEM_SLOTS (sizeof mem_slots / sizeof *mem_slots)

static intptr_t *find_mem_slot(const struct ct_nvtx_module *module, const struct slots *s) {
    const struct ct_nvtx_segment *segment = module->segments ? module->segment : NULL;
    return segment && s->slot < segment->slots ? &segment->slot[s->slot] : NULL;
}

EXPORTED int InitializeInjectionNvtxExtension(const struct ct_nvtx_module *module);
EXPORTED int InitializeInjectionNvtxExtension(const struct ct_nvtx_module *module) {
    intptr_t before[MEM_SLOTS];
    if (!module || module->struct_size < sizeof *module)
        return 0;
    const int saved = errno;
    const int is_mem = module->module == MEM_MODULE && !ct_tracing_is_refused();
    for (size_t i = 0; is_mem && i < MEM_SLOTS; i++) {
        const intptr_t *const slot = find_mem_slot(module, &mem_slots[i]);
        before[i] = slot ? *slot : 0;
    }
    int (*const next)(const struct ct_nvtx_module *) =
        (int (*)(const struct ct_nvtx_module *))ct_load_way_find_next(
            "CUTRACE_NVTX_NEXT", "InitializeInjectionNvtxExtension");
    const int has_next = next && next(module);
    for (size_t i = 0; is_mem && i < MEM_SLOTS; i++) {
        intptr_t *const slot = find_mem_slot(module, &mem_slots[i]);
        if (!slot)
            continue;
        if (has_next)
            note_next(mem_slots[i].id, (ct_nvtx_function)before[i], (ct_nvtx_function)*slot,
                      mem_slots[i].ours);
        *slot = (intptr_t)mem_slots[i].ours;
    }
    errno = saved;
    return 1; // else NVTX's payload extension takes all domains for disabled
}

EXPORTED int InitializeInjectionNvtxExtensionPreinject(const struct ct_nvtx_module *module);
EXPORTED int InitializeInjectionNvtxExtensionPreinject(const struct ct_nvtx_module *module) {
    return InitializeInjectionNvtxExtension(module);
}
