// SPDX-License-Identifier: Apache-2.0
// What a call stands in, as the stack shows it. A thread notes in a variable that it is inside of a
// function; an exception, a longjmp or another context may leave that function without taking the
// note back, and a signal handler may interrupt it. So the note is only a reason to ask here. Takes
// some microseconds: for calls that come while there is a note, which are rare.
#ifndef CT_ENCLOSING_H
#define CT_ENCLOSING_H

#include <stdint.h>

enum ct_enclosing {
    CT_ENCLOSING_NONE,    // the function is not on this stack
    CT_ENCLOSING_CALL,    // it is, and what asks was called from it
    CT_ENCLOSING_HANDLER, // it is, and what asks was called from a signal handler
    CT_ENCLOSING_UNKNOWN  // the stack cannot be followed that far
};

// `from` is an address in the frame whose call is asked about: only frames further out are looked
// at. The function is on the stack if one of these frames holds the address `mark`, and is_it says
// yes to the frame's return address. is_it NULL: any frame that holds it. CT_ENCLOSING_ANY as the
// mark: every frame holds that.
//
// Any thread at any time, also in a signal handler that has interrupted an unwinding. Keeps errno.
#define CT_ENCLOSING_ANY UINTPTR_MAX
enum ct_enclosing ct_enclosing_find(uintptr_t from, uintptr_t mark, int (*is_it)(uintptr_t pc));

// Whether what asks has to be given up and counted as lost: it belongs to none, or nobody can say,
// and what was interrupted cannot be entered again.
static inline int ct_enclosing_is_lost(enum ct_enclosing found) {
#ifdef __SANITIZE_THREAD__ // calls handlers itself, without a signal's frame
    if (found == CT_ENCLOSING_CALL)
        return 1;
#endif
    return found == CT_ENCLOSING_HANDLER || found == CT_ENCLOSING_UNKNOWN;
}

#endif
