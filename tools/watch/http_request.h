// SPDX-License-Identifier: Apache-2.0
// Reads the head of an HTTP request (RFC 9112): as much of it as a server of a few fixed answers
// needs. It comes from anybody.
#ifndef CT_WATCH_HTTP_REQUEST_H
#define CT_WATCH_HTTP_REQUEST_H

#include <stddef.h>

enum { CT_HTTP_HEAD = 8192, CT_HTTP_HOST = 256 }; // bytes of a head and of a host, at most

enum ct_http_method { CT_HTTP_GET, CT_HTTP_HEAD_ONLY, CT_HTTP_OTHER };

struct ct_http_request {
    enum ct_http_method method;
    char path[64];           // without a query; of a longer one the begin, which is no path of ours
    char host[CT_HTTP_HOST]; // as the client calls the server, without a port; "": it does not
    int wants_openmetrics;
    int keeps_open; // another request may follow
};

// How long the head is that the bytes begin with, with the empty line at its end; 0: it has not
// ended yet.
size_t ct_http_request_measure(const char *bytes, size_t n);
// Reads a whole head, which is changed by it. Returns 0, or the status that answers it: 400, 505.
int ct_http_request_parse(struct ct_http_request *r, char *head, size_t n);

#endif
