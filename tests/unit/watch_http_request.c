// SPDX-License-Identifier: Apache-2.0
// Heads of HTTP requests, in heap buffers of exactly their size, so that a sanitizer sees each byte
// that is read beyond them. What a head means is written down here by RFC 9112.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../lib/draw.h"
#include "../lib/unit.h"
#include "watch/http_request.h"

enum { MUTATIONS = 200000, MOST = 400 };

static const struct {
    const char *head;
    int status;
    enum ct_http_method method;
    const char *path;
    int wants_openmetrics, keeps_open;
} heads[] = {
    {"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", 0, CT_HTTP_GET, "/metrics", 0, 1},
    {"GET /metrics HTTP/1.1\nHost: a\n\n", 0, CT_HTTP_GET, "/metrics", 0, 1},
    {"\r\n\r\nHEAD / HTTP/1.1\r\nhost:a\r\n\r\n", 0, CT_HTTP_HEAD_ONLY, "/", 0, 1},
    {"POST /x?y=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n", 0, CT_HTTP_OTHER, "/x", 0, 0},
    {"GET /x HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", 0, CT_HTTP_GET, "/x", 0, 1},
    {"GET /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", 0, CT_HTTP_GET, "/x", 0,
     0},
    {"GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 0, CT_HTTP_GET, "/x", 0, 0},
    {"GET /x HTTP/1.0\r\n\r\n", 0, CT_HTTP_GET, "/x", 0, 0},
    {"GET /x HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", 0, CT_HTTP_GET, "/x", 0, 1},
    {"GET http://h:1/m?x#y HTTP/1.1\r\nHost: a\r\n\r\n", 0, CT_HTTP_GET, "/m", 0, 1},
    {"GET / HTTP/1.1\r\nHost: a\r\nAccept: application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.4\r\n\r\n",
     0, CT_HTTP_GET, "/", 1, 1},
    {"GET / HTTP/1.1\r\nHost: a\r\nAccept: application/openmetrics-text;q=0.3,text/plain;q=0.4\r\n\r\n",
     0, CT_HTTP_GET, "/", 0, 1},
    {"GET / HTTP/1.1\r\nHost: a\r\nAccept: application/openmetrics-text\r\n\r\n", 0, CT_HTTP_GET,
     "/", 1, 1},
    {"GET / HTTP/1.1\r\n\r\n", 400, CT_HTTP_OTHER, NULL, 0, 0},                       // no host
    {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, CT_HTTP_OTHER, NULL, 0, 0}, // two
    {"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400, CT_HTTP_OTHER, NULL, 0, 0}, // a blank in a name
    {"GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", 400, CT_HTTP_OTHER, NULL, 0, 0},
    {"GET / HTTP/1.1\r\nHost: a\x01\r\n\r\n", 400, CT_HTTP_OTHER, NULL, 0, 0},
    {"GET /\r\n\r\n", 400, CT_HTTP_OTHER, NULL, 0, 0}, // HTTP/0.9
    {"GET /\tx HTTP/1.1\r\nHost: a\r\n\r\n", 400, CT_HTTP_OTHER, NULL, 0, 0},
    {"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505, CT_HTTP_OTHER, NULL, 0, 0},
};

// A copy of n bytes that the caller frees, without a byte to spare.
static char *copy(const char *bytes, size_t n) {
    char *to = malloc(n ? n : 1);
    assert_non_null(to);
    memcpy(to, bytes, n);
    return to;
}

static int parse(struct ct_http_request *r, const char *bytes, size_t n) {
    char *head = copy(bytes, n);
    const int status = ct_http_request_parse(r, head, n);
    free(head);
    return status;
}

TEST(test_heads) {
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        struct ct_http_request r;
        assert_int_equal(parse(&r, heads[i].head, strlen(heads[i].head)), heads[i].status);
        if (heads[i].status)
            continue;
        assert_int_equal(r.method, heads[i].method);
        assert_string_equal(r.path, heads[i].path);
        assert_int_equal(r.wants_openmetrics, heads[i].wants_openmetrics);
        assert_int_equal(!!r.keeps_open, heads[i].keeps_open);
    }
}

// What a client calls the server, without a port. What is too long is cut, and so is no name.
TEST(test_hosts) {
    static const char *const hosts[][2] = {
        {"a", "a"},         {"A.b:80", "A.b"},     {" a:1\t", "a"},
        {"[::1]", "[::1]"}, {"[::1]:80", "[::1]"}, {"::1", ""},
        {"[::1", "[::1"},   {"[::1]x", "[::1]x"},  {"", ""},
        {"a b", "a"},       {"u@a:1", "u@a"},      {"a:b:c", "a"},
    };
    char head[CT_HTTP_HOST * 2 + 40], longest[CT_HTTP_HOST * 2];
    struct ct_http_request r;
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        const int n =
            snprintf(head, sizeof head, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", hosts[i][0]);
        assert_int_equal(parse(&r, head, (size_t)n), 0);
        assert_string_equal(r.host, hosts[i][1]);
    }
    memset(longest, 'x', sizeof longest);
    const int n = snprintf(head, sizeof head, "GET / HTTP/1.1\r\nHost: %.*s\r\n\r\n",
                           (int)sizeof longest, longest);
    assert_int_equal(parse(&r, head, (size_t)n), 0);
    assert_int_equal(strlen(r.host), CT_HTTP_HOST - 1);
}

// A head has ended with its empty line, not earlier, whatever follows.
TEST(test_measures) {
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        const size_t whole = strlen(heads[i].head);
        for (size_t n = 0; n <= whole; n++) {
            char *bytes = copy(heads[i].head, n);
            assert_int_equal(ct_http_request_measure(bytes, n), n == whole ? whole : 0);
            free(bytes);
        }
        char more[MOST];
        memcpy(more, heads[i].head, whole);
        memcpy(more + whole, "GET ", 4);
        assert_int_equal(ct_http_request_measure(more, whole + 4), whole);
    }
}

// Some bytes of a head replaced, left out or said twice.
static size_t mutate(char *to, const char *from) {
    size_t n = strlen(from);
    memcpy(to, from, n);
    for (size_t k = draw(4) + 1; k && n > 1; k--) {
        const size_t at = draw(n - 1), length = draw(n - at);
        switch (draw(3)) {
        case 0:
            to[at] = (char)draw(256);
            break;
        case 1:
            memmove(to + at, to + at + length, n - at - length);
            n -= length;
            break;
        default:
            if (n + length > MOST)
                break;
            memmove(to + at + length, to + at, n - at);
            n += length;
        }
    }
    return n;
}

TEST(test_rubbish) {
    for (unsigned i = 0; i < MUTATIONS; i++) {
        char bytes[MOST];
        struct ct_http_request r;
        const size_t n = mutate(bytes, heads[draw(sizeof heads / sizeof *heads)].head);
        char *given = copy(bytes, n);
        const size_t whole = ct_http_request_measure(given, n);
        free(given);
        assert_true(whole <= n);
        if (!whole)
            continue;
        const int status = parse(&r, bytes, whole);
        assert_true(status == 0 || status == 400 || status == 505);
        assert_non_null(memchr(r.path, 0, sizeof r.path));
        for (const char *c = r.path; *c; c++)
            assert_true((unsigned char)*c >= ' ' && *c != 0x7f);
    }
}
