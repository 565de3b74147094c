// SPDX-License-Identifier: Apache-2.0
// Which of the two formats of metrics a client wants, by its field Accept (RFC 9110, 12.5.1).
#ifndef CT_WATCH_HTTP_ACCEPT_H
#define CT_WATCH_HTTP_ACCEPT_H

// Weights are thousandths; the most of each kind.
struct ct_http_accept {
    unsigned openmetrics; // asked for by its name
    unsigned text;        // text/plain, or whatever there is
};

void ct_http_accept_add(struct ct_http_accept *a, const char *value);
// Only who names it gets it, and not who would rather have the older text.
int ct_http_accept_is_openmetrics(const struct ct_http_accept *a);

#endif
