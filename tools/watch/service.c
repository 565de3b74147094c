// SPDX-License-Identifier: Apache-2.0
// cutrace watch without a terminal: looks in one thread, and serves in another.
#include "watch/watch.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/heap.h"
#include "base/now.h"
#include "watch/http_server.h"
#include "watch/looker.h"

#define STALE_NS UINT64_C(60000000000) // no look for so long, or ten intervals: it hangs
#define STOP_NS UINT64_C(2000000000)   // for a look that is under way when a signal comes

enum page { OPENMETRICS, PROMETHEUS, VERDICT, PAGES };

struct service {
    struct ct_watch_list *list;
    const struct ct_watch_options *options;
    struct ct_http_address address;
    struct ct_http_server server;
    int signals; // a descriptor
    struct ct_looker looker;
    // With its lock:
    struct ct_http_body *pages[PAGES]; // NULL: before the first look
    uint64_t looked_ns;
};

int ct_service_is_wanted(const struct ct_watch_options *options) {
    return options->serve || options->log != CT_WATCH_LOG_NONE;
}

// ---- looks --------------------------------------------------------------------------------------

static void print_page(const struct service *s, enum page page, FILE *out) {
    if (page == VERDICT)
        ct_watch_json_print(out, s->list);
    else
        ct_metrics_page_print(out, s->list, page == PROMETHEUS);
}

static struct ct_http_body *make_page(const struct service *s, enum page page) {
    static const char *const types[PAGES] = {
        [OPENMETRICS] = "application/openmetrics-text; version=1.0.0; charset=utf-8",
        [PROMETHEUS] = "text/plain; version=0.0.4; charset=utf-8",
        [VERDICT] = "application/json",
    };
    char *bytes = NULL;
    size_t n = 0;
    FILE *out = ct_heap_open_text(&bytes, &n);
    print_page(s, page, out);
    ct_heap_close_text(out);
    return ct_http_body_new(200, types[page], bytes, n);
}

static void publish(struct service *s) {
    struct ct_http_body *fresh[PAGES] = {0}, *before[PAGES];
    for (int i = 0; s->options->serve && i < PAGES; i++)
        fresh[i] = make_page(s, (enum page)i);
    ct_looker_lock(&s->looker);
    memcpy(before, s->pages, sizeof before);
    memcpy(s->pages, fresh, sizeof fresh);
    s->looked_ns = ct_now_ns(CLOCK_MONOTONIC);
    ct_looker_unlock(&s->looker);
    for (int i = 0; i < PAGES; i++)
        ct_http_body_release(before[i]);
}

static int look(void *user) {
    struct service *s = user;
    ct_watch_list_find(s->list, 0);
    ct_watch_list_tick(s->list);
    ct_watch_list_forget(s->list, CT_WATCH_TOLD_NS);
    if (!ct_service_is_wanted(s->options))
        return CT_WATCH_DONE;
    ct_watch_list_read_some(s->list, -1);
    publish(s);
    if (s->options->log != CT_WATCH_LOG_NONE && ct_event_log_print(s->list, s->options->log))
        return CT_WATCH_CANNOT_WRITE;
    return CT_WATCH_DONE;
}

// ---- answers ------------------------------------------------------------------------------------

static struct ct_http_body *share_page(struct service *s, enum page page) {
    ct_looker_lock(&s->looker);
    struct ct_http_body *b = s->pages[page] ? ct_http_body_share(s->pages[page]) : NULL;
    ct_looker_unlock(&s->looker);
    return b ? b : ct_http_body_say(503, "the first look is not over yet");
}

static struct ct_http_body *tell_health(struct service *s) {
    char text[80];
    const uint64_t intervals_ns = s->options->interval_ms * UINT64_C(10000000);
    ct_looker_lock(&s->looker);
    const uint64_t looked_ns = s->looked_ns;
    ct_looker_unlock(&s->looker);
    if (!looked_ns)
        return ct_http_body_say(503, "the first look is not over yet");
    const uint64_t age_ns = ct_now_ns(CLOCK_MONOTONIC) - looked_ns;
    if (age_ns <= STALE_NS || age_ns <= intervals_ns)
        return ct_http_body_say(200, "ok");
    (void)snprintf(text, sizeof text, "the last look was %u s ago",
                   (unsigned)(age_ns / 1000000000));
    return ct_http_body_say(503, text);
}

static struct ct_http_body *answer(void *user, const struct ct_http_request *r) {
    struct service *s = user;
    const int is_metrics = strcmp(r->path, "/metrics") == 0;
    const int is_verdict = strcmp(r->path, "/verdict.json") == 0;
    const int is_health = strcmp(r->path, "/healthz") == 0;
    if (!ct_http_address_has_name(&s->address, r->host))
        return ct_http_body_say(421, "ask by an address, as localhost or by the name in --serve");
    if (!is_metrics && !is_verdict && !is_health)
        return ct_http_body_say(404, "here are /metrics, /verdict.json and /healthz");
    if (r->method == CT_HTTP_OTHER)
        return ct_http_body_say(405, "only GET and HEAD");
    if (is_health)
        return tell_health(s);
    if (is_verdict)
        return share_page(s, VERDICT);
    return share_page(s, r->wants_openmetrics ? OPENMETRICS : PROMETHEUS);
}

// ---- the serving thread -------------------------------------------------------------------------

static int count_ms(uint64_t until_ns) {
    const uint64_t now = ct_now_ns(CLOCK_MONOTONIC);
    if (until_ns == UINT64_MAX)
        return -1;
    return until_ns > now ? (int)((until_ns - now) / 1000000 + 1) : 0;
}

// Serves until a signal comes, or looking has ended by itself.
static void serve(struct service *s) {
    struct pollfd polled[2 + CT_HTTP_POLLED];
    for (;;) {
        uint64_t until_ns = UINT64_MAX;
        nfds_t n = 2;
        polled[0] = (struct pollfd){.fd = s->signals, .events = POLLIN};
        polled[1] = (struct pollfd){.fd = s->looker.looked, .events = POLLIN};
        if (s->options->serve)
            n += ct_http_server_prepare(&s->server, polled + 2, &until_ns);
        if (poll(polled, n, count_ms(until_ns)) < 0)
            continue;
        if (polled[0].revents || (polled[1].revents && ct_looker_listen(&s->looker)))
            return;
        if (s->options->serve)
            ct_http_server_serve(&s->server, polled + 2);
    }
}

// ---- begin and end ------------------------------------------------------------------------------

// Signals that end it, but none that was to be ignored (nohup).
static void block_signals(struct service *s) {
    static const int list[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction before;
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (sigaction(list[i], NULL, &before) || before.sa_handler != SIG_IGN)
            sigaddset(&set, list[i]);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int begin_server(struct service *s) {
    struct ct_http_address *a = &s->address;
    const enum ct_http_listen result =
        ct_http_address_listen(a, s->options->serve, s->options->may_be_public);
    if (result == CT_HTTP_LISTENS) {
        s->server.answer = answer;
        s->server.user = s;
        ct_http_server_begin(&s->server, a->listener);
        fprintf(stderr, "cutrace: watch: serves http://%s/metrics\n", a->text);
        return CT_WATCH_DONE;
    }
    if (result == CT_HTTP_PUBLIC) {
        fprintf(stderr,
                "cutrace: watch: --serve=%.80s: other machines can reach this address, and there "
                "is neither TLS nor a password: serve on localhost behind a proxy that has both, "
                "or say --i-know\n",
                s->options->serve);
        return CT_WATCH_WRONG_USAGE;
    }
    fprintf(stderr, "cutrace: watch: --serve=%.80s: %s\n", s->options->serve, a->why);
    return result == CT_HTTP_WRONG_ADDRESS ? CT_WATCH_WRONG_USAGE : CT_WATCH_CANNOT_LISTEN;
}

static int begin_looking(struct service *s) {
    const int error = ct_looker_begin(&s->looker, look, s, s->options->interval_ms);
    if (!error)
        return CT_WATCH_DONE;
    fprintf(stderr, "cutrace: watch: no thread: %s\n", strerror(error));
    return CT_WATCH_CANNOT_LISTEN;
}

static void free_all(struct service *s) {
    for (int i = 0; i < PAGES; i++)
        ct_http_body_release(s->pages[i]);
    if (s->options->serve)
        ct_http_server_end(&s->server);
    close(s->signals);
}

int ct_service_run(struct ct_watch_list *list, const struct ct_watch_options *options) {
    struct service s = {.list = list, .options = options, .server = {.listener = -1}};
    block_signals(&s);
    int code = options->serve ? begin_server(&s) : CT_WATCH_DONE;
    if (!code)
        code = begin_looking(&s);
    if (code)
        return code;
    serve(&s);
    // What the looking thread uses stays as it is, if it is in the midst of a large trace.
    if (!ct_looker_end(&s.looker, STOP_NS))
        _exit(CT_WATCH_DONE);
    free_all(&s);
    return s.looker.code;
}
