// SPDX-License-Identifier: Apache-2.0
// The table of loaded modules: what a scan found stays to be merged until it is.
#include <dlfcn.h>

#include "../lib/unit.h"
#include "store/loaded_modules.h"

static int has_module_of(uint64_t address) {
    const struct ct_loaded_module *m = ct_loaded_modules_find(address);
    return m && address >= m->start && address < m->end;
}

// A thread that scanned may have to give up the drain lock; the next scan finds nothing new then.
TEST(what_was_not_merged_is_found_again) {
    const uint64_t here = (uint64_t)(uintptr_t)what_was_not_merged_is_found_again;
    assert_int_equal(ct_loaded_modules_scan(), 1);
    (void)ct_loaded_modules_merge();
    assert_true(has_module_of(here));
    assert_int_equal(ct_loaded_modules_scan(), 0);

    void *library = dlopen("libBrokenLocale.so.1", RTLD_NOW); // linked to by nobody
    assert_non_null(library);
    const uint64_t there = (uint64_t)(uintptr_t)dlsym(library, "__ctype_get_mb_cur_max");
    assert_int_not_equal(there, 0);
    assert_false(has_module_of(there));
    assert_int_equal(ct_loaded_modules_scan(), 1);
    assert_int_equal(ct_loaded_modules_scan(), 1);
    (void)ct_loaded_modules_merge();
    assert_true(has_module_of(there));
    assert_true(has_module_of(here));
    assert_int_equal(ct_loaded_modules_scan(), 0);
    assert_int_equal(dlclose(library), 0);
}
