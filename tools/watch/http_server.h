// SPDX-License-Identifier: Apache-2.0
// A small HTTP/1.1 server: GET and HEAD, a few fixed paths, no TLS. One thread, which never waits
// for a client: sockets do not block, and a client that is slow, silent or sends rubbish costs a
// place among CT_HTTP_CLIENTS for a bounded time. When all places or all descriptors are taken, the
// client that has been silent for the longest time loses its place. It is no library's: Debian's
// libmicrohttpd.a needs GnuTLS, and libevent's evhttp has 219 KiB of code for these 9 (`size` of a
// server of ten lines, 2.1.12), asks glibc 2.36 for arc4random, where cutrace runs with 2.28, and
// has no bound on clients.
#ifndef CT_WATCH_HTTP_SERVER_H
#define CT_WATCH_HTTP_SERVER_H

#include <poll.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "watch/http_request.h"

enum { CT_HTTP_CLIENTS = 128, CT_HTTP_POLLED = CT_HTTP_CLIENTS + 1 };

// Times on CLOCK_MONOTONIC.
#define CT_HTTP_REQUEST_NS UINT64_C(10000000000) // a request must be complete within
#define CT_HTTP_ANSWER_NS UINT64_C(30000000000)  // an answer must have been taken within
#define CT_HTTP_IDLE_NS UINT64_C(150000000000)   // between two requests of one connection

// What an answer says: it is made once, and sent to many clients, each at its own pace.
struct ct_http_body {
    atomic_uint users;
    int status;
    const char *type; // Content-Type
    char *bytes;
    size_t size;
};

struct ct_http_client;

struct ct_http_server {
    int listener;
    // Returns the answer to a request, which the server releases.
    struct ct_http_body *(*answer)(void *user, const struct ct_http_request *r);
    void *user;
    struct ct_http_client *clients;
    int places;         // for clients, at most CT_HTTP_CLIENTS
    uint64_t rest_ns;   // no client is accepted until then: there are no descriptors
    unsigned polled;    // how many entries are polled for
    int polls_listener; // the last entry is the listener
};

// The first user is the caller. Takes the bytes, which are on the heap.
struct ct_http_body *ct_http_body_new(int status, const char *type, char *bytes, size_t size);
// A line of plain text.
struct ct_http_body *ct_http_body_say(int status, const char *text);
struct ct_http_body *ct_http_body_share(struct ct_http_body *b);
void ct_http_body_release(struct ct_http_body *b); // NULL: nothing

// `listener`: a socket that listens and does not block; it is taken over.
void ct_http_server_begin(struct ct_http_server *s, int listener);
// Fills in what to poll for, at most CT_HTTP_POLLED entries, none without a descriptor: poll takes
// no more entries than a process may have descriptors. Returns how many; `until_ns` is the next
// deadline, UINT64_MAX: there is none.
unsigned ct_http_server_prepare(struct ct_http_server *s, struct pollfd *to, uint64_t *until_ns);
// Goes on where poll said so, and closes what is over its time.
void ct_http_server_serve(struct ct_http_server *s, const struct pollfd *polled);
void ct_http_server_end(struct ct_http_server *s);

// ---- where it listens ---------------------------------------------------------------------------

// "9464" and "localhost:9464" on this machine alone, "HOST:PORT", "[::1]:9464", ":9464"
// (everywhere). Port 0 is any that is free.

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
