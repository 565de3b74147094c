// SPDX-License-Identifier: Apache-2.0
// What a traced program finds in its environment: LD_PRELOAD, the injection of NVTX and of the
// driver, CUTRACE_*.
#ifndef CT_PRELOAD_H
#define CT_PRELOAD_H

// The folder of this program, without a slash at its end; NULL: errno says why not.
const char *ct_preload_own_folder(void);
// The absolute path of libcutrace.so: beside this program, or where `make install` puts it. NULL:
// it is nowhere. Allocated.
char *ct_preload_find_library(void);
// Whether LD_PRELOAD can hold the path: blanks and colons separate its entries.
int ct_preload_can_hold(const char *library);

struct ct_preload {
    const char *library;
    const char *output;     // of --output, or NULL
    const char *trace_list; // the file that traces are listed in, or NULL
    int quiet, inject;
};
// Sets the variables in this process. Returns 0, or -1: errno says why not.
int ct_preload_set_environment(const struct ct_preload *p);

#endif
