// SPDX-License-Identifier: Apache-2.0
// The frames of a snapshot as stacks, which have call sites and phases as those of a trace.
#ifndef CT_SNAPSHOT_STACKS_H
#define CT_SNAPSHOT_STACKS_H

#include "snapshot/snapshot.h"

// The stack of a list of frames, innermost first; 0: it has none. Native frames are left out where
// there are frames of Python: PyTorch's history names neither their libraries nor their files in a
// way that tells whose they are. A list is read once, however often it is named.
uint32_t ct_snapshot_stack(struct ct_snapshot *s, const struct ct_pickle_value *frames);

#endif
