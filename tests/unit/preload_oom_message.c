// SPDX-License-Identifier: Apache-2.0
// The line on stderr about a failed allocation has all known figures and leaves out the unknown
// ones.
#include <string.h>

#include <cutrace/model/oom_message.h>

#include "../lib/unit.h"
#include "base/print.h"

#define GIB(x) ((uint64_t)((x)*1073741824.0))
#define UNKNOWN UINT64_MAX

static const struct ct_oom nothing = CT_OOM_UNKNOWN;

static void is(const struct ct_oom *r, const char *want) {
    char line[2048];
    const size_t n = ct_oom_message_format(r, line, sizeof line, ct_print_va);
    assert_string_equal(line, want);
    assert_int_equal(n, strlen(want));
}

TEST(everything_known) {
    const struct ct_oom r = {.device = 0,
                             .bytes = GIB(2.3),
                             .free = GIB(1.17),
                             .total = GIB(79.15),
                             .tracked = GIB(74.2),
                             .untracked = GIB(2.9),
                             .others = GIB(0.9),
                             .in_flight = 0,
                             .unattributed = 0,
                             .api = "cudaMalloc",
                             .caller = "model_runner",
                             .path = "/x/t.zst"};
    is(&r,
       "cutrace: GPU 0 out of memory: cudaMalloc of 2.30 GiB failed (model_runner): free 1.17 GiB of 79.15 GiB, "
       "this process 74.20 GiB tracked + 2.90 GiB untracked, others 921.60 MiB; run: cutrace-report /x/t.zst\n");
}

// All parts and what is free are the whole device.
TEST(every_part) {
    struct ct_oom r = nothing;
    r.device = 0;
    r.by_pytorch = 1;
    r.bytes = 20 << 20;
    r.free = GIB(1);
    r.total = GIB(24);
    r.tracked = GIB(12);
    r.in_flight = GIB(2);
    r.untracked = GIB(0.5);
    r.others = GIB(3.2);
    r.unattributed = GIB(5.3);
    r.earlier = 37;
    is(&r,
       "cutrace: 38 more failed, the last of them: GPU 0 out of memory: PyTorch's allocation of "
       "20.00 MiB failed: free 1.00 GiB of 24.00 GiB, this process 12.00 GiB tracked + 2.00 GiB in flight "
       "+ 512.00 MiB untracked, others 3.20 GiB, 5.30 GiB untracked or of others\n");
    r.earlier = 0;
    r.untracked = r.others = UNKNOWN; // without NVML
    r.unattributed = GIB(9);
    is(&r,
       "cutrace: GPU 0 out of memory: PyTorch's allocation of 20.00 MiB failed: free 1.00 GiB of "
       "24.00 GiB, this process 12.00 GiB tracked + 2.00 GiB in flight, 9.00 GiB untracked or of others\n");
}

TEST(parts_unknown) {
    is(&nothing, "cutrace: out of memory: allocation of unknown size failed\n");
    struct ct_oom r = nothing;
    r.device = 3;
    r.bytes = 5 << 20;
    r.api = "cuMemCreate";
    is(&r, "cutrace: GPU 3 out of memory: cuMemCreate of 5.00 MiB failed\n");
    r.tracked = GIB(1.5);
    is(&r,
       "cutrace: GPU 3 out of memory: cuMemCreate of 5.00 MiB failed: this process 1.50 GiB tracked\n");
    r.free = GIB(0.5);
    is(&r,
       "cutrace: GPU 3 out of memory: cuMemCreate of 5.00 MiB failed: free 512.00 MiB, this process 1.50 GiB tracked\n");
    r.total = GIB(4);
    is(&r,
       "cutrace: GPU 3 out of memory: cuMemCreate of 5.00 MiB failed: free 512.00 MiB of 4.00 GiB, this process 1.50 GiB tracked\n");
    r = nothing;
    r.bytes = 700;
    r.free = 1 << 20;
    r.total = GIB(8);
    r.path = "t";
    is(&r,
       "cutrace: out of memory: allocation of 700 B failed: free 1.00 MiB of 8.00 GiB; run: cutrace-report t\n");
    r.total = 512 << 20;
    is(&r,
       "cutrace: out of memory: allocation of 700 B failed: free 1.00 MiB of 512.00 MiB; run: cutrace-report t\n");
}

TEST(of_unknown_size) {
    struct ct_oom r = nothing;
    r.device = 1;
    r.api = "cuModuleGetFunction";
    r.caller = "load_kernel";
    r.free = 1 << 20;
    r.total = GIB(8);
    is(&r,
       "cutrace: GPU 1 out of memory: cuModuleGetFunction of unknown size failed (load_kernel): free 1.00 MiB of "
       "8.00 GiB\n");
}

TEST(not_of_the_device) {
    struct ct_oom r = nothing;
    r.device = 1;
    r.api = "cuMemHostRegister_v2";
    r.bytes = GIB(2);
    r.free = r.tracked = GIB(3);
    r.total = GIB(8);
    r.path = "t";
    r.memory = "page-locked host memory";
    is(&r,
       "cutrace: out of memory: cuMemHostRegister_v2 of 2.00 GiB of page-locked host memory failed; run: "
       "cutrace-report t\n");
}

TEST(long_texts_are_cut) {
    char text[5000], line[2048];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = 0;
    struct ct_oom r = nothing;
    r.api = r.caller = r.path = text;
    const size_t n = ct_oom_message_format(&r, line, sizeof line, ct_print_va);
    assert_true(n < sizeof line && line[n - 1] == '\n' && line[n] == 0);
}
