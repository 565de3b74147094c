// SPDX-License-Identifier: Apache-2.0
// Prints a line on stderr after the driver ran out of memory. The drain notes the event and prints
// when all events are out of the rings, so that the line shows what the process held.
#include "write/oom_notice.h"

#include <string.h>

#include <cutrace/format/assert.h>

#include "base/options.h"
#include "base/print.h"
#include "store/name_table.h"
#include "store/trace_file.h"
#include "write/dictionary.h"
#include "write/drain_lock.h"
#include "write/live_state.h"
#include "write/nvml.h"
#include "write/oom_message.h"
#include "write/symbolizer.h"

#define UNKNOWN UINT64_MAX
#define REPEAT_NS UINT64_C(60000000000)

static struct {
    struct ct_event event; // no operation: none is remembered
    uint64_t printed_ns;   // time of the newest event that was printed; 0: none
} notice;

void ct_oom_notice_note(const struct ct_event *e) {
    CT_ASSERT(ct_drain_lock_is_held());
    const int may_print = !notice.printed_ns || e->t_ns - notice.printed_ns > REPEAT_NS;
    if (!notice.event.op && may_print)
        notice.event = *e;
}

static void find_caller(uint32_t stack, char *caller, size_t size) {
    ct_symbolizer_resolve_caller(stack);
    ct_dictionary_format_caller(stack, caller, size);
}

// What a request asks for that the device does not have to have; NULL: memory of the device.
static const char *name_memory(const struct ct_event *e) {
    if (e->op == CT_OP_RESERVE)
        return "address space";
    if (e->op == CT_OP_REGISTER || (CT_HAS(e, space) && e->space == CT_SPACE_HOST))
        return "page-locked host memory";
    return NULL;
}

static void print(const struct ct_event *e) {
    char caller[200] = "", line[2048];
    const int device = CT_HAS(e, device) ? e->device : -1;
    if (CT_HAS(e, stack))
        find_caller(e->stack, caller, sizeof caller);
    const struct ct_oom oom = {
        .device = device,
        .bytes = ct_event_has_requested_bytes(e) ? e->bytes : UNKNOWN,
        .free = CT_HAS(e, free_bytes) ? e->free_bytes : UNKNOWN,
        .total = CT_HAS(e, total_bytes) ? e->total_bytes : ct_nvml_get_total_bytes(device),
        .tracked = device >= 0 ? ct_live_state_get_tracked_bytes(device) : UNKNOWN,
        .process = ct_live_state_get_process_bytes(device),
        .api = CT_HAS(e, api) ? ct_name_get_text(e->api) : NULL,
        .caller = caller,
        .path = ct_trace_file_get_path(),
        .memory = name_memory(e),
    };
    ct_oom_message_format(&oom, line, sizeof line);
    ct_print_stderr(line);
}

void ct_oom_notice_print(void) {
    CT_ASSERT(ct_drain_lock_is_held());
    if (!notice.event.op)
        return;
    notice.printed_ns = notice.event.t_ns;
    if (!CT_OPTION_NUMBER(QUIET))
        print(&notice.event);
    notice.event.op = 0;
}

void ct_oom_notice_reinit_child(void) {
    memset(&notice, 0, sizeof notice);
}
