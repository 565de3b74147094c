// SPDX-License-Identifier: Apache-2.0
// Where the server listens: "9464" and "localhost:9464" on this machine alone, "HOST:PORT",
// "[::1]:9464", ":9464" (everywhere). Port 0 is any that is free.
#ifndef CT_WATCH_HTTP_ADDRESS_H
#define CT_WATCH_HTTP_ADDRESS_H

#include <stddef.h>

enum ct_http_listen {
    CT_HTTP_LISTENS,
    CT_HTTP_WRONG_ADDRESS, // it is none
    CT_HTTP_PUBLIC,        // other machines could reach it, which was not allowed
    CT_HTTP_CANNOT_LISTEN,
};

struct ct_http_address {
    int listener;
    char text[80]; // where it listens, as in a URL: "127.0.0.1:9464"
    char why[160]; // why it does not
};

enum ct_http_listen ct_http_address_listen(struct ct_http_address *a, const char *text,
                                           int may_be_public);

#endif
