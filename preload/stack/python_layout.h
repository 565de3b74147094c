// SPDX-License-Identifier: Apache-2.0
// The layout of Python's frames, code objects and strings, for each version: offsets in bytes, and
// reads at them.
#ifndef CT_PYTHON_LAYOUT_H
#define CT_PYTHON_LAYOUT_H

#include <stdint.h>
#include <string.h>

#include "stack/unwind.h"

// How the frames that one activation of the evaluation loop runs are told from those of the next,
// along the chain of frames. A generator into which an exception is thrown while it waits for
// another one (`yield from`) is on the chain without an activation of its own.
enum ct_python_chain {
    CT_CHAIN_PLAIN,   // 3.9: each frame that executes has an activation; nothing says where
    CT_CHAIN_CFRAMES, // 3.10: the same, with a CFrame in the loop's own stack frame
    CT_CHAIN_CURRENT, // 3.11: the CFrame points to the innermost frame that its activation runs
    CT_CHAIN_SHIMS,   // since 3.12: a frame in the loop's own stack frame (shim) ends an activation
};

// The kind of table that gives the line of an instruction.
enum ct_python_lines {
    CT_LINES_LNOTAB,    // 3.9: pairs of u8 bytes of code, s8 lines (Objects/lnotab_notes.txt)
    CT_LINES_RANGES,    // 3.10: the same with -128 for "no line", and ranges (PEP 626)
    CT_LINES_LOCATIONS, // since 3.11: Objects/locations.md (later InternalDocs/code_objects.md)
};

// PyThreadState: `interp` to `current_in_cframe`. The innermost frame is at `current` in it, or in
//   its CFrame if `current_in_cframe`.
// Frame: `previous` to `copy`. `executing` is f_executing (3.9); `depth` is f_stackdepth, negative
//   in an activation (3.10); `generator` is f_gen; `copy` says which copy of its bytecode it runs,
//   0 where there is only one.
// PyCodeObject: `first_line` to `copies`. `version` and `copies` are 0 where they do not exist.
//   `traceable` is _co_firsttraceable, where other code may run before it (3.11 collects garbage
//   wherever it allocates), else 0.
// Objects, bytes, str: `type` to `compact`, and `kind_shift`. `hash` is 0 where it is not asked
//   for. In the word `state`, from bit `kind_shift` on: 3 bits of kind, one of compact, one of
//   ascii.
struct ct_python_layout {
    enum ct_python_chain chain;
    enum ct_python_lines lines;

    uint16_t interp, thread_id, current, cframe, cframe_previous;
    uint8_t current_in_cframe;

    uint16_t previous, code, instruction, owner, executing, depth, generator, copy;

    uint16_t first_line, filename, name, linetable, bytecode, version, traceable, copies;

    uint16_t type, bytes_size, bytes, length, hash, state, ascii, compact;
    uint8_t free_threaded;
    uint8_t kind_shift;
};

// Values of `owner`. A frame with the second one or more is a shim (FRAME_OWNED_BY_CSTACK of 3.12
// and 3.13, FRAME_OWNED_BY_INTERPRETER since).
enum { CT_PYTHON_GENERATOR = 1, CT_PYTHON_SHIM = 3 };

// The layout of a version (PY_VERSION_HEX). runtime: the interpreter's _PyRuntime, NULL if it has
// none. Returns NULL, or why its frames cannot be read.
const char *ct_python_layout_find(struct ct_python_layout *layout, uint32_t version,
                                  const void *runtime);

static inline uintptr_t ct_python_load_word(uintptr_t address) {
    uintptr_t value;
    memcpy(&value, (const void *)address, sizeof value);
    return value;
}

static inline int32_t ct_python_load_int(uintptr_t address) {
    int32_t value;
    memcpy(&value, (const void *)address, sizeof value);
    return value;
}

static inline uint8_t ct_python_load_byte(uintptr_t address) {
    return *(const volatile uint8_t *)address;
}

// The same as ct_python_load_word through the kernel, where the address may be anything. Returns 0
// or -1. Changes errno.
static inline int ct_python_probe_word(uintptr_t address, uintptr_t *value) {
    if (address % sizeof *value || !ct_unwind_access_is_readable((const void *)address))
        return -1;
    *value = ct_python_load_word(address);
    return 0;
}

// Where a list of bytecode copies (_PyCodeArray) has the address of copy number `copy`: its length
// comes first.
static inline uintptr_t ct_python_copy_entry(uintptr_t copy) {
    return sizeof(intptr_t) * (1 + copy);
}

#endif
