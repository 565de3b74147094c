// SPDX-License-Identifier: Apache-2.0
// The futex on which the writer thread sleeps. It lies in the journal, so that another process can
// wake the thread; hence the futex is not a private one.
#define _GNU_SOURCE
#include "record/wakeup.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

_Atomic int ct_wakeup_is_needed;

static _Atomic uint32_t no_journal; // the word while there is no journal
static _Atomic uint32_t *_Atomic wanted = &no_journal;

void ct_wakeup_ask(uint32_t what) {
    const int saved = errno;
    _Atomic uint32_t *word = atomic_load(&wanted);
    if (!(atomic_fetch_or(word, what) & what))
        (void)syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
    errno = saved;
}

__attribute__((noinline)) void ct_wakeup_notice(void) {
    if (atomic_exchange(&ct_wakeup_is_needed, 0))
        ct_wakeup_ask(CT_WAKE_NEW_EVENTS);
}

uint32_t ct_wakeup_wait(uint32_t ignored, uint64_t ns) {
    const uint64_t end = ns == UINT64_MAX ? UINT64_MAX : ct_clock_read() + ns;
    _Atomic uint32_t *word = atomic_load(&wanted);
    for (;;) {
        const uint32_t now = atomic_load(word);
        const uint64_t t = ct_clock_read();
        if (now & ~ignored || t >= end)
            return now;
        const struct timespec left = {(time_t)((end - t) / 1000000000u),
                                      (long)((end - t) % 1000000000u)};
        (void)syscall(SYS_futex, word, FUTEX_WAIT, now, end == UINT64_MAX ? NULL : &left, NULL, 0);
    }
}

void ct_wakeup_forget(void) {
    atomic_fetch_and(atomic_load(&wanted), CT_WAKE_STOP);
}

void ct_wakeup_use_journal(struct ct_journal *journal) {
    atomic_store(&wanted, &journal->wanted);
}

void ct_wakeup_after_fork(void) {
    atomic_store(&no_journal, 0);
    atomic_store(&wanted, &no_journal);
    atomic_store(&ct_wakeup_is_needed, 0);
}
