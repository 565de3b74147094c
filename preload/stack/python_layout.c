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

// In 3.9, 3.10, 3.11 and 3.12; 0 also where a version lacks the member.
#define OFFSETS(X)                   \
    X(interp, 16, 16, 16, 16)        \
    X(thread_id, 176, 176, 152, 136) \
    X(current, 24, 24, 8, 0)         \
    X(current_in_cframe, 0, 0, 1, 1) \
    X(cframe, 0, 48, 56, 56)         \
    X(cframe_previous, 0, 8, 16, 8)  \
    X(previous, 24, 24, 48, 8)       \
    X(code, 32, 32, 32, 0)           \
    X(instruction, 104, 96, 56, 56)  \
    X(owner, 0, 0, 69, 70)           \
    X(executing, 116, 0, 0, 0)       \
    X(depth, 0, 80, 0, 0)            \
    X(generator, 96, 88, 0, 0)       \
    X(first_line, 40, 40, 72, 68)    \
    X(filename, 104, 104, 112, 112)  \
    X(name, 112, 112, 128, 128)      \
    X(linetable, 120, 120, 136, 136) \
    X(bytecode, 0, 0, 184, 192)      \
    X(version, 0, 0, 0, 92)          \
    X(traceable, 0, 0, 168, 0)

#define OF_9(member, at_9, at_10, at_11, at_12) .member = (at_9),
#define OF_10(member, at_9, at_10, at_11, at_12) .member = (at_10),
#define OF_11(member, at_9, at_10, at_11, at_12) .member = (at_11),
#define OF_12(member, at_9, at_10, at_11, at_12) .member = (at_12),
static const struct ct_python_layout tables[] = {
    [9] = {.chain = CT_CHAIN_PLAIN, .lines = CT_LINES_LNOTAB, OFFSETS(OF_9)},
    [10] = {.chain = CT_CHAIN_CFRAMES, .lines = CT_LINES_RANGES, OFFSETS(OF_10)},
    [11] = {.chain = CT_CHAIN_CURRENT, .lines = CT_LINES_LOCATIONS, OFFSETS(OF_11)},
    [12] = {.chain = CT_CHAIN_SHIMS, .lines = CT_LINES_LOCATIONS, OFFSETS(OF_12)},
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
