// SPDX-License-Identifier: Apache-2.0
// Messages of the recorder in the trace. Drain lock held.
#ifndef CT_WRITE_NOTES_H
#define CT_WRITE_NOTES_H

#include <stddef.h>
#include <stdint.h>

#include <cutrace/format/format.h>

// Puts a message into the next batch, unless one waits already. NULL: no message.
void ct_notes_add(const char *text);

// The same, and prints it on stderr.
void ct_notes_report(const char *text);

// Whether a message waits.
int ct_notes_has(void);

// Takes the message that waits as a NOTE of this time. Returns how many there are: 0 or 1.
size_t ct_notes_take(struct ct_event *e, uint64_t t_ns);

void ct_notes_reinit_child(void);

#endif
