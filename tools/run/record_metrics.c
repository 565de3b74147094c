// SPDX-License-Identifier: Apache-2.0
// Asks again and again, whatever the server does: it may not be up yet, be restarted, be too busy
// to answer. What ends it is a signal, the duration, or a file that cannot be written at its start.
#include "run/words.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/human.h"
#include "base/now.h"
#include "base/parse.h"
#include "run/metrics_file.h"
#include "run/run.h"

// Exit codes, as --help lists them.
enum { DONE = 0, USAGE = 2, NO_CURL = 3, NO_ANSWER = 4, NO_FILE = 5 };

#define SECOND UINT64_C(1000000000)
#define MIB (UINT64_C(1) << 20)
#define MOST_BYTES (16 * MIB)                     // of a page; vLLM's has about 100 KiB
enum { LEAST_PATIENCE = 10, MOST_PATIENCE = 60 }; // seconds for one answer
enum { NO_EXEC = 127 };                           // of a child that could not become curl

struct recording {
    const char *url, *output;
    uint64_t interval_ns, duration_ns; // duration 0: until a signal
    uint64_t most_bytes;
    struct ct_metrics_file file;
    int signals; // signalfd
    uint64_t scrapes;
    int is_missing; // the last scrape failed, and that was said
    int is_full;    // the file could not be written, and that was said
};

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...) {
    va_list args;
    fputs("cutrace: record-metrics: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

// ---- options ------------------------------------------------------------------------------------

static int set_time(uint64_t *to, const char *text) {
    struct ct_time t;
    if (ct_parse_time(text, &t) || t.kind != CT_TIME_ELAPSED || t.ns < SECOND / 10)
        return -1;
    *to = t.ns;
    return 0;
}

static int set_output(struct recording *r, const char *text) {
    r->output = text;
    return *text ? 0 : -1;
}

static int set_interval(struct recording *r, const char *text) {
    return set_time(&r->interval_ns, text);
}

static int set_duration(struct recording *r, const char *text) {
    return set_time(&r->duration_ns, text);
}

static int set_size(struct recording *r, const char *text) {
    struct ct_parsed_size size;
    if (ct_parse_size(text, &size) != CT_PARSE_OK || size.bytes < MIB / 16)
        return -1;
    r->most_bytes = size.bytes;
    return 0;
}

static const struct {
    enum ct_run_word word;
    int (*set)(struct recording *r, const char *text); // -1: it is no value of this option
    const char *name, *value;
} options[] = {
    {CT_WORD_RECORD_METRICS_OUTPUT, set_output, "--output", "FILE"},
    {CT_WORD_RECORD_METRICS_INTERVAL, set_interval, "--interval",
     "a time such as 5s or 500ms, at least 100ms"},
    {CT_WORD_RECORD_METRICS_DURATION, set_duration, "--duration",
     "a time such as 90s or 1h30m, at least 100ms"},
    {CT_WORD_RECORD_METRICS_MAX_SIZE, set_size, "--max-size",
     "a size such as 64MiB, at least 64KiB"},
};

static int set_word(void *to, int word, const struct ct_words *w) {
    struct recording *r = to;
    for (size_t k = 0; k < sizeof options / sizeof *options; k++)
        if ((int)options[k].word == word && options[k].set(r, w->value)) {
            say("%s needs %s", options[k].name, options[k].value);
            return USAGE;
        }
    if (word == CT_WORD_PLAIN && r->url) {
        say("%s: one URL is enough", w->value);
        return USAGE;
    }
    r->url = word == CT_WORD_PLAIN ? w->value : r->url;
    return DONE;
}

// "localhost:8000" becomes "http://localhost:8000/metrics". NULL: it is no URL of HTTP.
static char *complete_url(const char *url) {
    char *whole = NULL;
    const char *scheme = strstr(url, "://"), *host = scheme ? scheme + 3 : url;
    if (scheme && strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0)
        return NULL;
    if (!*host || *host == '/' || *host == '-')
        return NULL;
    const size_t before = strcspn(host, "/?#");
    const int has_path = host[before] && strcmp(host + before, "/") != 0;
    if (asprintf(&whole, "%s%.*s%s", scheme ? "" : "http://",
                 (int)(has_path ? strlen(url) : (size_t)(host - url) + before), url,
                 has_path ? "" : "/metrics") < 0)
        return NULL;
    return whole;
}

// ---- recording ----------------------------------------------------------------------------------

// Says a failure once, until it has gone.
static void say_missing(struct recording *r, const char *why) {
    if (!r->is_missing)
        say("%s: %s; it is asked again every %s", r->url, why,
            ct_human_seconds(r->interval_ns).text);
    r->is_missing = 1;
}

static void keep(struct recording *r, uint64_t utc_ns, const struct ct_child *curl) {
    static char kept[CT_METRICS_KEPT];
    const size_t n = ct_metrics_filter(curl->text, curl->length, kept);
    if (!n) {
        say_missing(r, "the answer has none of these metrics; is it the page with the metrics?");
        return;
    }
    if (r->is_missing)
        say("%s: answers", r->url);
    r->is_missing = 0;
    if (ct_metrics_file_add(&r->file, utc_ns, kept, n)) {
        if (!r->is_full)
            say("%s: %s; it is tried again", r->output, strerror(errno));
        r->is_full = 1;
        return;
    }
    r->is_full = 0;
    r->scrapes++;
}

// How long an answer may take: a busy server is slow.
static unsigned find_patience(const struct recording *r) {
    const uint64_t seconds = r->interval_ns / SECOND;
    if (seconds < LEAST_PATIENCE)
        return LEAST_PATIENCE;
    return seconds < MOST_PATIENCE ? (unsigned)seconds : MOST_PATIENCE;
}

// Exit codes of curl: man curl.
static const struct {
    int code;
    const char *text;
} reasons[] = {{5, "the proxy's name is not known"},
               {6, "the host's name is not known"},
               {7, "no connection"},
               {18, "the answer ended in the middle"},
               {22, "the server answered with an error"},
               {28, "no answer in time"},
               {35, "no TLS connection"},
               {47, "too many redirections"},
               {52, "an empty answer"},
               {56, "the connection ended"},
               {60, "the certificate is not trusted"}};

static const char *reason_of(int code) {
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (reasons[i].code == code)
            return reasons[i].text;
    return "curl failed";
}

// Becomes curl, which people who run servers have: no library of HTTP is linked. Its configuration
// file is not read, and a proxy of the environment is not asked for this host.
static void exec_curl(void *cookie) {
    const struct recording *r = cookie;
    char seconds[16];
    sigset_t none;
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)snprintf(seconds, sizeof seconds, "%u", find_patience(r));
    execlp("curl", "curl", "-q", "--silent", "--fail", "--globoff", "--location", "--max-redirs",
           "3", "--proto", "=http,https", "--max-time", seconds, "--noproxy",
           "localhost,127.0.0.1,::1", "--url", r->url, (char *)NULL);
}

// Makes one scrape. Returns -1 if there is no curl, 1 if a signal came.
static int scrape(struct recording *r) {
    struct ct_child curl = {
        .become = exec_curl, .cookie = r, .signals = r->signals, .most = MOST_BYTES};
    char why[80];
    const uint64_t utc_ns = ct_now_ns(CLOCK_REALTIME);
    const enum ct_child_end end = ct_child_run(&curl);
    const int code = WIFEXITED(curl.status) ? WEXITSTATUS(curl.status) : -1;
    if (end == CT_CHILD_STOPPED)
        return 1;
    if (end == CT_CHILD_ENDED && code == NO_EXEC) {
        free(curl.text);
        say("the program curl is not in PATH; install it (apt-get install curl)");
        return -1;
    }
    if (end == CT_CHILD_NOT_STARTED)
        (void)snprintf(why, sizeof why, "cannot start curl: %s", strerror(errno));
    else if (end == CT_CHILD_TOO_MUCH)
        (void)snprintf(why, sizeof why, "the answer has more than 16 MiB");
    else
        (void)snprintf(why, sizeof why, "%s (curl %d)", reason_of(code), code);
    if (end == CT_CHILD_ENDED && !code)
        keep(r, utc_ns, &curl);
    else
        say_missing(r, why);
    free(curl.text);
    return 0;
}

// Waits until a time of the monotonic clock. Returns 1 if a signal came.
static int wait_until(const struct recording *r, uint64_t at) {
    for (;;) {
        const uint64_t now = ct_now_ns(CLOCK_MONOTONIC);
        struct pollfd wait = {.fd = r->signals, .events = POLLIN};
        if (now >= at)
            return 0;
        const uint64_t ms = (at - now + 999999) / 1000000;
        if (poll(&wait, 1, ms > 60000 ? 60000 : (int)ms) > 0)
            return 1;
    }
}

static int record(struct recording *r) {
    const uint64_t start = ct_now_ns(CLOCK_MONOTONIC), end = start + r->duration_ns;
    for (uint64_t next = start;;) {
        const int status = scrape(r);
        if (status < 0)
            return NO_CURL;
        const uint64_t now = ct_now_ns(CLOCK_MONOTONIC);
        while (next <= now) // (scrapes that took longer than the interval are left out)
            next += r->interval_ns;
        if (status > 0 || (r->duration_ns && now >= end))
            break;
        if (wait_until(r, r->duration_ns && end < next ? end : next) ||
            (r->duration_ns && ct_now_ns(CLOCK_MONOTONIC) >= end))
            break;
    }
    return r->scrapes ? DONE : NO_ANSWER;
}

static int open_signals(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int run(struct recording *r) {
    if (ct_metrics_file_open(&r->file, r->output, r->most_bytes)) {
        if (errno == EEXIST)
            say("%s: is there already, and no file of record-metrics", r->output);
        else
            say("%s: %s", r->output, strerror(errno));
        return NO_FILE;
    }
    r->signals = open_signals();
    int code = record(r);
    if (ct_metrics_file_close(&r->file) || r->is_full)
        code = NO_FILE;
    close(r->signals);
    if (code == NO_ANSWER)
        say("%s: no answer with these metrics in all the time", r->url);
    return code;
}

int ct_record_metrics_main(int argc, char **argv) {
    struct recording r = {.interval_ns = 5 * SECOND, .most_bytes = 64 * MIB};
    int code;
    if (ct_words_read(CT_RUN_record_metrics, argc, argv, &code, set_word, &r))
        return code;
    if (!r.url || !r.output) {
        say("%s is missing; use: cutrace record-metrics URL -o FILE", r.url ? "-o FILE" : "URL");
        return USAGE;
    }
    char *url = complete_url(r.url);
    if (!url) {
        say("%s: is no URL of HTTP; use: http://localhost:8000", r.url);
        return USAGE;
    }
    r.url = url;
    code = run(&r);
    free(url);
    return code;
}
