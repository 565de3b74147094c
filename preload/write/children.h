// SPDX-License-Identifier: Apache-2.0
// INFO about processes that this one has started: how many were seen, and which of them use CUDA
// without this library. Only children that live when it looks are seen.
#ifndef CT_WRITE_CHILDREN_H
#define CT_WRITE_CHILDREN_H

// Looks at the children and theirs, and publishes coverage.children*. Reads /proc: the writer
// thread only, without a lock.
void ct_children_look(void);

// A forked child has no children yet.
void ct_children_reinit_child(void);

#endif
