// SPDX-License-Identifier: Apache-2.0
// Which memory left "free": figures of an H100 (tests/gpu/results, driver 580), and of a device
// that two processes share. Readings during calls: the expected split is what the device held.
#include "../lib/unit.h"
#include "state_model.h"

#include <cutrace/model/live.h>
#include <cutrace/model/readings.h>

#define MIB (UINT64_C(1) << 20)
#define TOTAL (81079 * MIB)      // of cuMemGetInfo
#define NVML_TOTAL (81559 * MIB) // with what the driver keeps for itself
#define CONTEXT (518 * MIB)      // by NVML
#define NOBODY 9240576           // of a context, and of no process by NVML

#define LARGE (40278 * MIB) // of recovered.zst, allocated in 152 ms
#define PTR (UINT64_C(1) << 40)
#define MS UINT64_C(1000000)

static struct ct_readings readings;
static struct memory memory;
static struct ct_live live;
static uint64_t now_ns;

static void apply(struct ct_event *e, uint32_t thread, uint64_t ahead) {
    CT_SET(e, device, 0);
    CT_SET(e, t_ns, now_ns);
    CT_SET(e, thread, thread);
    ct_live_apply(&live, e, now_ns);
    ct_readings_apply_ahead(&readings, &live, e, ahead);
}

static void read_free(uint64_t free) {
    struct ct_event e = {.op = CT_OP_MEMORY_SAMPLE};
    CT_SET(&e, free_bytes, free);
    CT_SET(&e, total_bytes, TOTAL);
    apply(&e, 1, 0);
}

static void ask_nvml_during(uint64_t free, uint64_t process, uint64_t ahead) {
    struct ct_event e = {.op = CT_OP_MEMORY_SAMPLE};
    CT_SET(&e, flags, CT_FLAG_NVML);
    CT_SET(&e, free_bytes, free);
    CT_SET(&e, total_bytes, NVML_TOTAL);
    CT_SET(&e, process_bytes, process);
    apply(&e, 2, ahead);
}

static void ask_nvml(uint64_t free, uint64_t process) {
    ask_nvml_during(free, process, 0);
}

static void allocate(uint32_t thread, uint64_t ptr, uint64_t bytes, uint64_t duration_ns) {
    struct ct_event e = {.op = CT_OP_ALLOC};
    CT_SET(&e, ptr, ptr);
    CT_SET(&e, bytes, bytes);
    CT_SET(&e, space, CT_SPACE_DEVICE);
    CT_SET(&e, duration_ns, duration_ns);
    apply(&e, thread, 0);
}

static void fail_to_allocate(uint32_t thread, uint64_t bytes, uint64_t free, uint64_t ahead) {
    struct ct_event e = {.op = CT_OP_ALLOC};
    CT_SET(&e, bytes, bytes);
    CT_SET(&e, result, 2);
    CT_SET(&e, free_bytes, free);
    CT_SET(&e, total_bytes, TOTAL);
    apply(&e, thread, ahead);
}

static void release(uint32_t thread, uint64_t ptr) {
    struct ct_event e = {.op = CT_OP_FREE};
    CT_SET(&e, ptr, ptr);
    apply(&e, thread, 0);
}

static void is_split_but(uint64_t unattributed, uint64_t free, uint64_t tracked, uint64_t in_flight,
                         uint64_t untracked, uint64_t others) {
    const struct ct_breakdown s = ct_readings_breakdown(&readings, &live, 0);
    assert_true(s.used_known);
    assert_int_equal(s.total, TOTAL);
    assert_int_equal(s.free, free);
    assert_int_equal(s.tracked, tracked);
    assert_int_equal(s.in_flight, in_flight);
    assert_int_equal(s.untracked, untracked);
    assert_int_equal(s.others, others);
    assert_int_equal(s.unattributed, unattributed);
    assert_int_equal(s.free + s.tracked + s.in_flight + s.unexplained, TOTAL);
    assert_int_equal(s.untracked + s.others + s.unattributed, s.unexplained);
}

static void is_split(uint64_t free, uint64_t tracked, uint64_t in_flight, uint64_t untracked,
                     uint64_t others) {
    is_split_but(0, free, tracked, in_flight, untracked, others);
}

static void are(uint64_t untracked, uint64_t others, uint64_t unattributed) {
    const struct ct_breakdown s = ct_readings_breakdown(&readings, &live, 0);
    assert_true(s.split_known);
    assert_int_equal(s.untracked, untracked);
    assert_int_equal(s.others, others);
    assert_int_equal(s.unattributed, unattributed);
}

BEFORE_EACH {
    memset(&readings, 0, sizeof readings);
    memset(&live, 0, sizeof live);
    ct_live_init(&live, memory_resize, &memory);
    now_ns = 1000 * MS;
    return 0;
}

AFTER_EACH {
    ct_live_release(&live);
    return 0;
}

// NVML may be asked first; then the total is not CUDA's yet. A process may load modules, and a
// neighbour may come: the same reading follows from both.
TEST(growth_between_reports_is_of_nobody) {
    const uint64_t free = TOTAL - CONTEXT - NOBODY;
    ask_nvml(free, CONTEXT);
    read_free(free);
    are(CONTEXT, NOBODY, 0);
    read_free(free - 92 * MIB);
    are(CONTEXT, NOBODY, 92 * MIB);
    read_free(free - 5468 * MIB);
    are(CONTEXT, NOBODY, 5468 * MIB);
    ask_nvml(free - 5468 * MIB, CONTEXT + 92 * MIB);
    are(CONTEXT + 92 * MIB, NOBODY + 5376 * MIB, 0);
}

TEST(beside_others_nobody_can_say) {
    read_free(TOTAL - 4000 * MIB);
    ask_nvml(TOTAL - 4000 * MIB, CONTEXT);
    are(CONTEXT, 4000 * MIB - CONTEXT, 0);
    read_free(TOTAL - 9000 * MIB);
    are(CONTEXT, 4000 * MIB - CONTEXT, 5000 * MIB);
    ask_nvml(TOTAL - 9000 * MIB, CONTEXT + 5000 * MIB);
    are(CONTEXT + 5000 * MIB, 4000 * MIB - CONTEXT, 0);
}

// Either of them may have given memory back. What cannot have been given back is still theirs.
TEST(a_decrease_is_of_either) {
    read_free(TOTAL - 4000 * MIB);
    ask_nvml(TOTAL - 4000 * MIB, 1000 * MIB);
    read_free(TOTAL - 3700 * MIB);
    are(700 * MIB, 2700 * MIB, 300 * MIB);
    read_free(TOTAL - 2500 * MIB);
    are(0, 1500 * MIB, 1000 * MIB);
    read_free(TOTAL - 500 * MIB);
    are(0, 0, 500 * MIB);
    read_free(TOTAL - 4000 * MIB);
    are(1000 * MIB, 3000 * MIB, 0);
}

// A failure is divided by NVML's next report, if that says more than the last one.
TEST(the_next_report_divides_a_failure) {
    read_free(TOTAL - 1000 * MIB);
    ask_nvml(TOTAL - 1000 * MIB, CONTEXT);
    read_free(TOTAL - 6000 * MIB);
    struct ct_breakdown failed = ct_readings_breakdown(&readings, &live, 0), once = failed;
    assert_int_equal(failed.unattributed, 5000 * MIB);
    ask_nvml(TOTAL - 6000 * MIB, CONTEXT);
    struct ct_breakdown then = ct_readings_breakdown(&readings, &live, 0);
    ct_breakdown_divide_later(&failed, &then);
    assert_int_equal(failed.untracked, CONTEXT);
    assert_int_equal(failed.others, 6000 * MIB - CONTEXT);
    assert_int_equal(failed.unattributed, 0);
    then.unattributed = 1; // not as reported: it divides nothing
    ct_breakdown_divide_later(&once, &then);
    assert_int_equal(once.unattributed, 5000 * MIB);
    ask_nvml(TOTAL - 12000 * MIB, CONTEXT); // 6000 MiB came after the failure: nobody knows whose
    then = ct_readings_breakdown(&readings, &live, 0);
    ct_breakdown_divide_later(&once, &then);
    assert_int_equal(once.untracked, 0);
    assert_int_equal(once.others, 6000 * MIB - CONTEXT);
    assert_int_equal(once.unattributed, CONTEXT);
}

// ---- readings during calls ----------------------------------------------------------------------

static const uint64_t free_at_start = TOTAL - CONTEXT - NOBODY;

static void start(void) {
    read_free(free_at_start);
    ask_nvml(free_at_start, CONTEXT);
    now_ns += 10 * MS;
}

// recovered.zst, events 20 and 21: NVML is asked 151 ms after a cudaMalloc has begun.
TEST(an_allocation_under_way_is_not_untracked) {
    start();
    now_ns += 151 * MS;
    ask_nvml_during(free_at_start - LARGE, CONTEXT + LARGE, LARGE);
    is_split(free_at_start - LARGE, 0, LARGE, CONTEXT, NOBODY);
    now_ns += MS;
    allocate(1, PTR, LARGE, 152 * MS);
    is_split(free_at_start - LARGE, LARGE, 0, CONTEXT, NOBODY);
    release(1, PTR);
    is_split(free_at_start, 0, 0, CONTEXT, NOBODY);
}

// The same where nobody looks ahead, as in the recorder, with a second reading during the call.
TEST(its_event_corrects_the_readings_before) {
    start();
    now_ns += 101 * MS;
    ask_nvml(free_at_start - LARGE, CONTEXT + LARGE);
    now_ns += 50 * MS;
    read_free(free_at_start - LARGE - 92 * MIB); // and a module was loaded
    now_ns += MS;
    allocate(1, PTR, LARGE, 152 * MS);
    is_split_but(92 * MIB, free_at_start - LARGE - 92 * MIB, LARGE, 0, CONTEXT, NOBODY);
}

TEST(a_reading_before_the_memory_was_taken_counts) {
    start();
    now_ns += 151 * MS;
    ask_nvml_during(free_at_start, CONTEXT, LARGE);
    is_split(free_at_start, 0, 0, CONTEXT, NOBODY);
    now_ns += MS;
    allocate(1, PTR, LARGE, 152 * MS);
    is_split(free_at_start - LARGE, LARGE, 0, CONTEXT, NOBODY);
}

TEST(a_free_under_way_is_not_untracked) {
    start();
    allocate(1, PTR, LARGE, 2000);
    read_free(free_at_start - LARGE);
    release(1, PTR);
    now_ns += MS;
    ask_nvml(free_at_start - LARGE, CONTEXT + LARGE);
    is_split(free_at_start - LARGE, 0, LARGE, CONTEXT, NOBODY);
    now_ns += MS;
    allocate(1, PTR + LARGE, 2 * MIB, 2000);
    is_split(free_at_start - 2 * MIB, 2 * MIB, 0, CONTEXT, NOBODY);
    ask_nvml(free_at_start - LARGE, CONTEXT + LARGE); // the free has returned
    is_split(free_at_start - LARGE, 2 * MIB, 0, CONTEXT + LARGE - 2 * MIB, NOBODY);
}

TEST(calls_explain_their_size_at_most) {
    start();
    ask_nvml_during(free_at_start - 100 * MIB, CONTEXT + 100 * MIB, 60 * MIB);
    is_split(free_at_start - 100 * MIB, 0, 60 * MIB, CONTEXT + 40 * MIB, NOBODY);
    ask_nvml_during(free_at_start - 700 * MIB, CONTEXT + 40 * MIB, 60 * MIB); // others grow
    is_split(free_at_start - 700 * MIB, 0, 60 * MIB, CONTEXT + 40 * MIB, NOBODY + 600 * MIB);
}

// The failed allocation's own reading is shown as it was read.
TEST(a_failure_beside_another_allocation) {
    start();
    fail_to_allocate(1, TOTAL, free_at_start - LARGE, LARGE);
    is_split(free_at_start - LARGE, 0, LARGE, CONTEXT, NOBODY);
    memset(&readings, 0, sizeof readings); // the first reading of all
    fail_to_allocate(1, TOTAL, free_at_start - LARGE, LARGE);
    const struct ct_breakdown s = ct_readings_breakdown(&readings, &live, 0);
    assert_int_equal(s.free, free_at_start - LARGE);
    assert_int_equal(s.in_flight, LARGE);
    assert_int_equal(s.unexplained, CONTEXT + NOBODY);
}

TEST(a_first_reading_during_a_call_says_nothing) {
    ask_nvml_during(free_at_start - LARGE, CONTEXT + LARGE, LARGE);
    assert_false(ct_readings_breakdown(&readings, &live, 0).used_known);
    assert_false(ct_readings_breakdown(&readings, &live, 0).split_known);
}

// ---- baselines and pools ------------------------------------------------------------------------

TEST(nvml_counts_from_the_total_of_cuda) {
    readings.device[0].cuda_total = TOTAL;
    ask_nvml(free_at_start, CONTEXT);
    is_split(free_at_start, 0, 0, CONTEXT, NOBODY);
}

// Events 2 to 6 of malloc-async.zst: the pool has 32 MiB for 4 bytes.
TEST(the_reserve_of_a_pool_is_tracked_and_idle) {
    struct ct_event sample = {.op = CT_OP_POOL_SAMPLE}, e = {.op = CT_OP_ALLOC};
    start();
    CT_SET(&sample, pool, 77);
    CT_SET(&sample, reserved_bytes, 32 * MIB);
    apply(&sample, 1, 0);
    CT_SET(&e, ptr, PTR);
    CT_SET(&e, bytes, 4);
    CT_SET(&e, pool, 77);
    CT_SET(&e, space, CT_SPACE_DEVICE);
    CT_SET(&e, flags, CT_FLAG_ASYNC);
    apply(&e, 1, 0);
    is_split(free_at_start - 32 * MIB, 32 * MIB, 0, CONTEXT, NOBODY);
    assert_int_equal(ct_readings_breakdown(&readings, &live, 0).pool_idle, 32 * MIB - 4);
}
