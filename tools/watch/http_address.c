// SPDX-License-Identifier: Apache-2.0
#include "watch/http_address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKLOG = 128 };

static int is_port(const char *text) {
    const size_t n = strlen(text);
    return n && n <= 5 && strspn(text, "0123456789") == n && strtoul(text, NULL, 10) <= 65535;
}

// Sets the host. Returns the port, or NULL: it is no address.
static const char *parse(struct ct_http_address *a, const char *text) {
    const char *colon = strrchr(text, ':'), *host = text;
    size_t n = colon ? (size_t)(colon - text) : 0;
    const char *port = colon ? colon + 1 : text;
    if (!is_port(port) || n >= sizeof a->host)
        return NULL;
    if (!colon) {
        (void)snprintf(a->host, sizeof a->host, "127.0.0.1");
        return port;
    }
    if (*host == '[') {
        if (n < 3 || host[n - 1] != ']')
            return NULL;
        host++;
        n -= 2;
    } else if (memchr(host, ':', n)) {
        return NULL; // an address of IPv6 needs brackets, else its end could be the port
    }
    memcpy(a->host, host, n);
    a->host[n] = 0;
    return port;
}

static int is_loopback_4(uint32_t address) {
    return ntohl(address) >> 24 == 127;
}

static int is_loopback(const struct sockaddr *a) {
    if (a->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, a, sizeof in);
        return is_loopback_4(in.sin_addr.s_addr);
    }
    struct sockaddr_in6 in6;
    memcpy(&in6, a, sizeof in6);
    uint32_t mapped;
    memcpy(&mapped, in6.sin6_addr.s6_addr + 12, sizeof mapped);
    return IN6_IS_ADDR_LOOPBACK(&in6.sin6_addr) ||
           (IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr) && is_loopback_4(mapped));
}

static void read_text(struct ct_http_address *a) {
    struct sockaddr_storage at = {.ss_family = AF_UNSPEC};
    socklen_t n = sizeof at;
    char host[64] = "", port[8] = "";
    (void)getsockname(a->listener, (struct sockaddr *)&at, &n);
    (void)getnameinfo((struct sockaddr *)&at, n, host, sizeof host, port, sizeof port,
                      NI_NUMERICHOST | NI_NUMERICSERV);
    (void)snprintf(a->text, sizeof a->text, at.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host,
                   port);
}

static enum ct_http_listen fail(struct ct_http_address *a, enum ct_http_listen result,
                                const char *why) {
    (void)snprintf(a->why, sizeof a->why, "%s", why);
    return result;
}

static enum ct_http_listen listen_at(struct ct_http_address *a, const struct addrinfo *at) {
    const int one = 1;
    const int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return fail(a, CT_HTTP_CANNOT_LISTEN, strerror(errno));
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, at->ai_addr, at->ai_addrlen) || listen(fd, BACKLOG)) {
        const int error = errno;
        close(fd);
        return fail(a, CT_HTTP_CANNOT_LISTEN, strerror(error));
    }
    a->listener = fd;
    read_text(a);
    return CT_HTTP_LISTENS;
}

// The first address of a name that can be listened at; none, if one of them is public and must not
// be.
static enum ct_http_listen listen_at_any(struct ct_http_address *a, const struct addrinfo *all,
                                         int may_be_public) {
    enum ct_http_listen result = CT_HTTP_CANNOT_LISTEN;
    for (const struct addrinfo *at = all; at; at = at->ai_next)
        if (!may_be_public && !is_loopback(at->ai_addr))
            return fail(a, CT_HTTP_PUBLIC, "other machines can reach this address");
    for (const struct addrinfo *at = all; at && result != CT_HTTP_LISTENS; at = at->ai_next)
        result = listen_at(a, at);
    return result;
}

enum ct_http_listen ct_http_address_listen(struct ct_http_address *a, const char *text,
                                           int may_be_public) {
    struct addrinfo *all = NULL;
    const struct addrinfo hints = {
        .ai_socktype = SOCK_STREAM, .ai_family = AF_UNSPEC, .ai_flags = AI_PASSIVE};
    *a = (struct ct_http_address){.listener = -1};
    const char *port = parse(a, text);
    if (!port)
        return fail(a, CT_HTTP_WRONG_ADDRESS, "needs PORT or HOST:PORT");
    const int error = getaddrinfo(*a->host ? a->host : NULL, port, &hints, &all);
    if (error)
        return fail(a, CT_HTTP_CANNOT_LISTEN, gai_strerror(error));
    const enum ct_http_listen result = listen_at_any(a, all, may_be_public);
    freeaddrinfo(all);
    return result;
}

static int is_number(const char *host) {
    unsigned char address[sizeof(struct in6_addr)];
    char inner[INET6_ADDRSTRLEN];
    const size_t n = strlen(host);
    if (inet_pton(AF_INET, host, address) == 1)
        return 1;
    if (*host != '[' || host[n - 1] != ']' || n - 2 >= sizeof inner)
        return 0;
    (void)snprintf(inner, sizeof inner, "%.*s", (int)(n - 2), host + 1);
    return inet_pton(AF_INET6, inner, address) == 1;
}

int ct_http_address_has_name(const struct ct_http_address *a, const char *host) {
    return !*host || strcasecmp(host, "localhost") == 0 || strcasecmp(host, a->host) == 0 ||
           is_number(host);
}
