// SPDX-License-Identifier: Apache-2.0
// Each client is read once and written to once at a turn, so that none is served at the cost of
// others.
#include "watch/http_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/heap.h"
#include "base/now.h"

#define REST_NS UINT64_C(200000000)
#define FAREWELL_NS UINT64_C(1000000000) // for a client to take what was said before the end
enum { FAREWELL_BYTES = 1 << 20, ANSWER_HEAD = 400 };

enum state {
    FREE,
    READING,
    WRITING,
    LEAVING, // all was said; what the client still sends is dropped, lest it lose the answer
};

struct ct_http_client {
    enum state state;
    int fd;
    unsigned polled; // its entry of what is polled for
    char in[CT_HTTP_HEAD];
    size_t in_count;
    char head[ANSWER_HEAD];
    size_t head_size, sent; // of head and body together
    struct ct_http_body *body;
    size_t body_size; // 0: of HEAD, too
    int keeps_open;
    size_t dropped;
    uint64_t deadline_ns, moved_ns; // moved: when something came or went
};

// ---- bodies -------------------------------------------------------------------------------------

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

// ---- the server ---------------------------------------------------------------------------------

// Clients may take half of the descriptors: the looks need some, too.
static int count_places(void) {
    struct rlimit limit;
    const int few = !getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur < 2 * CT_HTTP_CLIENTS;
    return few ? (int)limit.rlim_cur / 2 + 1 : CT_HTTP_CLIENTS;
}

void ct_http_server_begin(struct ct_http_server *s, int listener) {
    s->listener = listener;
    s->places = count_places();
    s->clients = ct_heap_alloc_zeroed((size_t)s->places, sizeof *s->clients);
}

static void close_client(struct ct_http_client *c) {
    ct_http_body_release(c->body);
    c->body = NULL;
    close(c->fd);
    c->state = FREE;
}

void ct_http_server_end(struct ct_http_server *s) {
    for (int i = 0; s->clients && i < s->places; i++)
        if (s->clients[i].state != FREE)
            close_client(&s->clients[i]);
    free(s->clients);
    s->clients = NULL;
    if (s->listener >= 0)
        close(s->listener);
    s->listener = -1;
}

// ---- new clients --------------------------------------------------------------------------------

static struct ct_http_client *find_free(const struct ct_http_server *s) {
    for (int i = 0; i < s->places; i++)
        if (s->clients[i].state == FREE)
            return &s->clients[i];
    return NULL;
}

// Closes the client that has been silent for the longest time. Returns its place, or NULL: there is
// none.
static struct ct_http_client *close_silent(struct ct_http_server *s) {
    struct ct_http_client *longest = NULL;
    for (int i = 0; i < s->places; i++) {
        struct ct_http_client *c = &s->clients[i];
        if (c->state != FREE && (!longest || c->moved_ns < longest->moved_ns))
            longest = c;
    }
    if (longest)
        close_client(longest);
    return longest;
}

static void accept_client(struct ct_http_server *s, uint64_t now) {
    const int fd = accept4(s->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    const int is_full =
        fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM);
    // (a client that waits to be accepted is so at the next turn, by the descriptor that got free)
    if (is_full && !close_silent(s))
        s->rest_ns = now + REST_NS;
    if (fd < 0)
        return;
    struct ct_http_client *c = find_free(s);
    if (!c)
        c = close_silent(s);
    c->state = READING;
    c->fd = fd;
    c->in_count = 0;
    c->deadline_ns = now + CT_HTTP_REQUEST_NS;
    c->moved_ns = now;
}

// ---- answers ------------------------------------------------------------------------------------

static const char *get_reason(int status) {
    static const struct {
        int status;
        const char *reason;
    } reasons[] = {{200, "OK"},
                   {400, "Bad Request"},
                   {404, "Not Found"},
                   {405, "Method Not Allowed"},
                   {421, "Misdirected Request"},
                   {431, "Request Header Fields Too Large"},
                   {503, "Service Unavailable"},
                   {505, "HTTP Version Not Supported"}};
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return "Error";
}

// Takes the body.
static void begin_answer(struct ct_http_client *c, struct ct_http_body *body, int has_body,
                         uint64_t now) {
    const int n = snprintf(c->head, sizeof c->head,
                           "HTTP/1.1 %d %s\r\n"
                           "Content-Type: %s\r\n"
                           "Content-Length: %zu\r\n"
                           "Cache-Control: no-store\r\n"
                           "X-Content-Type-Options: nosniff\r\n"
                           "%s"
                           "Connection: %s\r\n\r\n",
                           body->status, get_reason(body->status), body->type, body->size,
                           body->status == 405 ? "Allow: GET, HEAD\r\n" : "",
                           c->keeps_open ? "keep-alive" : "close");
    c->head_size = (size_t)n;
    c->body = body;
    c->body_size = has_body ? body->size : 0;
    c->sent = 0;
    c->state = WRITING;
    c->deadline_ns = now + CT_HTTP_ANSWER_NS;
}

// Answers the request that the input begins with, if it is complete.
static void take_request(struct ct_http_server *s, struct ct_http_client *c, uint64_t now) {
    struct ct_http_request r = {.method = CT_HTTP_OTHER};
    const size_t n = ct_http_request_measure(c->in, c->in_count);
    if (!n && c->in_count < sizeof c->in)
        return;
    const int status = n ? ct_http_request_parse(&r, c->in, n) : 431;
    c->keeps_open = !status && r.keeps_open;
    c->in_count -= n;
    memmove(c->in, c->in + n, c->in_count);
    if (status)
        begin_answer(c, ct_http_body_say(status, get_reason(status)), 1, now);
    else
        begin_answer(c, s->answer(s->user, &r), r.method != CT_HTTP_HEAD_ONLY, now);
}

// ---- turns --------------------------------------------------------------------------------------

// Returns how much was read; 0: the client has gone, or nothing was there.
static size_t receive(struct ct_http_client *c, char *to, size_t n, uint64_t now) {
    const ssize_t got = recv(c->fd, to, n, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (got <= 0) {
        close_client(c);
        return 0;
    }
    c->moved_ns = now;
    return (size_t)got;
}

static void read_client(struct ct_http_server *s, struct ct_http_client *c, uint64_t now) {
    const size_t n = receive(c, c->in + c->in_count, sizeof c->in - c->in_count, now);
    if (!n)
        return;
    if (!c->in_count) // the first bytes of a request
        c->deadline_ns = now + CT_HTTP_REQUEST_NS;
    c->in_count += n;
    take_request(s, c, now);
}

static void finish_answer(struct ct_http_server *s, struct ct_http_client *c, uint64_t now) {
    ct_http_body_release(c->body);
    c->body = NULL;
    if (!c->keeps_open) {
        (void)shutdown(c->fd, SHUT_WR);
        c->state = LEAVING;
        c->dropped = 0;
        c->deadline_ns = now + FAREWELL_NS;
        return;
    }
    c->state = READING;
    c->deadline_ns = now + (c->in_count ? CT_HTTP_REQUEST_NS : CT_HTTP_IDLE_NS);
    if (c->in_count)
        take_request(s, c, now);
}

static void write_client(struct ct_http_server *s, struct ct_http_client *c, uint64_t now) {
    const int in_head = c->sent < c->head_size;
    const char *at = in_head ? c->head + c->sent : c->body->bytes + (c->sent - c->head_size);
    const size_t all = c->head_size + c->body_size, end = in_head ? c->head_size : all;
    const int more = end < all ? MSG_MORE : 0;
    const ssize_t n = send(c->fd, at, end - c->sent, MSG_NOSIGNAL | more);
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        close_client(c);
        return;
    }
    if (n > 0) {
        c->sent += (size_t)n;
        c->moved_ns = now;
    }
    if (c->sent == all)
        finish_answer(s, c, now);
}

static void leave(struct ct_http_client *c, uint64_t now) {
    c->dropped += receive(c, c->in, sizeof c->in, now);
    if (c->state == LEAVING && c->dropped > FAREWELL_BYTES)
        close_client(c);
}

static void serve_client(struct ct_http_server *s, struct ct_http_client *c, short events,
                         uint64_t now) {
    if (c->state == READING && events)
        read_client(s, c, now);
    else if (c->state == WRITING && events)
        write_client(s, c, now);
    else if (c->state == LEAVING && events)
        leave(c, now);
    if (c->state != FREE && now >= c->deadline_ns)
        close_client(c);
}

static void add_polled(struct ct_http_server *s, struct pollfd *to, int fd, int events) {
    to[s->polled++] = (struct pollfd){.fd = fd, .events = (short)events};
}

unsigned ct_http_server_prepare(struct ct_http_server *s, struct pollfd *to, uint64_t *until_ns) {
    const int rests = ct_now_ns(CLOCK_MONOTONIC) < s->rest_ns;
    *until_ns = rests ? s->rest_ns : UINT64_MAX;
    s->polled = 0;
    for (int i = 0; i < s->places; i++) {
        struct ct_http_client *c = &s->clients[i];
        if (c->state == FREE)
            continue;
        c->polled = s->polled;
        add_polled(s, to, c->fd, c->state == WRITING ? POLLOUT : POLLIN);
        if (c->deadline_ns < *until_ns)
            *until_ns = c->deadline_ns;
    }
    s->polls_listener = !rests;
    if (!rests)
        add_polled(s, to, s->listener, POLLIN);
    return s->polled;
}

void ct_http_server_serve(struct ct_http_server *s, const struct pollfd *polled) {
    const uint64_t now = ct_now_ns(CLOCK_MONOTONIC);
    for (int i = 0; i < s->places; i++) {
        struct ct_http_client *c = &s->clients[i];
        if (c->state != FREE)
            serve_client(s, c, polled[c->polled].revents, now);
    }
    if (s->polls_listener && polled[s->polled - 1].revents)
        accept_client(s, now);
}

// ---- where it listens ---------------------------------------------------------------------------

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
