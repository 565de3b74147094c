// SPDX-License-Identifier: Apache-2.0
// Checks that the layout is right, with a thread that has frames.
#ifndef CT_PYTHON_CHECK_H
#define CT_PYTHON_CHECK_H

#include <stdint.h>

// `thread` is the PyThreadState of the calling thread. Reads through the kernel only. Returns the
// number of its frames, or -1 if one of them is not what it should be.
int ct_python_check_thread(uintptr_t thread);

#endif
