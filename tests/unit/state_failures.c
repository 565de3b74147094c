// SPDX-License-Identifier: Apache-2.0
// Which events are failed requests for memory, against a table written by hand from FORMAT.md.

#include "../lib/unit.h"

#include <cutrace/model/failures.h>

enum { OOM = 2, NO_CONTEXT = 201 };

static const struct {
    enum ct_op op;
    enum ct_request_kind kind;
    int fails_for_any_reason;
} rows[] = {
    {CT_OP_AMEND, CT_REQUEST_NONE, 0},
    {CT_OP_ALLOC, CT_REQUEST_SIZED, 1},
    {CT_OP_FREE, CT_REQUEST_NONE, 0},
    {CT_OP_RESERVE, CT_REQUEST_SIZED, 0},
    {CT_OP_UNRESERVE, CT_REQUEST_NONE, 0},
    {CT_OP_CREATE, CT_REQUEST_SIZED, 1},
    {CT_OP_RELEASE, CT_REQUEST_NONE, 0},
    {CT_OP_MAP, CT_REQUEST_SIZED, 0},
    {CT_OP_UNMAP, CT_REQUEST_NONE, 0},
    {CT_OP_REGISTER, CT_REQUEST_SIZED, 0},
    {CT_OP_UNREGISTER, CT_REQUEST_NONE, 0},
    {CT_OP_RETAIN, CT_REQUEST_UNSIZED, 0},
    {CT_OP_EXPORT, CT_REQUEST_UNSIZED, 0},
    {CT_OP_ACCESS, CT_REQUEST_UNSIZED, 0},
    {CT_OP_GRAPH_ALLOC, CT_REQUEST_SIZED, 1},
    {CT_OP_GRAPH_FREE, CT_REQUEST_NONE, 0},
    {CT_OP_POOL_CREATE, CT_REQUEST_UNSIZED, 0},
    {CT_OP_POOL_DESTROY, CT_REQUEST_NONE, 0},
    {CT_OP_POOL_TRIM, CT_REQUEST_NONE, 0},
    {CT_OP_POOL_SAMPLE, CT_REQUEST_NONE, 0},
    {CT_OP_IPC_OPEN, CT_REQUEST_UNSIZED, 0},
    {CT_OP_IPC_CLOSE, CT_REQUEST_NONE, 0},
    {CT_OP_IMPORT, CT_REQUEST_UNSIZED, 0},
    {CT_OP_CONTEXT_CREATE, CT_REQUEST_UNSIZED, 0},
    {CT_OP_CONTEXT_DESTROY, CT_REQUEST_NONE, 0},
    {CT_OP_MODULE_LOAD, CT_REQUEST_UNSIZED, 0},
    {CT_OP_MODULE_UNLOAD, CT_REQUEST_NONE, 0},
    {CT_OP_LIMIT, CT_REQUEST_UNSIZED, 0},
    {CT_OP_MEMORY_SAMPLE, CT_REQUEST_UNSIZED, 0},
    {CT_OP_LOST, CT_REQUEST_NONE, 0},
    {CT_OP_NOTE, CT_REQUEST_NONE, 0},
    {CT_OP_BLOCK_ALLOC, CT_REQUEST_SIZED, 0},
    {CT_OP_BLOCK_FREE, CT_REQUEST_NONE, 0},
    {CT_OP_MARK, CT_REQUEST_NONE, 0},
    {CT_OP_RANGE_PUSH, CT_REQUEST_NONE, 0},
    {CT_OP_RANGE_POP, CT_REQUEST_NONE, 0},
    {CT_OP_RANGE_START, CT_REQUEST_NONE, 0},
    {CT_OP_RANGE_END, CT_REQUEST_NONE, 0},
    {CT_OP_SUBALLOC, CT_REQUEST_NONE, 0},
    {CT_OP_SUBFREE, CT_REQUEST_NONE, 0},
    {CT_OP_PROCESS, CT_REQUEST_NONE, 0},
    {CT_OP_SUBPOOL, CT_REQUEST_NONE, 0},
    {CT_OP_SUBNAME, CT_REQUEST_NONE, 0},
    {CT_OP_PROCESS_GONE, CT_REQUEST_NONE, 0},
    {CT_OP_HOST_SAMPLE, CT_REQUEST_NONE, 0},
};

static struct ct_event event_of(uint32_t op, int32_t result) {
    struct ct_event e = {.present = 0};
    CT_SET(&e, op, op);
    CT_SET(&e, result, result);
    CT_SET(&e, bytes, 4096);
    return e;
}

TEST(by_operation) {
    uint64_t seen = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const uint32_t op = rows[i].op;
        const int takes = rows[i].kind != CT_REQUEST_NONE;
        const struct ct_event fine = event_of(op, 0), oom = event_of(op, OOM),
                              other = event_of(op, NO_CONTEXT);
        seen |= UINT64_C(1) << op;
        assert_false(ct_event_is_oom(&fine) || ct_event_is_failed_allocation(&fine));
        assert_int_equal(ct_event_is_oom(&oom), takes);
        assert_int_equal(ct_event_reports_oom(&oom), takes);
        assert_int_equal(ct_event_is_failed_allocation(&oom), takes);
        assert_false(ct_event_is_oom(&other));
        assert_int_equal(ct_event_is_failed_allocation(&other), rows[i].fails_for_any_reason);
        assert_int_equal(ct_event_has_requested_bytes(&oom), rows[i].kind == CT_REQUEST_SIZED);
    }
    // All operations but PyTorch's report; a new one needs a row.
    assert_int_equal(seen | UINT64_C(1) << CT_OP_BLOCK_OOM, (UINT64_C(1) << CT_OPS_END) - 2);
}

TEST(pytorchs_report) {
    struct ct_event e = {.present = 0};
    CT_SET(&e, op, CT_OP_BLOCK_OOM);
    assert_true(ct_event_is_failed_allocation(&e) && ct_event_reports_oom(&e));
    assert_false(ct_event_is_oom(&e)); // it is no call
}

TEST(nothing_known) {
    struct ct_event e = {.present = 0};
    CT_SET(&e, op, CT_OP_MEMORY_SAMPLE); // a plain sample
    assert_false(ct_event_is_failed_allocation(&e) || ct_event_reports_oom(&e));
    CT_SET(&e, op, 4000); // of a later version
    CT_SET(&e, result, OOM);
    assert_false(ct_event_is_failed_allocation(&e) || ct_event_reports_oom(&e));
}
