// SPDX-License-Identifier: Apache-2.0
#include "watch/http_body.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"

struct ct_http_body *ct_http_body_new(int status, const char *type, char *bytes, size_t size) {
    struct ct_http_body *b = ct_heap_alloc_zeroed(1, sizeof *b);
    atomic_init(&b->users, 1);
    b->status = status;
    b->type = type;
    b->bytes = bytes;
    b->size = size;
    return b;
}

struct ct_http_body *ct_http_body_say(int status, const char *text) {
    const size_t n = strlen(text);
    char *bytes = ct_heap_resize(NULL, n + 2, 1);
    (void)snprintf(bytes, n + 2, "%s\n", text);
    return ct_http_body_new(status, "text/plain; charset=utf-8", bytes, n + 1);
}

struct ct_http_body *ct_http_body_share(struct ct_http_body *b) {
    atomic_fetch_add(&b->users, 1);
    return b;
}

void ct_http_body_release(struct ct_http_body *b) {
    if (!b || atomic_fetch_sub(&b->users, 1) != 1)
        return;
    free(b->bytes);
    free(b);
}
