// SPDX-License-Identifier: Apache-2.0
#include "watch/keeper.h"

#include <stdarg.h>
#include <string.h>

#include "base/hash.h"
#include "base/utf8.h"

enum { LINE = 8192 };

static int is_new(struct ct_told *t, const char *line) {
    const uint64_t hash = ct_hash_bytes(line, strlen(line));
    const size_t n = t->count < CT_TOLD_MOST ? t->count : CT_TOLD_MOST;
    for (size_t i = 0; i < n; i++)
        if (t->once[i] == hash)
            return 0;
    t->once[t->count++ % CT_TOLD_MOST] = hash;
    return 1;
}

// At once: what a pod's log lacks when the container is stopped was never told.
static void print(const struct ct_told *t, const char *line) {
    ct_utf8_print_sanitized(t->out, line, strlen(line));
    (void)fputc('\n', t->out);
    (void)fflush(t->out);
}

void ct_told_print(struct ct_told *t, const char *format, ...) {
    char line[LINE];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    print(t, line);
}

void ct_told_print_once(struct ct_told *t, const char *format, ...) {
    char line[LINE];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (is_new(t, line))
        print(t, line);
}
