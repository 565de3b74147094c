// SPDX-License-Identifier: Apache-2.0
// CT_ASSERT states an invariant. Test and sanitizer builds (-DCT_ASSERTS) check it and abort; a
// release build compiles nothing, because the traced process must never be ended by its tracer.
#ifndef CUTRACE_ASSERT_H
#define CUTRACE_ASSERT_H

#ifdef CT_ASSERTS
#include <assert.h>
#define CT_ASSERT(condition) assert(condition)
#else
#define CT_ASSERT(condition) ((void)sizeof(!(condition)))
#endif

#endif
