// SPDX-License-Identifier: Apache-2.0
// Registers with the recorder what it asks the hooks for: their facts for the INFO section, a look
// for libc10 when objects were loaded, and whether it is told of OOMs.
#define _GNU_SOURCE
#include "intercept/audit.h"
#include "intercept/bindings.h"
#include "intercept/cupti.h"
#include "intercept/load_way.h"
#include "intercept/resolve.h"
#include "intercept/torch.h"
#include "intercept/wrappers.h"
#include "record/rescan.h"
#include "record/survey.h"
#include "write/info_table.h"
#include "write/oom_notice.h"

static void publish_info(void) {
    ct_call_counts_publish_info();
    ct_resolve_publish_info();
    ct_libc10_publish_info();
    ct_load_way_publish_info();
    ct_cupti_publish_info();
    ct_audit_publish_info();
    ct_survey_publish_info();
}

static void rescan(void) {
    ct_libc10_rescan();
    ct_torch_streams_rescan();
    ct_cupti_rescan();
}

__attribute__((constructor)) static void register_callbacks(void) {
    (void)ct_info_add_source(publish_info);
    ct_rescan_set(rescan);
    ct_survey_set(ct_bindings_look);
    ct_oom_notice_set_reporter(ct_libc10_reports_oom);
}
