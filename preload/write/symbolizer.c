// SPDX-License-Identifier: Apache-2.0
// Names for addresses: which objects the loader has loaded, and their symbols. Beside the drain lock, which is taken only
// to look up and to put down; one thread at a time.
#include "write/symbolizer.h"

#include <errno.h>
#include <stdatomic.h>
#include <time.h>

#include "base/clock.h"
#include "store/elf_symbols.h"
#include "store/loaded_modules.h"
#include "write/dictionary.h"
#include "write/drain.h"

#define QUICK_SYMBOLS 32768u // entries of a symbol table that are read within a millisecond or two
// How long tables stay behind the last new address. New ones come in bursts, and now and then as long as a program
// runs: to read the largest ones again takes 20 to 40 ms.
#define TABLES_STAY_NS UINT64_C(2000000000)

static _Atomic int resolving;

// What the last look found. Lock held.
static void take_modules(void) {
    if (!ct_modules_merge())
        return;
    ct_dictionary_forget_frames(); // addresses may mean something else now
    ct_drain_new_generation();
}

static int resolver_enter(unsigned ms) {
    const struct timespec pause = {0, 1000000};
    for (unsigned i = 0; i <= ms; i++) {
        int free_now = 0;
        if (atomic_compare_exchange_strong(&resolving, &free_now, 1))
            return 0;
        if (i < ms)
            nanosleep(&pause, NULL);
    }
    return -EBUSY;
}

static void resolver_leave(void) {
    atomic_store(&resolving, 0);
}

// The loader's list. Between resolver_enter and resolver_leave.
static int look_at_modules(void) {
    struct ct_shield shield;
    const int changed = ct_modules_look();
    if (changed <= 0)
        return changed;
    if (ct_drain_lock_wait(&shield, 1000))
        return -EBUSY;
    take_modules();
    ct_drain_lock_release(&shield);
    return 1;
}

int ct_symbolizer_rescan_modules(void) {
    if (resolver_enter(1000))
        return -EBUSY;
    const int changed = look_at_modules();
    resolver_leave();
    return changed;
}

// ---- symbol tables --------------------------------------------------------------------------

static _Atomic uint64_t tables_due_ns; // when they go; 0: there is none

static void tables_used(void) {
    atomic_store(&tables_due_ns, ct_clock() + TABLES_STAY_NS);
}

uint64_t ct_symbolizer_deadline_ns(void) {
    return atomic_load(&tables_due_ns);
}

static void drop_tables(void) {
    struct ct_module *m;
    for (size_t i = 0; (m = ct_module_at(i)); i++) {
        ct_symbols_free(m->symbols);
        m->symbols = NULL;
    }
}

// Before another table is read: those that are there and the largest that can come stay within 64 MiB. What goes can
// be read again. Lock held.
static void make_room(void) {
    size_t total = 0;
    struct ct_module *m;
    for (size_t i = 0; (m = ct_module_at(i)); i++)
        total += m->symbols ? ct_symbols_bytes(m->symbols) : 0;
    if (total > CT_SYMBOLS_BYTES)
        drop_tables();
}

void ct_symbolizer_free_idle_tables(void) {
    struct ct_shield shield;
    const uint64_t due = ct_symbolizer_deadline_ns();
    if (!due || ct_clock() < due || resolver_enter(0))
        return;
    if (ct_drain_lock_wait(&shield, 1000) == 0) {
        drop_tables();
        atomic_store(&tables_due_ns, 0);
        ct_drain_lock_release(&shield);
    }
    resolver_leave();
}

// Loads the next table that is wanted and uses it. Returns 0 when there is none left.
static int load_one(size_t *at) {
    struct ct_shield shield;
    if (ct_drain_lock_wait(&shield, 1000))
        return 0;
    struct ct_module *m = ct_dictionary_next_unloaded_module(at);
    if (m)
        make_room();
    ct_drain_lock_release(&shield);
    if (!m)
        return 0;
    struct ct_symbols *symbols =
        *m->path == '/' ? ct_symbols_load(m->path, m->build_id, m->build_id_bytes, CT_SYMBOLS_ANY)
                        : NULL;
    if (ct_drain_lock_wait(&shield, 1000)) {
        ct_symbols_free(symbols);
        return 0;
    }
    m->symbols = symbols;
    m->no_symbols = !symbols;
    tables_used();
    ct_dictionary_resolve_frames(0);
    ct_drain_lock_release(&shield);
    return 1;
}

int ct_name_pending_resolve(unsigned ms) {
    struct ct_shield shield;
    size_t at = 0;
    int changed = 0;
    if (resolver_enter(ms))
        return -EBUSY;
    if (ct_drain_lock_wait(&shield, 1000) == 0) {
        const size_t unresolved = ct_dictionary_count_unresolved();
        const int lost = ct_dictionary_has_unmapped_frames();
        ct_drain_lock_release(&shield);
        const int looked = lost ? look_at_modules() : 1; // frames lie outside of what is known
        changed = lost && looked > 0;
        if (unresolved && looked >= 0 && ct_drain_lock_wait(&shield, 1000) == 0) {
            ct_dictionary_resolve_frames(0); // finds the modules
            ct_drain_lock_release(&shield);
        }
        while (unresolved && load_one(&at))
            ;
        if (unresolved && looked >= 0 && ct_drain_lock_wait(&shield, 1000) == 0) {
            ct_dictionary_resolve_frames(1);
            ct_drain_run(CT_DRAIN_EVENTS);
            ct_drain_lock_release(&shield);
        }
    }
    resolver_leave();
    return changed;
}

// Only what is known already, or is found in a moment: the rest of the stack can wait.
void ct_symbolizer_resolve_caller(uint32_t stack) {
    int free_now = 0;
    if (!atomic_compare_exchange_strong(&resolving, &free_now, 1))
        return;
    if (ct_dictionary_has_unmapped_frames() && ct_modules_look() > 0)
        take_modules();
    ct_dictionary_resolve_frames(0);
    struct ct_module *m = ct_dictionary_find_caller_module(stack);
    if (m && *m->path == '/')
        m->symbols = ct_symbols_load(m->path, m->build_id, m->build_id_bytes, QUICK_SYMBOLS);
    if (m && m->symbols) {
        tables_used();
        ct_dictionary_resolve_frames(0);
    }
    resolver_leave();
}

void ct_symbolizer_reinit_child(void) {
    resolver_leave();
    atomic_store(&tables_due_ns, 0);
    ct_modules_forked();
}
