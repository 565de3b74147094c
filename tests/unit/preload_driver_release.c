// SPDX-License-Identifier: Apache-2.0
// The release of NVIDIA's driver in the kernel's text, of drivers as they are, and nothing else of
// it.
#include <string.h>

#include "../lib/unit.h"
#include "write/process_info.h"

static void is(const char *text, const char *want) {
    const char *found = "";
    const size_t n = ct_process_info_find_release(text, strlen(text), &found);
    assert_int_equal(n, strlen(want));
    assert_memory_equal(found, want, n);
}

TEST(real_drivers) {
    is("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023\n"
       "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n",
       "535.129.03");
    is("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  "
       "(me@builder.example.org)  Thu Jun 1\nGCC version:  gcc version 13.3.0\n",
       "580.159.04");
    is("NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  570.86.15  Release Build\n",
       "570.86.15");
    is("NVRM version: NVIDIA UNIX x86_64 Kernel Module  390.157  Wed Oct 12 09:19:07 UTC 2022\n",
       "390.157");
}

TEST(anything_else) {
    is("", "");
    is("NVRM version: unknown\nGCC version:  gcc version 12.2.0\n", "");
    is("5 words 7 without a version", "");
    is("x.next 1.2", "1.2"); // without an end of line
    is("x 111111111122222222223333333333444444444.5 6.7", "6.7");
}
