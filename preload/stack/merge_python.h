// SPDX-License-Identifier: Apache-2.0
// One stack out of two: the native frames of a thread, and the Python frames that its interpreter loops run.
#ifndef CT_INTERLEAVE_H
#define CT_INTERLEAVE_H

#include <stddef.h>
#include <stdint.h>

// Native frames, innermost first. What lies from sp[i] to sp[i + 1] is the stack of frame i's own; so there is one more
// of them than frames.
struct ct_native_frames {
    const uint64_t *pc;
    const uintptr_t *sp;
    size_t n;
    uint64_t end; // the end mark behind them, 0: none
};

// Python frames, innermost first: their words, and `anchor` as in python.h.
struct ct_python_frames {
    const uint64_t *word;
    const uintptr_t *anchor;
    size_t n;
    int more; // the thread has more than these
};

// Puts both into `to`, innermost first: at most `most` frames, and an end mark behind them if there are more.
// The frame of an interpreter's loop gives way to the Python frames that it runs. is_loop tells one for the versions that
// have no anchors. Returns the number of words.
//
// No Python frame is ever left out: those whose loop is not among the native frames stand where the order of their stack
// addresses puts them, behind all if unwinding has stopped before.
size_t ct_merge_python(uint64_t *to, size_t most, const struct ct_native_frames *native,
                     const struct ct_python_frames *python, int (*is_loop)(uintptr_t pc));

#endif
