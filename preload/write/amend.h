// SPDX-License-Identifier: Apache-2.0
// Corrections (AMEND events) of events in the same batch. Drainer only.
#ifndef CT_WRITE_AMEND_H
#define CT_WRITE_AMEND_H

#include <stddef.h>

#include <cutrace/format/format.h>

// Applies each AMEND of the batch whose event is in the batch, too: then the file has neither the
// mistake nor the AMEND. The AMEND stays in the batch without an operation. The batch is in the
// order of time.
void ct_amend_apply(struct ct_event *batch, size_t n);

#endif
