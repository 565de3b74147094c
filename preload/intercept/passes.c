// SPDX-License-Identifier: Apache-2.0
// The state of this thread's two passes.
#include "intercept/passes.h"

__thread struct ct_passes ct_passes;
