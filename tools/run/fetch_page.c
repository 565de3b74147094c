// SPDX-License-Identifier: Apache-2.0
#include "run/fetch_page.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_BYTES (UINT64_C(16) << 20) // of a page; vLLM's has about 100 KiB
enum { NO_EXEC = 127 };

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

// Becomes curl. Its configuration file is not read, and a proxy of the environment is not asked for
// this host.
_Noreturn static void exec_curl(const struct ct_fetch *f, int out) {
    char seconds[16];
    sigset_t none;
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)snprintf(seconds, sizeof seconds, "%u", f->seconds);
    const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (nothing >= 0) {
        dup2(nothing, STDIN_FILENO);
        dup2(nothing, STDERR_FILENO);
    }
    dup2(out, STDOUT_FILENO);
    execlp("curl", "curl", "-q", "--silent", "--fail", "--globoff", "--location", "--max-redirs",
           "3", "--proto", "=http,https", "--max-time", seconds, "--noproxy",
           "localhost,127.0.0.1,::1", "--url", f->url, (char *)NULL);
    _exit(NO_EXEC);
}

// Reads what curl writes. Returns 0 at its end, -1 if there is too much, 1 if a signal came.
static int read_page(struct ct_fetch *f, int in) {
    uint64_t all = 0;
    char part[1 << 14];
    for (;;) {
        struct pollfd wait[] = {{.fd = in, .events = POLLIN}, {.fd = f->signals, .events = POLLIN}};
        if (poll(wait, 2, -1) < 0 && errno != EINTR)
            return -1;
        if (wait[1].revents)
            return 1;
        if (!wait[0].revents)
            continue;
        const ssize_t n = read(in, part, sizeof part);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return 0;
        all += (uint64_t)n;
        if (all > MOST_BYTES)
            return -1;
        f->take(f->cookie, part, (size_t)n);
    }
}

static int wait_for(pid_t child) {
    int status;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return status;
}

static enum ct_fetch_result judge(struct ct_fetch *f, int read_result, int status) {
    if (read_result > 0)
        return CT_FETCH_STOPPED;
    if (read_result < 0) {
        (void)snprintf(f->why, sizeof f->why, "the answer has more than 16 MiB");
        return CT_FETCH_FAILED;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return CT_FETCHED;
    if (WIFEXITED(status) && WEXITSTATUS(status) == NO_EXEC)
        return CT_FETCH_NO_CURL;
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    (void)snprintf(f->why, sizeof f->why, "%s (curl %d)", reason_of(code), code);
    return CT_FETCH_FAILED;
}

enum ct_fetch_result ct_fetch_page(struct ct_fetch *f) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC)) {
        (void)snprintf(f->why, sizeof f->why, "pipe: %s", strerror(errno));
        return CT_FETCH_FAILED;
    }
    const pid_t child = fork();
    if (!child)
        exec_curl(f, ends[1]);
    close(ends[1]);
    if (child < 0) {
        (void)snprintf(f->why, sizeof f->why, "fork: %s", strerror(errno));
        close(ends[0]);
        return CT_FETCH_FAILED;
    }
    const int result = read_page(f, ends[0]);
    close(ends[0]);
    if (result)
        (void)kill(child, SIGKILL);
    return judge(f, result, wait_for(child));
}
