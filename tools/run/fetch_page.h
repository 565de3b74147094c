// SPDX-License-Identifier: Apache-2.0
// Fetches a page by the program curl, which people who run servers have: no library of HTTP is
// linked.
#ifndef CT_FETCH_PAGE_H
#define CT_FETCH_PAGE_H

#include <stddef.h>

enum ct_fetch_result {
    CT_FETCHED,
    CT_FETCH_FAILED,  // `why` says what curl says
    CT_FETCH_STOPPED, // a signal came
    CT_FETCH_NO_CURL,
};

struct ct_fetch {
    const char *url;
    unsigned seconds; // curl gives up then
    int signals;      // a descriptor that can be read when a signal has come
    void (*take)(void *cookie, const char *bytes, size_t n); // is given the page, part by part
    void *cookie;
    char why[80];
};

// Fetches the page whole, in at most `seconds` and a moment. What was taken before a failure is to
// be dropped. Blocked signals stay blocked for this program only.
enum ct_fetch_result ct_fetch_page(struct ct_fetch *f);

#endif
