// SPDX-License-Identifier: Apache-2.0
// Where an interpreter of a given version keeps what a stack is made of: offsets in bytes.
#ifndef CT_PYTHON_LAYOUT_H
#define CT_PYTHON_LAYOUT_H

#include <stdint.h>
#include <string.h>

// How one activation of the interpreter's loop is told from the next along the chain of frames. A generator into which an
// exception is thrown while it waits for another one (`yield from`) is on the chain without an activation of its own.
enum ct_python_chain {
    CT_CHAIN_PLAIN,   // 3.9: one for each frame that is executing; nothing says where
    CT_CHAIN_CFRAMES, // 3.10: the same, with a CFrame in the loop's own stack frame
    CT_CHAIN_CURRENT, // 3.11: the CFrame has the innermost of the frames that its activation runs
    CT_CHAIN_SHIMS,   // since 3.12: the chain goes through a frame in the loop's own stack frame
};

// How the line of an instruction is written down.
enum ct_python_lines {
    CT_LINES_LNOTAB,    // 3.9: pairs of u8 bytes of code, s8 lines (Objects/lnotab_notes.txt)
    CT_LINES_RANGES,    // 3.10: the same with -128 for "no line", and ranges (PEP 626)
    CT_LINES_LOCATIONS, // since 3.11: Objects/locations.md (later InternalDocs/code_objects.md)
};

struct ct_python_layout {
    enum ct_python_chain chain;
    enum ct_python_lines lines;
    // PyThreadState. The innermost frame is at `current` in it, or in the CFrame if `current_in_cframe`.
    uint16_t interp, thread_id, current, cframe, cframe_previous;
    uint8_t current_in_cframe;
    // A frame. `executing`: f_executing (3.9). `depth`: f_stackdepth, negative in an activation (3.10). `generator`: f_gen.
    // `copy`: which copy of its bytecode it runs; 0 where there is only one.
    uint16_t previous, code, instruction, owner, executing, depth, generator, copy;
    // PyCodeObject. 0: `version` and `copies` are not there. `traceable`: _co_firsttraceable, where other code may run
    // before it (3.11 collects garbage wherever it allocates).
    uint16_t first_line, filename, name, linetable, bytecode, version, traceable, copies;
    // Objects, bytes, str. `hash`: 0 where it is not asked for.
    uint16_t type, bytes_size, bytes, length, hash, state, ascii, compact;
    uint8_t free_threaded;
    uint8_t kind_shift; // in the word `state`: 3 bits of kind, one compact, one ascii
};

// Values of `owner`: from the second one on a frame is a shim (FRAME_OWNED_BY_CSTACK of 3.12 and 3.13,
// FRAME_OWNED_BY_INTERPRETER since).
enum { CT_PYTHON_GENERATOR = 1, CT_PYTHON_SHIM = 3 };

// The layout of a version (PY_VERSION_HEX). runtime: the interpreter's _PyRuntime, NULL if it has none. Returns NULL, or
// why its frames cannot be read.
const char *ct_python_layout(struct ct_python_layout *layout, uint32_t version,
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

// ---- python_text.c ------------------------------------------------------------------------------
// All of them read a code object that cannot go away, as long as it is in a live frame of the calling thread.

// The line of an instruction, by its offset in bytes; 0 if it has none.
uint32_t ct_python_code_line(const struct ct_python_layout *layout, uintptr_t code, long offset);

// The name of a file that was hashed last: neighbours on a stack often share it. Good for one walk.
struct ct_python_code_file {
    uintptr_t object; // 0: none yet
    uint64_t hash;
};

// A hash of all that a frame of this code is written down with, but the instruction.
uint64_t ct_python_code_hash(const struct ct_python_layout *layout, uintptr_t code,
                           struct ct_python_code_file *last);

// The id of the text (cutrace/journal.h) of this code: function and file. 0: the table is full.
uint32_t ct_python_code_intern(const struct ct_python_layout *layout, uintptr_t code);

#endif
