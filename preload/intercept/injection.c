// SPDX-License-Identifier: Apache-2.0
// Begins where the driver loads this library: CUDA_INJECTION64_PATH names it, and cuInit calls
// InitializeInjection. Works without LD_PRELOAD and where the linker hides the program's calls.
//
// Loaded in this way alone, the library's wrappers are not in the way of any call: the symbols are
// bound already. What it records then comes from CUPTI. A tool that was to be loaded before
// (`cutrace run --inject` keeps it in CUTRACE_INJECTION_NEXT) is called first, because CUPTI serves
// one subscriber.
#define _GNU_SOURCE
#include <errno.h>

#include "intercept/cupti.h"
#include "intercept/load_way.h"

#define EXPORTED __attribute__((visibility("default")))

typedef int initialize_injection(void);

// Returns what the other tool returns, else what NVIDIA's sample of an injected library does.
EXPORTED initialize_injection InitializeInjection;
EXPORTED int InitializeInjection(void) {
    const int saved = errno;
    initialize_injection *const next = (initialize_injection *)ct_load_way_find_next(
        "CUTRACE_INJECTION_NEXT", "InitializeInjection");
    const int r = next && next != InitializeInjection ? next() : 1;
    ct_load_way_note_injection();
    ct_cupti_start();
    errno = saved;
    return r;
}
