// SPDX-License-Identifier: Apache-2.0
// Keeps the failures that are to be said, with their figures, and prints their lines.
#define _GNU_SOURCE
#include "write/oom_notice.h"

#include <limits.h>
#include <link.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cutrace/format/assert.h>
#include <cutrace/model/oom_message.h>

#include "base/clock.h"
#include "base/loader_gate.h"
#include "base/options.h"
#include "base/print.h"
#include "base/read_file.h"
#include "base/real_dlsym.h"
#include "store/loaded_modules.h"
#include "store/name_table.h"
#include "store/stack_table.h"
#include "store/trace_file.h"
#include "write/caller.h"
#include "write/drain_lock.h"
#include "write/live_state.h"
#include "write/nvml.h"
#include "write/symbolizer.h"

// ---- calls that PyTorch repeats ---------------------------------------------------------------

// The caching allocator frees what it has cached and repeats a call that the driver refused; only
// if that fails, too, it reports an OOM (block-oom) and raises an exception. Its calls are known by
// their stack: the first frame outside CUDA's libraries lies in libc10_cuda. It does not repeat
// stream-ordered allocations (the cudaMallocAsync backend) and page-locked ones, nor any with
// PYTORCH_NO_CUDA_MEMORY_CACHING, and it reports no OOM before torch 1.13. The calls of a pluggable
// allocator (vLLM's CuMemAllocator) lie in that allocator's library.

#define FRAMES 24u // of CUDA's libraries, at most, before their caller

enum kind { OTHER, OF_CUDA, OF_PYTORCH };

static int (*_Atomic reporter)(void);

void ct_oom_notice_set_reporter(int (*reports)(void)) {
    atomic_store(&reporter, reports);
}

// The driver and the runtime, and PyTorch's allocator. (The frames of this library are in no
// stack.)
static enum kind find_kind_of_path(const char *path) {
    static const struct {
        const char *name;
        enum kind kind;
    } libraries[] = {{"libcuda.so", OF_CUDA},
                     {"libcudart.so", OF_CUDA},
                     {"libcudart-", OF_CUDA},
                     {"libc10_cuda.so", OF_PYTORCH}};
    const char *name = ct_base_name(path);
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++)
        if (!strncmp(name, libraries[i].name, strlen(libraries[i].name)))
            return libraries[i].kind;
    return OTHER;
}

// ---- objects that no scan has seen yet --------------------------------------------------------

struct search {
    uint64_t address;
    enum kind kind;
};

static int visit_object(struct dl_phdr_info *info, size_t size, void *user) {
    struct search *s = user;
    (void)size;
    if (!ct_real_dlsym_find_segment(info, s->address))
        return 0;
    s->kind = find_kind_of_path(info->dlpi_name ? info->dlpi_name : "");
    return 1;
}

// Asks the loader, whose lock of dl_iterate_phdr is never held for long (intercept/libc10.c). The
// last answer is kept: a flood of failures comes from one place.
static enum kind search_kind(uint64_t address) {
    static struct search last;
    if (last.address == address)
        return last.kind;
    struct search s = {address, OTHER};
    if (ct_loader_gate_enter())
        return OTHER;
    (void)dl_iterate_phdr(visit_object, &s);
    ct_loader_gate_leave();
    last = s;
    return s.kind;
}

// ---- the caller -------------------------------------------------------------------------------

static enum kind find_kind(uint64_t address) {
    const struct ct_loaded_module *m = ct_loaded_modules_find(address);
    return m ? find_kind_of_path(m->path) : search_kind(address);
}

// Whose the first native frame outside CUDA's libraries is.
static enum kind find_kind_of_caller(uint32_t stack) {
    const struct ct_stack_entry *s = ct_stack_table_get(stack);
    for (uint32_t i = 0; s && i < s->frames && i < FRAMES; i++) {
        if (!ct_frame_word_is_native(s->frame[i]))
            continue;
        const enum kind kind = find_kind(s->frame[i] - 1);
        if (kind != OF_CUDA)
            return kind;
    }
    return OTHER;
}

// Read at each failure, because a program may set it before it loads PyTorch.
static int is_caching(void) {
    return !getenv("PYTORCH_NO_CUDA_MEMORY_CACHING");
}

// Whether PyTorch's allocator made this failed call and repeats it or reports an OOM. 0 if that is
// not known, as without native frames. The event's numbers are the process's own.
static int is_repeated_by_pytorch(const struct ct_event *e) {
    int (*const reports)(void) = atomic_load(&reporter);
    CT_ASSERT(ct_drain_lock_is_held());
    const int is_repeated =
        e->op == CT_OP_CREATE ||
        (e->op == CT_OP_ALLOC && !(CT_HAS(e, flags) && e->flags & CT_FLAG_ASYNC) &&
         CT_HAS(e, space) && e->space == CT_SPACE_DEVICE);
    return is_repeated && CT_HAS(e, stack) && find_kind_of_caller(e->stack) == OF_PYTORCH &&
           is_caching() && reports && reports();
}

// ---- failures ---------------------------------------------------------------------------------

#define SECOND_NS UINT64_C(1000000000)
#define BURST 10u                   // lines that may follow each other
#define RETRY_NS (10 * SECOND_NS)   // how long PyTorch may take to repeat a call
#define PIPE_NS UINT64_C(100000000) // between two attempts to write into a full pipe
#define EXIT_MS 200                 // how long the exit waits for a full pipe
enum { LINES = 16, RETRIES = 64, SITES = 16 };

// A failure as of its moment. The event has no operation where there is none.
struct failure {
    struct ct_event event;
    struct ct_breakdown split;
};

static struct {
    struct failure waiting[LINES]; // for their lines, oldest first
    unsigned n;
    struct failure last;  // of those that are summed up
    uint64_t more;        // how many those are; 0: none
    uint64_t summed_ns;   // when a sum was printed, or a failure had a line of its own
    uint32_t said[SITES]; // stacks of the newest failures that had one, as a ring; 0: none
    unsigned sites;
    // Calls that PyTorch's allocator repeats, by thread; of threads that share an entry, the
    // newest.
    struct failure retried[RETRIES];
    unsigned retries;
    int pipe_is_full;
} notice;

int ct_oom_notice_watches;
_Atomic uint32_t ct_oom_notice_said;
static _Atomic uint32_t waiting_n;
static _Atomic uint64_t devices;
static _Atomic uint64_t deadline_ns;
// When the next line of its own would be due, had all lines so far come a second apart; UINT64_MAX
// while failures are summed up.
static _Atomic uint64_t turn_ns;
static uint64_t lines_ns; // the same, also while failures are summed up

// ---- what is said -----------------------------------------------------------------------------

static int has_turn(uint64_t due_ns, uint64_t t_ns) {
    return due_ns <= t_ns + (BURST - 1) * SECOND_NS;
}

int ct_oom_notice_has_turn(uint64_t t_ns) {
    return !CT_OPTION_NUMBER(QUIET) && has_turn(atomic_load(&turn_ns), t_ns);
}

int ct_oom_notice_is_waiting(void) {
    return atomic_load(&waiting_n) != 0;
}

uint64_t ct_oom_notice_deadline_ns(void) {
    return atomic_load(&deadline_ns);
}

uint64_t ct_oom_notice_take_devices(void) {
    return atomic_exchange(&devices, 0);
}

int ct_oom_notice_has_devices(void) {
    return atomic_load(&devices) != 0;
}

static void take_earlier(uint64_t *deadline, uint64_t t_ns) {
    if (!*deadline || t_ns < *deadline)
        *deadline = t_ns;
}

// Shares what other threads may know.
static void share(void) {
    uint64_t deadline = 0;
    if (notice.more)
        take_earlier(&deadline, notice.summed_ns + SECOND_NS);
    if (notice.n)
        take_earlier(&deadline, notice.waiting[0].event.t_ns);
    if (notice.pipe_is_full)
        deadline = ct_clock_read() + PIPE_NS;
    for (unsigned i = 0; notice.retries && i < RETRIES; i++)
        if (notice.retried[i].event.op)
            take_earlier(&deadline, notice.retried[i].event.t_ns + RETRY_NS);
    ct_oom_notice_watches = notice.n || notice.more || notice.retries;
    atomic_store(&turn_ns, notice.more ? UINT64_MAX : lines_ns);
    atomic_store(&deadline_ns, deadline);
    atomic_store(&waiting_n, notice.n);
}

// Whether a failure is from a call site that has just had a line.
static int is_said_again(const struct failure *f) {
    const uint32_t stack = CT_HAS(&f->event, stack) ? f->event.stack : 0;
    unsigned i = 0;
    while (i < SITES && notice.said[i] != stack)
        i++;
    return stack && i < SITES && f->event.t_ns < notice.summed_ns + SECOND_NS;
}

static void say(const struct failure *f) {
    if (CT_OPTION_NUMBER(QUIET))
        return;
    if (!notice.more && notice.n < LINES && !is_said_again(f) &&
        has_turn(lines_ns, f->event.t_ns)) {
        lines_ns = (lines_ns > f->event.t_ns ? lines_ns : f->event.t_ns) + SECOND_NS;
        notice.summed_ns = f->event.t_ns;
        notice.said[notice.sites++ % SITES] = CT_HAS(&f->event, stack) ? f->event.stack : 0;
        notice.waiting[notice.n++] = *f;
        return;
    }
    notice.last = *f;
    notice.more++;
}

// ---- events -----------------------------------------------------------------------------------

static struct failure *find_retry(const struct ct_event *e) {
    return &notice.retried[CT_GET(e, thread) % RETRIES];
}

static int is_of_thread(const struct failure *f, const struct ct_event *e) {
    return f->event.op && f->event.thread == CT_GET(e, thread);
}

static void forget_retry(struct failure *f) {
    f->event.op = 0;
    notice.retries--;
}

// The thread's allocator has answered: with a block, or with its report.
static void end_retry(const struct ct_event *e) {
    struct failure *f = find_retry(e);
    if (notice.retries && is_of_thread(f, e))
        forget_retry(f);
}

static void begin_retry(const struct failure *f) {
    struct failure *to = find_retry(&f->event);
    if (to->event.op && !is_of_thread(to, &f->event)) {
        say(to);
        forget_retry(to);
    }
    if (!to->event.op)
        notice.retries++;
    *to = *f;
    if (!CT_HAS(&f->event, thread))
        to->event.thread = 0;
}

static void add_failure(const struct ct_event *e) {
    const int device = ct_event_device_index(e);
    const struct failure f = {*e, ct_live_state_get_breakdown(device)};
    if (device < CT_MAX_DEVICES)
        atomic_fetch_or(&devices, UINT64_C(1) << device);
    if (e->op == CT_OP_BLOCK_OOM)
        end_retry(e);
    if (e->op != CT_OP_BLOCK_OOM && is_repeated_by_pytorch(e))
        begin_retry(&f);
    else
        say(&f);
}

static void divide(struct failure *f, const struct ct_event *report,
                   const struct ct_breakdown *then) {
    if (f->event.op && ct_event_device_index(&f->event) == ct_event_device_index(report) &&
        report->t_ns - f->event.t_ns <= CT_SPLIT_AFTER_NS)
        ct_breakdown_divide_later(&f->split, then);
}

// NVML's report divides the figures of the failures shortly before it.
static void divide_all(const struct ct_event *report) {
    const struct ct_breakdown then = ct_live_state_get_breakdown(ct_event_device_index(report));
    for (unsigned i = 0; i < notice.n; i++)
        divide(&notice.waiting[i], report, &then);
    for (unsigned i = 0; notice.retries && i < RETRIES; i++)
        divide(&notice.retried[i], report, &then);
    if (notice.more)
        divide(&notice.last, report, &then);
}

void ct_oom_notice_apply(const struct ct_event *e) {
    CT_ASSERT(ct_drain_lock_is_held());
    if (ct_event_reports_oom(e))
        add_failure(e);
    else if (e->op == CT_OP_BLOCK_ALLOC && notice.retries)
        end_retry(e);
    else if (e->op == CT_OP_MEMORY_SAMPLE && CT_HAS(e, process_bytes) && CT_HAS(e, device))
        divide_all(e);
    else
        return;
    share();
}

// ---- printing ---------------------------------------------------------------------------------

// Returns 0, or -1 if stderr has no room now.
static int print(const struct failure *f, uint64_t earlier, int wait_ms) {
    char caller[200] = "", line[2048];
    notice.pipe_is_full = !ct_print_stderr_has_room(wait_ms);
    if (notice.pipe_is_full)
        return -1;
    if (CT_HAS(&f->event, stack)) {
        ct_symbolizer_resolve_caller(f->event.stack);
        ct_caller_format(f->event.stack, caller, sizeof caller);
    }
    struct ct_oom oom = ct_oom_describe(&f->event, &f->split,
                                        ct_nvml_get_total_bytes(ct_event_device_index(&f->event)));
    oom.earlier = earlier;
    oom.api = CT_HAS(&f->event, api) ? ct_name_get_text(f->event.api) : NULL;
    oom.caller = caller;
    oom.path = ct_trace_file_get_path();
    ct_oom_message_format(&oom, line, sizeof line, ct_print_va);
    ct_print_stderr(line);
    return 0;
}

// Prints the first lines up to the one that finds no room.
static int print_waiting(int wait_ms) {
    unsigned done = 0;
    while (done < notice.n && !print(&notice.waiting[done], 0, wait_ms))
        done++;
    notice.n -= done;
    memmove(notice.waiting, notice.waiting + done, notice.n * sizeof *notice.waiting);
    return notice.n ? -1 : 0;
}

static void say_unanswered(int all) {
    const uint64_t now = ct_clock_read();
    for (unsigned i = 0; notice.retries && i < RETRIES; i++) {
        struct failure *f = &notice.retried[i];
        if (!f->event.op || (!all && now - f->event.t_ns < RETRY_NS))
            continue;
        say(f);
        forget_retry(f);
    }
}

static void wake_waiters(void) {
    atomic_fetch_add(&ct_oom_notice_said, 1);
    (void)syscall(SYS_futex, &ct_oom_notice_said, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void ct_oom_notice_print(int all) {
    CT_ASSERT(ct_drain_lock_is_held());
    const int wait_ms = all ? EXIT_MS : 0;
    if (!ct_oom_notice_watches)
        return;
    say_unanswered(all);
    const int had_waiting = notice.n != 0;
    if (!print_waiting(wait_ms) && notice.more &&
        (all || ct_clock_read() - notice.summed_ns >= SECOND_NS) &&
        !print(&notice.last, notice.more - 1, wait_ms)) {
        notice.more = 0;
        notice.summed_ns = ct_clock_read();
    }
    share();
    if (had_waiting && !notice.n)
        wake_waiters();
}

void ct_oom_notice_reinit_child(void) {
    memset(&notice, 0, sizeof notice);
    lines_ns = 0;
    ct_oom_notice_watches = 0;
    atomic_store(&devices, 0);
    share();
}
