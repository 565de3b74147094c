// SPDX-License-Identifier: Apache-2.0
// Wakes the writer thread. Any thread at any time; errno is kept, nothing blocks but
// ct_wakeup_wait.
#ifndef CT_WAKEUP_H
#define CT_WAKEUP_H

#include <stdatomic.h>
#include <stdint.h>

#include <cutrace/format/journal.h>

// The writer thread sleeps: a producer that publishes must call ct_wakeup_notice. Set by the writer
// thread only.
extern _Atomic int ct_wakeup_is_needed;

void ct_wakeup_notice(void);
void ct_wakeup_ask(uint32_t what); // CT_WAKE_*

// Waits until something beyond `ignored` is asked for, or for `ns` nanoseconds (UINT64_MAX: without
// end). Returns what is asked for. The writer thread only.
uint32_t ct_wakeup_wait(uint32_t ignored, uint64_t ns);

// Forgets what was asked for, except a stop. The writer thread only.
void ct_wakeup_forget(void);

// From now on the word lies in the journal, where another process can reach it (`cutrace ctl`).
void ct_wakeup_use_journal(struct ct_journal *journal);

// A forked child has no writer thread yet.
void ct_wakeup_after_fork(void);

#endif
