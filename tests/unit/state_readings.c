// SPDX-License-Identifier: Apache-2.0
// Which memory left "free": figures of an H100 (tests/gpu/results, driver 580), and of a device
// that two processes share.
#include "state_model.h"

#include <cutrace/model/live.h>
#include <cutrace/model/readings.h>

#define MIB (UINT64_C(1) << 20)
#define TOTAL (81079 * MIB)      // of cuMemGetInfo
#define NVML_TOTAL (81559 * MIB) // with what the driver keeps for itself
#define CONTEXT (518 * MIB)      // by NVML
#define NOBODY 9240576           // of a context, and of no process by NVML

static struct ct_readings readings;
static struct ct_live live; // nothing is tracked

static void read_free(uint64_t free) {
    struct ct_event e = {.op = CT_OP_MEMORY_SAMPLE};
    CT_SET(&e, device, 0);
    CT_SET(&e, free_bytes, free);
    CT_SET(&e, total_bytes, TOTAL);
    ct_readings_apply(&readings, &live, &e);
}

static void ask_nvml(uint64_t free, uint64_t process) {
    struct ct_event e = {.op = CT_OP_MEMORY_SAMPLE};
    CT_SET(&e, device, 0);
    CT_SET(&e, flags, CT_FLAG_NVML);
    CT_SET(&e, free_bytes, free);
    CT_SET(&e, total_bytes, NVML_TOTAL);
    CT_SET(&e, process_bytes, process);
    ct_readings_apply(&readings, &live, &e);
}

static void are(uint64_t untracked, uint64_t others) {
    const struct ct_breakdown s = ct_readings_breakdown(&readings, &live, 0);
    assert_true(s.split_known);
    assert_int_equal(s.untracked, untracked);
    assert_int_equal(s.others, others);
}

static int begin(void **state) {
    (void)state;
    memset(&readings, 0, sizeof readings);
    return 0;
}

// NVML may be asked first; then the total is not CUDA's yet.
static void modules_of_a_process_that_is_alone_are_its_own(void **state) {
    (void)state;
    const uint64_t free = TOTAL - CONTEXT - NOBODY;
    ask_nvml(free, CONTEXT);
    read_free(free);
    are(CONTEXT, NOBODY);
    read_free(free - 92 * MIB);
    are(CONTEXT + 92 * MIB, NOBODY);
    read_free(free - 10 * MIB); // unloaded
    are(CONTEXT + 10 * MIB + NOBODY, 0);
    ask_nvml(free - 10 * MIB, CONTEXT + 10 * MIB);
    are(CONTEXT + 10 * MIB, NOBODY);
}

static void beside_others_nobody_can_say(void **state) {
    (void)state;
    read_free(TOTAL - 4000 * MIB);
    ask_nvml(TOTAL - 4000 * MIB, CONTEXT);
    are(CONTEXT, 4000 * MIB - CONTEXT);
    read_free(TOTAL - 9000 * MIB);
    are(CONTEXT, 9000 * MIB - CONTEXT);
    ask_nvml(TOTAL - 9000 * MIB, CONTEXT + 5000 * MIB);
    are(CONTEXT + 5000 * MIB, 4000 * MIB - CONTEXT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(modules_of_a_process_that_is_alone_are_its_own, begin),
        cmocka_unit_test_setup(beside_others_nobody_can_say, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
