// SPDX-License-Identifier: Apache-2.0
#include "export/output.h"

#include "base/heap.h"

enum { BUFFER = 1 << 16 };

// After the first failure the file is closed, and nothing more is written.
static ssize_t write_bytes(void *cookie, const char *bytes, size_t n) {
    struct ct_new_file *file = cookie;
    return file->fd < 0 || ct_new_file_write(file, bytes, n) ? 0 : (ssize_t)n;
}

FILE *ct_output_open(struct ct_new_file *file) {
    FILE *out = fopencookie(file, "w", (cookie_io_functions_t){.write = write_bytes});
    if (!out)
        ct_heap_exhausted();
    (void)setvbuf(out, NULL, _IOFBF, BUFFER);
    return out;
}
