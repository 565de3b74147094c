// SPDX-License-Identifier: Apache-2.0
// Looks up driver functions on a machine without the driver.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

static int probe(const char *name) {
    dlerror();
    void *p = dlsym(RTLD_DEFAULT, name), *v = dlvsym(RTLD_DEFAULT, name, "GLIBC_2.2.5");
    const int error = dlerror() != NULL;
    printf("%s: %s %s, error %d\n", name, p ? "found" : "none", v ? "found" : "none", error);
    return p || v;
}

int main(void) {
    void *self = dlopen(NULL, RTLD_NOW), *libc = dlopen("libc.so.6", RTLD_NOW);
    int found = probe("cuInit") + probe("cuMemAlloc_v2") + probe("cuGetProcAddress_v2") +
                probe("cuFoo") + probe("cu") + probe("c") + probe("");
    printf("%p %p\n", dlsym(self, "cuInit"), dlsym(libc, "cuMemFree_v2"));
    // What is found without us is found with us.
    printf("%d %d\n", dlsym(RTLD_DEFAULT, "printf") == (void *)printf,
           dlsym(libc, "dlsym") != NULL);
    printf("%d\n", dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) != NULL);
    return found;
}
