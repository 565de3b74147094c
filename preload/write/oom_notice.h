// SPDX-License-Identifier: Apache-2.0
// Out-of-memory lines on stderr: which failures, when, and from which thread.
//
// 1. What PyTorch raises is said at its report (block-oom), under which its allocator waits. A call
//    that PyTorch's allocator repeats (oom_notice.c) is not said by itself: if a block follows in
//    its thread, the retry has healed it; if neither a block nor a report follows within ten
//    seconds or before the exit, it is said as well.
// 2. Any other OOM of the driver is said before the refused call returns to the program, which may
//    end at once.
// 3. All figures of a line are of the moment of the failed call: they are taken when the drain
//    applies its event. What was not read then is left out. NVML is asked once more before the line
//    is printed; its report only divides what neither the free memory nor the tracked memory
//    explains (ct_breakdown_divide_later).
// 4. Each failure is said. Ten lines may follow each other, each from another call site, then one a
//    second; failures beyond that are summed up in one line ("37 more failed, the last of them:
//    ..."), at most once a second, by the writer thread and at the exit. A call that is summed up
//    is not delayed.
//
// Who says it: the failing thread drains its own event (ct_drain_look). If a line waits then, it
// wakes the writer thread, which asks NVML and prints; after 100 ms the failing thread prints it
// without NVML, if it gets the drain lock in time; otherwise the writer thread prints it later
// (record/publish.c). Nobody waits for a full pipe: such a line waits for the next attempt.
//
// Drain lock held, unless a function says otherwise. With CUTRACE_QUIET nothing is said.
#ifndef CT_WRITE_OOM_NOTICE_H
#define CT_WRITE_OOM_NOTICE_H

#include <stdatomic.h>

#include <cutrace/format/format.h>

// Registers what tells whether a PyTorch that reports OOMs is loaded. Any thread.
void ct_oom_notice_set_reporter(int (*reports)(void));

// Whether events besides failures matter: a line waits, or PyTorch tries again.
extern int ct_oom_notice_watches;

// Applies an event: a failed allocation, or while ct_oom_notice_watches any event. After the live
// state has applied it. Its numbers are the process's own, not yet the file's.
void ct_oom_notice_apply(const struct ct_event *event);

// Prints the waiting lines, and what is summed up or unanswered, if it is time for that; with
// `all`, at any time.
void ct_oom_notice_print(int all);

// Counts the times that all waiting lines were printed: a futex word. Any thread.
extern _Atomic uint32_t ct_oom_notice_said;

// Whether a line waits. Any thread.
int ct_oom_notice_is_waiting(void);

// Whether a failure at this time would be said by a line of its own. Any thread.
int ct_oom_notice_has_turn(uint64_t t_ns);

// When the writer thread must print (ct_clock_read); 0: never. Any thread.
uint64_t ct_oom_notice_deadline_ns(void);

// Takes the devices (a bit for each index) on which a request failed since the last call: NVML is
// to be asked about them. Any thread.
uint64_t ct_oom_notice_take_devices(void);
int ct_oom_notice_has_devices(void);

void ct_oom_notice_reinit_child(void);

#endif
