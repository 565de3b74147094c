// SPDX-License-Identifier: Apache-2.0
// Finds symbols for the frames of stacks: which objects the loader has loaded, and their symbol
// tables.
//
// Invariants:
// S1 One thread at a time is the resolver (`resolving`). Only the resolver loads and frees symbol
//    tables.
// S2 The resolver takes the drain lock, never the other way round: a thread that holds the drain
//    lock only tries to become the resolver (ct_symbolizer_resolve_caller).
// S3 Frames, and the tables that modules point to, change under the drain lock only.
#include "write/symbolizer.h"

#include <errno.h>
#include <stdatomic.h>
#include <time.h>

#include <cutrace/format/assert.h>

#include "base/clock.h"
#include "store/elf_symbols.h"
#include "store/loaded_modules.h"
#include "write/caller.h"
#include "write/dictionary.h"
#include "write/drain_lock.h"

#define LOCK_MS 1000u
// Entries of a symbol table that are read within two milliseconds.
#define QUICK_SYMBOLS 32768u
// How many tables are read to name a caller, of the modules between the driver and it.
#define CALLER_TABLES 4
// How long tables stay loaded after the last new address. New addresses come in bursts, also late
// in a program, and to read the largest tables again takes 20 to 40 ms.
#define IDLE_NS UINT64_C(2000000000)

static _Atomic int resolving;
static _Atomic uint64_t tables_deadline_ns; // when tables are freed; 0: none is loaded

// ---- the resolver -----------------------------------------------------------------------------

static int try_resolver(void) {
    int free_now = 0;
    return atomic_compare_exchange_strong(&resolving, &free_now, 1) ? 0 : -EBUSY;
}

static int enter_resolver(unsigned ms) {
    const struct timespec pause = {0, 1000000};
    for (unsigned i = 0; i <= ms; i++) {
        if (!try_resolver())
            return 0;
        if (i < ms)
            nanosleep(&pause, NULL);
    }
    return -EBUSY;
}

static void leave_resolver(void) {
    atomic_store(&resolving, 0);
}

// ---- modules ----------------------------------------------------------------------------------

// Takes over the result of the last scan. Drain lock held.
static void merge_modules(void) {
    CT_ASSERT(ct_drain_lock_is_held()); // S3
    if (!ct_loaded_modules_merge())
        return;
    ct_dictionary_forget_frames(); // an address may be in another module now
    ct_dictionary_request_generation();
}

// Resolver only.
static int rescan_modules(void) {
    struct ct_signal_guard guard;
    const int changed = ct_loaded_modules_scan();
    if (changed <= 0)
        return changed;
    if (ct_drain_lock_wait(&guard, LOCK_MS))
        return -EBUSY;
    merge_modules();
    ct_drain_lock_release(&guard);
    return 1;
}

int ct_symbolizer_rescan_modules(void) {
    if (enter_resolver(LOCK_MS))
        return -EBUSY;
    const int changed = rescan_modules();
    leave_resolver();
    return changed;
}

// ---- symbol tables ----------------------------------------------------------------------------

static void postpone_deadline(void) {
    atomic_store(&tables_deadline_ns, ct_clock_read() + IDLE_NS);
}

uint64_t ct_symbolizer_deadline_ns(void) {
    return atomic_load(&tables_deadline_ns);
}

// Drain lock held.
static void free_tables(void) {
    struct ct_loaded_module *m;
    CT_ASSERT(ct_drain_lock_is_held() && atomic_load(&resolving)); // S1, S3
    for (size_t i = 0; (m = ct_loaded_modules_get(i)); i++) {
        ct_elf_symbols_free(m->symbols);
        m->symbols = NULL;
    }
}

// Frees all tables if, with the largest one that may come next, they would exceed 64 MiB. They can
// be loaded again. Drain lock held.
static void make_room_for_table(void) {
    size_t total = 0;
    struct ct_loaded_module *m;
    for (size_t i = 0; (m = ct_loaded_modules_get(i)); i++)
        total += m->symbols ? ct_elf_symbols_get_bytes(m->symbols) : 0;
    if (total > CT_ELF_SYMBOLS_MAX_BYTES)
        free_tables();
}

void ct_symbolizer_free_idle_tables(void) {
    struct ct_signal_guard guard;
    const uint64_t deadline = ct_symbolizer_deadline_ns();
    if (!deadline || ct_clock_read() < deadline || enter_resolver(0))
        return;
    if (ct_drain_lock_wait(&guard, LOCK_MS) == 0) {
        free_tables();
        atomic_store(&tables_deadline_ns, 0);
        ct_drain_lock_release(&guard);
    }
    leave_resolver();
}

static struct ct_elf_symbols *load_table(const struct ct_loaded_module *m, size_t most_symbols) {
    if (*m->path != '/')
        return NULL;
    return ct_elf_symbols_load(m->path, m->build_id, m->build_id_bytes, most_symbols);
}

// Loads the next table that frames wait for, without the drain lock, and resolves those frames.
// Returns 0 if there is no further table.
static int load_next_table(size_t *frame) {
    struct ct_signal_guard guard;
    if (ct_drain_lock_wait(&guard, LOCK_MS))
        return 0;
    struct ct_loaded_module *m = ct_dictionary_next_unloaded_module(frame);
    if (m)
        make_room_for_table();
    ct_drain_lock_release(&guard);
    if (!m)
        return 0;
    struct ct_elf_symbols *symbols = load_table(m, CT_ELF_SYMBOLS_NO_LIMIT);
    if (ct_drain_lock_wait(&guard, LOCK_MS)) {
        ct_elf_symbols_free(symbols);
        return 0;
    }
    m->symbols = symbols;
    m->no_symbols = !symbols;
    postpone_deadline();
    ct_dictionary_resolve_frames(0);
    ct_drain_lock_release(&guard);
    return 1;
}

// ---- frames -----------------------------------------------------------------------------------

// Resolves with the tables that are loaded. Returns 0, or -EBUSY.
static int resolve_frames(int final) {
    struct ct_signal_guard guard;
    if (ct_drain_lock_wait(&guard, LOCK_MS))
        return -EBUSY;
    ct_dictionary_resolve_frames(final);
    ct_drain_lock_release(&guard);
    return 0;
}

// Resolver only.
static int resolve_all(int *modules_changed) {
    struct ct_signal_guard guard;
    size_t frame = 0;
    if (ct_drain_lock_wait(&guard, LOCK_MS))
        return 0;
    const size_t unresolved = ct_dictionary_count_unresolved();
    const int unmapped = ct_dictionary_has_unmapped_frames();
    ct_dictionary_begin_resolving();
    ct_drain_lock_release(&guard);
    const int scanned = unmapped ? rescan_modules() : 0;
    *modules_changed = scanned > 0;
    if (!unresolved)
        return 0;
    if (scanned >= 0)
        (void)resolve_frames(0); // assigns modules to frames
    while (load_next_table(&frame))
        ;
    return scanned >= 0 && !resolve_frames(1);
}

int ct_symbolizer_resolve(unsigned ms, int *modules_changed) {
    *modules_changed = 0;
    if (enter_resolver(ms))
        return -EBUSY;
    const int defined = resolve_all(modules_changed);
    leave_resolver();
    return defined;
}

void ct_symbolizer_resolve_caller(uint32_t stack) {
    CT_ASSERT(ct_drain_lock_is_held());
    if (try_resolver()) // S2
        return;
    if (ct_dictionary_has_unmapped_frames() && ct_loaded_modules_scan() > 0)
        merge_modules();
    ct_dictionary_resolve_frames(0);
    struct ct_loaded_module *m;
    uint32_t frame = 0;
    for (int tables = 0;
         tables < CALLER_TABLES && (m = ct_caller_find_module(stack, &frame)) != NULL; tables++) {
        m->symbols = *m->path == '/' ? load_table(m, QUICK_SYMBOLS) : NULL;
        if (m->symbols) {
            postpone_deadline();
            ct_dictionary_resolve_frames(0);
        } else {
            frame++; // it stays nameless
        }
    }
    leave_resolver();
}

void ct_symbolizer_reinit_child(void) {
    leave_resolver();
    atomic_store(&tables_deadline_ns, 0);
    ct_loaded_modules_reinit_child();
}
