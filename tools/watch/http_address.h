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

enum { CT_HTTP_ADDRESS_HOST = 256 };

struct ct_http_address {
    int listener;
    char host[CT_HTTP_ADDRESS_HOST]; // as --serve names it; "": everywhere
    char text[80];                   // where it listens, as in a URL: "127.0.0.1:9464"
    char why[160];                   // why it does not
};

enum ct_http_listen ct_http_address_listen(struct ct_http_address *a, const char *text,
                                           int may_be_public);

// Whether a client may call the server by this host, the field of its request: by an address, as
// localhost, by the name that was given here, or not at all. Any other name may be one that a web
// page has pointed at this machine, to read through the browser of somebody who may ask the server
// (DNS rebinding).
int ct_http_address_has_name(const struct ct_http_address *a, const char *host);

#endif
