// SPDX-License-Identifier: Apache-2.0
// The layout of Python's frames, code objects and strings, for each version.
//
// 3.9 to 3.12: a table, because these versions do not change any more. Its numbers are offsetof()
// in the headers of 3.9.18, 3.10.13, 3.11.7 and 3.12.1 (x86-64 and aarch64 agree: both are LP64):
// Include/cpython/pystate.h (PyThreadState, _PyCFrame), cpython/frameobject.h (PyFrameObject),
// internal/pycore_frame.h (_PyInterpreterFrame), cpython/code.h, cpython/unicodeobject.h,
// bytesobject.h.
// 3.13 to 3.15: _PyRuntime begins with _Py_DebugOffsets (internal/pycore_runtime.h, later
// pycore_debug_offsets.h), in words of 64 bits. The order of the words differs between minor
// versions and is the same in all releases of one. An unknown minor version has no layout.
#include "stack/python_layout.h"

#include <stddef.h>

#define MINOR(version) ((version) >> 16 & 0xFF)
#define MAJOR(version) ((version) >> 24)
#define LEVEL(version) ((version) >> 4 & 0xF)
#define LEVEL_CANDIDATE 0xCu // earlier releases (alpha, beta) may have another layout

// ---- 3.9 to 3.12 --------------------------------------------------------------------------------

static const struct ct_python_layout tables[] = {
    [9] = {.chain = CT_CHAIN_PLAIN,
           .lines = CT_LINES_LNOTAB,
           .interp = 16,
           .thread_id = 176,
           .current = 24,
           .previous = 24,
           .code = 32,
           .instruction = 104,
           .executing = 116,
           .generator = 96,
           .first_line = 40,
           .filename = 104,
           .name = 112,
           .linetable = 120},
    [10] = {.chain = CT_CHAIN_CFRAMES,
            .lines = CT_LINES_RANGES,
            .interp = 16,
            .thread_id = 176,
            .current = 24,
            .cframe = 48,
            .cframe_previous = 8,
            .previous = 24,
            .code = 32,
            .instruction = 96,
            .depth = 80,
            .generator = 88,
            .first_line = 40,
            .filename = 104,
            .name = 112,
            .linetable = 120},
    [11] = {.chain = CT_CHAIN_CURRENT,
            .lines = CT_LINES_LOCATIONS,
            .interp = 16,
            .thread_id = 152,
            .current = 8,
            .current_in_cframe = 1,
            .cframe = 56,
            .cframe_previous = 16,
            .previous = 48,
            .code = 32,
            .instruction = 56,
            .owner = 69,
            .first_line = 72,
            .filename = 112,
            .name = 128,
            .linetable = 136,
            .bytecode = 184,
            .traceable = 168},
    [12] = {.chain = CT_CHAIN_SHIMS,
            .lines = CT_LINES_LOCATIONS,
            .interp = 16,
            .thread_id = 136,
            .current = 0,
            .current_in_cframe = 1,
            .cframe = 56,
            .cframe_previous = 8,
            .previous = 8,
            .code = 0,
            .instruction = 56,
            .owner = 70,
            .first_line = 68,
            .filename = 112,
            .name = 128,
            .linetable = 136,
            .bytecode = 192,
            .version = 92},
};

static void layout_from_table(struct ct_python_layout *l, unsigned minor) {
    *l = tables[minor];
    l->type = 8;
    l->bytes_size = 16;
    l->bytes = 32;
    l->length = 16;
    l->hash = 24;
    l->state = 32;
    l->ascii = minor < 12 ? 48 : 40; // 3.12 has no wchar_t text
    l->compact = minor < 12 ? 72 : 56;
    l->kind_shift = 2;
}

// ---- 3.13 to 3.15 -------------------------------------------------------------------------------

// The index of the first word of each group in _Py_DebugOffsets, and of thread_id within the group
// of the thread.
static const struct groups {
    uint8_t thread, thread_id, frame, code, object, bytes, unicode;
} groups[] = {
    [13] = {19, 5, 28, 34, 44, 64, 67},
    [14] = {22, 5, 31, 39, 50, 74, 77},
    [15] = {22, 8, 39, 47, 58, 86, 89},
};
enum { COOKIE, VERSION, FREE_THREADED };
// Indices within a group. Its first word is the size of the structure.
enum { THREAD_INTERP = 3, THREAD_CURRENT_FRAME };
enum { FRAME_PREVIOUS = 1, FRAME_EXECUTABLE, FRAME_INSTR_PTR, FRAME_OWNER = 5, FRAME_TLBC = 7 };
enum { CODE_FILENAME = 1, CODE_QUALNAME = 3, CODE_LINETABLE, CODE_FIRSTLINENO };
enum { CODE_LOCALSPLUSNAMES = 7, CODE_ADAPTIVE = 9, CODE_TLBC };
enum { OBJECT_TYPE = 1 };
enum { BYTES_SIZE = 1, BYTES_VALUE };
enum { UNICODE_STATE = 1, UNICODE_LENGTH, UNICODE_ASCII_SIZE };

// No structure of Python's is large enough for an offset of 16 KiB: then the words mean something
// else.
static uint16_t read_offset(const uint64_t *words, unsigned at, int *bad) {
    *bad |= words[at] >= 0x4000;
    return (uint16_t)words[at];
}

static const char *layout_from_words(struct ct_python_layout *l, uint32_t version,
                                     const uint64_t *w) {
    const unsigned minor = MINOR(version);
    const struct groups g = groups[minor];
    int bad = 0;
    if (memcmp(&w[COOKIE], "xdebugpy", 8) != 0 || w[VERSION] != version || w[FREE_THREADED] > 1)
        return "it does not say where its frames are";
    const int free_threaded = w[FREE_THREADED] != 0;
    *l = (struct ct_python_layout){
        .chain = CT_CHAIN_SHIMS,
        .lines = CT_LINES_LOCATIONS,
        .interp = read_offset(w, g.thread + THREAD_INTERP, &bad),
        .thread_id = read_offset(w, g.thread + g.thread_id, &bad),
        .current = read_offset(w, g.thread + THREAD_CURRENT_FRAME, &bad),
        .previous = read_offset(w, g.frame + FRAME_PREVIOUS, &bad),
        .code = read_offset(w, g.frame + FRAME_EXECUTABLE, &bad),
        .instruction = read_offset(w, g.frame + FRAME_INSTR_PTR, &bad),
        .owner = read_offset(w, g.frame + FRAME_OWNER, &bad),
        .first_line = read_offset(w, g.code + CODE_FIRSTLINENO, &bad),
        .filename = read_offset(w, g.code + CODE_FILENAME, &bad),
        .name = read_offset(w, g.code + CODE_QUALNAME, &bad),
        .linetable = read_offset(w, g.code + CODE_LINETABLE, &bad),
        .bytecode = read_offset(w, g.code + CODE_ADAPTIVE, &bad),
        .type = read_offset(w, g.object + OBJECT_TYPE, &bad),
        .bytes_size = read_offset(w, g.bytes + BYTES_SIZE, &bad),
        .bytes = read_offset(w, g.bytes + BYTES_VALUE, &bad),
        .length = read_offset(w, g.unicode + UNICODE_LENGTH, &bad),
        .state = read_offset(w, g.unicode + UNICODE_STATE, &bad),
        .ascii = read_offset(w, g.unicode + UNICODE_ASCII_SIZE, &bad),
        .free_threaded = free_threaded,
        .kind_shift = 2,
    };
    // The words do not say these two: in cpython/code.h co_version comes just before
    // co_localsplusnames, and a PyCompactUnicodeObject is a PyASCIIObject and two words.
    l->version = (uint16_t)(read_offset(w, g.code + CODE_LOCALSPLUSNAMES, &bad) - sizeof(uint32_t));
    l->compact = l->ascii + 2 * sizeof(uint64_t);
    if (free_threaded && minor >= 14) {
        l->copy = read_offset(w, g.frame + FRAME_TLBC, &bad);
        l->copies = read_offset(w, g.code + CODE_TLBC, &bad);
        l->kind_shift = 8; // there `interned` is a whole byte
    }
    return bad ? "it does not say where its frames are" : NULL;
}

const char *ct_python_layout_find(struct ct_python_layout *layout, uint32_t version,
                                  const void *runtime) {
    const unsigned minor = MINOR(version);
    if (MAJOR(version) != 3 || minor < 9 || minor >= sizeof groups / sizeof *groups ||
        LEVEL(version) < LEVEL_CANDIDATE)
        return "this version's frames are not known";
    if (minor >= 13)
        return runtime ? layout_from_words(layout, version, runtime)
                       : "it does not say where its frames are";
    layout_from_table(layout, minor);
    return NULL;
}
