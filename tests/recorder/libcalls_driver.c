// SPDX-License-Identifier: Apache-2.0
// A library of which a function calls the driver: test_facts.py installs it in a package.
#include <cuda.h>
#include <stddef.h>

#include <dlfcn.h>

int take_memory(size_t bytes);

int take_memory(size_t bytes) {
    CUdeviceptr p;
    CUresult (*alloc)(CUdeviceptr *, size_t);
    void *symbol = dlsym(RTLD_DEFAULT, "cuMemAlloc_v2");
    if (!symbol)
        symbol = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemAlloc_v2");
    *(void **)&alloc = symbol;
    const CUresult rc = alloc(&p, bytes);
    return (int)rc; // (no tail call: this frame is to be on the stack)
}
