// SPDX-License-Identifier: Apache-2.0
// The failing thread's part of a line on stderr. The program may end at once when the call returns
// (_exit, a signal), and PyTorch's allocator waits in its report with its mutex held: so the line
// is printed before, but within a bound.
#define _GNU_SOURCE
#include "record/failed_call.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cutrace/model/failures.h>

#include "base/clock.h"
#include "base/options.h"
#include "record/wakeup.h"
#include "store/ring.h"
#include "write/drain.h"
#include "write/drain_lock.h"
#include "write/nvml.h"
#include "write/oom_notice.h"

#define SAY_NS UINT64_C(150000000)
#define NVML_NS UINT64_C(100000000) // of SAY_NS, for the writer thread with NVML
// The drain lock is tried until SAY_NS are over and TRIES are done, at most for MOST_NS.
#define TRIES 1000u
#define MOST_NS UINT64_C(1000000000)
#define SLOW_NS UINT64_C(10000000000) // how long a slow NVML is not waited for again

// Until when the writer thread is not waited for, because it took too long with the last line.
static _Atomic uint64_t slow_until_ns;

static int may_try(uint64_t start_ns, unsigned tries) {
    const uint64_t waited_ns = ct_clock_read() - start_ns;
    return waited_ns < SAY_NS || (tries < TRIES && waited_ns < MOST_NS);
}

// Drains this thread's events; then it is known whether a line waits. Returns 0, or -EBUSY.
static int drain_own(uint64_t start_ns) {
    struct ct_signal_guard guard;
    for (unsigned tries = 0; may_try(start_ns, tries); tries++) {
        if (!ct_drain_lock_try(&guard)) {
            ct_drain_look();
            ct_drain_lock_release(&guard);
        }
        if (ct_ring_is_empty())
            return 0;
        sched_yield();
    }
    return -EBUSY;
}

// Sleeps until all lines are printed. (Neither syscall(2) nor sched_yield(2) is a cancellation
// point.)
static void wait_for_writer(uint64_t until_ns) {
    for (;;) {
        const uint32_t said = atomic_load(&ct_oom_notice_said);
        const uint64_t now = ct_clock_read();
        if (!ct_oom_notice_is_waiting())
            return;
        if (now >= until_ns)
            break;
        const struct timespec left = {0, (long)(until_ns - now)};
        (void)syscall(SYS_futex, &ct_oom_notice_said, FUTEX_WAIT_PRIVATE, said, &left, NULL, 0);
    }
    atomic_store(&slow_until_ns, ct_clock_read() + SLOW_NS);
}

static void print_here(uint64_t start_ns) {
    struct ct_signal_guard guard;
    for (unsigned tries = 0; ct_oom_notice_is_waiting() && may_try(start_ns, tries); tries++) {
        if (!ct_drain_lock_try(&guard)) {
            ct_drain_look();
            ct_oom_notice_print(0);
            ct_drain_lock_release(&guard);
            return;
        }
        sched_yield();
    }
}

void ct_failed_call_say(const struct ct_event *e) {
    const int saved = errno;
    const uint64_t start_ns = ct_clock_read();
    const int waits =
        ct_event_reports_oom(e) && ct_oom_notice_has_turn(e->t_ns) && !drain_own(start_ns);
    ct_wakeup_hurry();
    if (waits && CT_OPTION_NUMBER(NVML) && ct_nvml_is_usable() &&
        start_ns >= atomic_load(&slow_until_ns))
        wait_for_writer(start_ns + NVML_NS);
    if (waits)
        print_here(start_ns);
    errno = saved;
}
