// SPDX-License-Identifier: Apache-2.0
// The names of threads in the trace, from /proc.
#include "write/thread_name.h"

#include <string.h>

#include "base/options.h"
#include "base/print.h"
#include "base/read_file.h"

size_t ct_thread_name_read(const struct ct_journal_thread *t, char *name, size_t size) {
    char path[64];
    if (CT_OPTION_NUMBER(PRIVATE))
        return 0;
    ct_print(path, sizeof path, "/proc/self/task/%u/comm", t->tid);
    size_t n = ct_read_file(path, name, size);
    if (n && name[n - 1] == '\n')
        n--;
    if (!n) {
        n = strnlen(t->name, sizeof t->name);
        memcpy(name, t->name, n);
    }
    return n;
}
