// SPDX-License-Identifier: Apache-2.0
// The Python frames of the calling thread, read from its interpreter's memory: without the GIL,
// without a lock, without a call into Python that allocates or counts references. Any thread may
// walk at any time, no matter which thread holds the GIL.
//
// Safe: nothing that a walk follows can go away meanwhile.
// P1. A walk follows the calling thread's own chain of frames, from its own PyThreadState. Only the
//     thread itself adds frames to its chain or removes them, and it is in a hook: the chain does
//     not change.
// P2. A frame holds a reference to its code object, which holds references to its name, file name
//     and tables. None of these is ever changed, but for the hash in a string: -1 until it is
//     known.
// P3. Finalization destroys the frames of other threads, against P1. A gate is closed before
//     (python_gate.h).
// P4. A free-threaded build replaces a code object's list of bytecode copies, against P2. This list
//     is read through the kernel, which reports what is not mapped. A list whose memory is already
//     used for something else can give a wrong line, nothing worse.
//
// Right: the frames are those that Python would show.
// P5. The layout is the version's (python_layout.h), and is believed only when all frames of a
//     thread were found to be what they should be, read through the kernel (python_gate.c).
// P6. A walk ends at the first frame whose code is not of type `code`.
// P7. The address of a code object that is gone is used again for another one. A frame therefore
//     has a stamp: the version number that each code object gets once (since 3.12; 0 when the
//     numbers have run out), else a hash of all that describes the code.
// P8. Version numbers begin anew in each interpreter and after each Py_Initialize. So the
//     interpreter and the number of the run are part of the hash of the frames.
#ifndef CT_PYTHON_WALK_H
#define CT_PYTHON_WALK_H

#include <stddef.h>
#include <stdint.h>

struct ct_ring;

// A frame of a walk. `code` is its PyCodeObject; `instruction` is where it executes, in the
// version's own form; `stamp` see P7.
// `anchor` is set on the outermost of the frames that one activation of the evaluation loop runs:
// an address inside the stack frame of that native function, or CT_PYTHON_ANYWHERE where the
// version has no such address. 0: the same activation runs its caller.
struct ct_python_frame {
    uintptr_t code;
    uintptr_t instruction;
    uint64_t stamp;
    uintptr_t anchor;
};
#define CT_PYTHON_ANYWHERE 1u

// Puts the frames of the calling thread, whose ring is `ring`, into `frame`, innermost first, at
// most `most`. Returns their number; 0 if it has none, or may not be walked now (Python is being
// finalized). *hash is that of all of them. *more is set if there are more than `most`; then the
// last one's anchor may be missing. Keeps errno.
size_t ct_python_walk(struct ct_ring *ring, struct ct_python_frame *frame, size_t most,
                      uint64_t *hash, int *more);

// The word (cutrace/format/journal.h) of a frame that was just walked: function, file and line.
// Only the thread that walked, and only before its hook returns: the objects are Python's. 0 if the
// table of texts is full, or Python is being finalized meanwhile. Keeps errno.
uint64_t ct_python_intern_frame(struct ct_ring *ring, const struct ct_python_frame *frame);

#endif
