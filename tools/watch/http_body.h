// SPDX-License-Identifier: Apache-2.0
// What an answer says: it is made once, and sent to many clients, each at its own pace.
#ifndef CT_WATCH_HTTP_BODY_H
#define CT_WATCH_HTTP_BODY_H

#include <stdatomic.h>
#include <stddef.h>

struct ct_http_body {
    atomic_uint users;
    int status;
    const char *type; // Content-Type
    char *bytes;
    size_t size;
};

// The first user is the caller. Takes the bytes, which are on the heap.
struct ct_http_body *ct_http_body_new(int status, const char *type, char *bytes, size_t size);
// A line of plain text.
struct ct_http_body *ct_http_body_say(int status, const char *text);
struct ct_http_body *ct_http_body_share(struct ct_http_body *b);
void ct_http_body_release(struct ct_http_body *b); // NULL: nothing

#endif
