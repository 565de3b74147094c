// SPDX-License-Identifier: Apache-2.0
// Merges two stacks of a thread into one: its native frames, and the Python frames that they run.
// Computes only.
#ifndef CT_MERGE_PYTHON_H
#define CT_MERGE_PYTHON_H

#include <stddef.h>
#include <stdint.h>

// The n native frames, innermost first. Frame i's own part of the stack is from sp[i] to sp[i + 1];
// so sp has one element more than pc. `end` is the end mark that follows the frames, 0 for none.
struct ct_native_frames {
    const uint64_t *pc;
    const uintptr_t *sp;
    size_t n;
    uint64_t end;
};

// The n innermost Python frames, innermost first: their words, and their anchors (python_walk.h).
// `more`: the thread has more frames than these.
struct ct_python_frames {
    const uint64_t *word;
    const uintptr_t *anchor;
    size_t n;
    int more;
};

// Puts both into `to`, innermost first: at most `most` frames, and an end mark after them if there
// are more. The Python frames that an evaluation loop runs replace its native frame. For versions
// without anchors, is_loop tells whether a native frame is such a loop. Returns the number of
// words.
//
// No Python frame is left out because its loop is not among the native frames: it stands where the
// order of stack addresses puts it, after all native frames if unwinding has stopped before.
size_t ct_merge_python(uint64_t *to, size_t most, const struct ct_native_frames *native,
                       const struct ct_python_frames *python, int (*is_loop)(uintptr_t pc));

#endif
