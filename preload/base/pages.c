// SPDX-License-Identifier: Apache-2.0
// Memory of the recorder: its own mappings, never the host's heap.
#define _GNU_SOURCE
#include "base/pages.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

void *ct_pages_map(size_t bytes) {
    const int saved = errno;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    if (p == MAP_FAILED)
        p = NULL;
    else // a huge page would make a sparse table cost 2 MiB for each entry
        (void)madvise(p, bytes, MADV_NOHUGEPAGE);
    errno = saved;
    return p;
}

void ct_pages_unmap(void *pages, size_t bytes) {
    const int saved = errno;
    if (pages)
        (void)munmap(pages, bytes);
    errno = saved;
}

void ct_pages_discard(void *pages, size_t bytes) {
    const int saved = errno;
    (void)madvise(pages, bytes, MADV_DONTNEED);
    errno = saved;
}

void *ct_pages_wiped_on_fork(void) {
    const int saved = errno;
    const size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    void *page = ct_pages_map(bytes);
    if (page && madvise(page, bytes, MADV_WIPEONFORK)) {
        ct_pages_unmap(page, bytes);
        page = NULL;
    }
    errno = saved;
    return page;
}
