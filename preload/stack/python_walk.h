// SPDX-License-Identifier: Apache-2.0
// The Python frames of the calling thread, read from its interpreter's memory: without the GIL, without a lock, without a
// call into Python that allocates or counts references.
//
// A walk reads what belongs to the running thread's own live frames. What it returns may be looked at (ct_python_intern_frame)
// by the same thread before its hook returns, and not later: the objects are Python's.
#ifndef CT_PYTHON_H
#define CT_PYTHON_H

#include <stddef.h>
#include <stdint.h>

struct ct_python_frame {
    uintptr_t code;        // PyCodeObject
    uintptr_t instruction; // where it executes, in a form of the version's own
    uint64_t stamp; // tells code objects apart that lay at the same address one after the other
    // Set on the last Python frame that one activation of the interpreter's loop runs: an address inside the stack frame
    // of that native function; CT_PYTHON_ANYWHERE where the version has no such address. 0: its caller is run by the same
    // activation.
    uintptr_t anchor;
};
#define CT_PYTHON_ANYWHERE 1u

// Looks for an interpreter in the process and learns its layout. Takes the loader's lock: where the recorder starts, and
// in the writer when objects were loaded. Returns what ct_python_is_found says afterwards, or -EBUSY if nobody could look
// now, because another thread does or a fork is being prepared.
int ct_python_find(void);

// Whether there is something to walk: a load.
int ct_python_is_found(void);

// The frames of the calling thread, whose ring is `ring`, innermost first, at most `most` of them into `frame`: their
// number, 0 if it has none or may not be walked now (Python is being finalised). *hash is one of them all; *more is set
// if there are more than `most`; then the last one's anchor may be missing. Keeps errno.
struct ct_ring;
size_t ct_python_walk(struct ct_ring *ring, struct ct_python_frame *frame, size_t most,
                      uint64_t *hash, int *more);

// Whether a native return address lies in the interpreter's loop, for versions without anchors.
int ct_python_is_eval_loop(uintptr_t pc);

// The word (cutrace/journal.h) of a frame that was just walked: function, file and line. 0 if the table of texts is full,
// or Python is being finalised meanwhile. Keeps errno.
uint64_t ct_python_intern_frame(struct ct_ring *ring, const struct ct_python_frame *frame);

// Text (ct_text) that says why Python frames are not read, once; 0: nothing to note. The writer thread records it.
uint32_t ct_python_take_note(void);

// Puts what was found into INFO. The writer calls it.
void ct_python_publish_info(void);

// A forked child.
void ct_python_reinit_child(void);

#endif
