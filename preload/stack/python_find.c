// SPDX-License-Identifier: Apache-2.0
// Finding the Python interpreter of the process. See python_find.h.
#define _GNU_SOURCE
#include "stack/python_find.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <string.h>

#include "base/loader_gate.h"
#include "base/print.h"
#include "base/real_dlsym.h"
#include "store/name_table.h"
#include "write/info_table.h"

struct ct_python ct_python;
_Atomic int ct_python_state;

static _Atomic int searching; // a thread is in ct_python_find
static const char *why_unreadable;
static char version_text[32];

void ct_python_give_up(const char *why) {
    why_unreadable = why;
    atomic_store(&ct_python_state, CT_PYTHON_UNREADABLE);
}

uint32_t ct_python_take_note(void) {
    if (atomic_load_explicit(&ct_python_state, memory_order_relaxed) != CT_PYTHON_UNREADABLE ||
        !ct_python_change_state(CT_PYTHON_UNREADABLE, CT_PYTHON_REPORTED))
        return 0;
    return ct_name_intern_format("stacks without Python frames: Python %s, %s", version_text,
                                 why_unreadable);
}

// ---- finding ------------------------------------------------------------------------------------

// Reads the symbol table itself. dlsym would leave an error message, for which the C library
// allocates memory in the thread of a program without Python. Returns whether a symbol is missing.
static int resolve_symbols(const struct dl_phdr_info *object) {
    uint64_t bytes;
    int missing = 0;
#define RESOLVE(name) \
    missing |= !(*(void **)&ct_python.name = ct_real_dlsym_find_in_object(object, #name, &bytes));
#define RESOLVE_FUNCTION(result, name, parameters) RESOLVE(name)
    CT_PYTHON_SYMBOLS(RESOLVE_FUNCTION, RESOLVE)
    *(void **)&ct_python.is_finalizing =
        ct_real_dlsym_find_in_object(object, "Py_IsFinalizing", &bytes);
    if (!ct_python.is_finalizing) // until 3.12
        *(void **)&ct_python.is_finalizing =
            ct_real_dlsym_find_in_object(object, "_Py_IsFinalizing", &bytes);
    ct_python.runtime = ct_real_dlsym_find_in_object(object, "_PyRuntime", &bytes);
    ct_python.loop =
        (uintptr_t)ct_real_dlsym_find_in_object(object, "_PyEval_EvalFrameDefault", &bytes);
    ct_python.loop_bytes = ct_python.loop ? bytes : 0;
    return missing || !ct_python.is_finalizing;
}

static int search_object(struct dl_phdr_info *object, size_t size, void *missing) {
    uint64_t bytes;
    (void)size;
    if (!ct_real_dlsym_find_in_object(object, "PyGILState_GetThisThreadState", &bytes))
        return 0;
    *(int *)missing = resolve_symbols(object);
    ct_python.path = object->dlpi_name;
    return 1;
}

// PY_VERSION_HEX (major, minor, micro, level and serial) of a text such as "3.12.1 (main, ...". 0
// if it has another form.
static uint32_t parse_version(const char *text) {
    static const struct {
        char name[3];
        uint8_t level;
    } levels[] = {{"a", 0xA0}, {"b", 0xB0}, {"rc", 0xC0}};
    uint32_t version = 0, number = 0;
    int dots = 0;
    for (; (*text >= '0' && *text <= '9') || *text == '.'; text++) {
        if (*text == '.') {
            dots++;
            number = 0;
            version <<= 8;
        } else {
            number = number * 10 + (uint32_t)(*text - '0');
            version = (version & ~UINT32_C(0xFF)) | (number & 0xFF);
        }
    }
    if (dots != 2)
        return 0;
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        const size_t n = strlen(levels[i].name);
        if (!strncmp(text, levels[i].name, n))
            return version << 8 | levels[i].level | ((uint32_t)(text[n] - '0') & 0xF);
    }
    return version << 8 | 0xF0;
}

static void search(void) {
    int missing = 0;
    if (!dl_iterate_phdr(search_object, &missing))
        return;
    // Never closed: the object stays loaded for as long as its functions are known here.
    if (*ct_python.path)
        (void)dlopen(ct_python.path, RTLD_NOLOAD | RTLD_LAZY);
    const char *const text = ct_python.Py_GetVersion ? ct_python.Py_GetVersion() : "?";
    ct_print(version_text, sizeof version_text, "%.*s", (int)strcspn(text, " "), text);
    const char *why = "it lacks functions";
    if (!missing)
        why = ct_python_layout_find(&ct_python.layout, parse_version(text), ct_python.runtime);
    if (why)
        ct_python_give_up(why);
    else
        atomic_store(&ct_python_state, CT_PYTHON_FOUND);
}

int ct_python_find(void) {
    int nobody = 0, found = -EBUSY;
    if (atomic_load(&ct_python_state) != CT_PYTHON_ABSENT)
        return ct_python_is_found();
    if (!atomic_compare_exchange_strong(&searching, &nobody, 1))
        return -EBUSY;
    if (!ct_loader_gate_enter()) {
        const int saved = errno;
        if (atomic_load(&ct_python_state) == CT_PYTHON_ABSENT)
            search();
        errno = saved;
        ct_loader_gate_leave();
        found = ct_python_is_found();
    }
    atomic_store(&searching, 0);
    return found;
}

int ct_python_is_found(void) {
    const int now = atomic_load_explicit(&ct_python_state, memory_order_relaxed);
    return now != CT_PYTHON_ABSENT && now != CT_PYTHON_REPORTED;
}

int ct_python_is_eval_loop(uintptr_t pc) {
    // A return address lies after its call.
    return pc - ct_python.loop - 1 < ct_python.loop_bytes;
}

// ---- moments ------------------------------------------------------------------------------------

void ct_python_publish_info(void) {
    const int now = atomic_load(&ct_python_state);
    if (now == CT_PYTHON_ABSENT)
        return;
    ct_info_set("python.version", "%s%s", version_text,
                ct_python.layout.free_threaded ? " free-threaded" : "");
    if (now == CT_PYTHON_UNREADABLE || now == CT_PYTHON_REPORTED)
        ct_info_set("python.stacks", "off: %s", why_unreadable);
    else
        ct_info_set("python.stacks",
                    now == CT_PYTHON_FOUND || now == CT_PYTHON_CHECKING ? "not yet" : "on");
}

void ct_python_reinit_child(void) {
    atomic_store(&searching, 0);
    (void)ct_python_change_state(CT_PYTHON_CHECKING, CT_PYTHON_FOUND);
}
