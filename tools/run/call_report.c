// SPDX-License-Identifier: Apache-2.0
#include "run/call_report.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run/preload.h"
#include "run/supervise.h"

static char *find_in_path(const char *name) {
    const char *path = getenv("PATH");
    for (const char *at = path ? path : ""; *at; at += *at == ':') {
        const int n = (int)strcspn(at, ":");
        char *candidate = NULL;
        if (asprintf(&candidate, "%.*s/%s", n, at, name) < 0)
            return NULL;
        if (*candidate == '/' && n && access(candidate, X_OK) == 0)
            return candidate;
        free(candidate);
        at += n;
    }
    return NULL;
}

char *ct_call_report_find(void) {
    const char *folder = ct_preload_own_folder();
    char *beside = NULL;
    if (folder && asprintf(&beside, "%s/cutrace-report", folder) >= 0) {
        if (access(beside, X_OK) == 0)
            return beside;
        free(beside);
    }
    return find_in_path("cutrace-report");
}

_Noreturn static void execute(const char *program, char *const *arguments, int out) {
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    (void)dup2(null, STDIN_FILENO);
    (void)dup2(null, STDERR_FILENO);
    (void)dup2(out, STDOUT_FILENO);
    ct_supervise_restore_signals();
    execv(program, arguments);
    _exit(127);
}

static int is_ending(int signal) {
    return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
}

// Waits until there is something to read. Returns -1 if a signal came that ends programs.
static int wait_for(int out, int signals) {
    struct pollfd fds[] = {{.fd = out, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
    for (;;) {
        struct signalfd_siginfo info;
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return -1;
        if (fds[1].revents & POLLIN && read(signals, &info, sizeof info) == sizeof info &&
            is_ending((int)info.ssi_signo))
            return -1;
        if (fds[0].revents)
            return 0;
    }
}

static char *read_output(int out, int signals) {
    size_t capacity = 1 << 16, n = 0;
    char *text = malloc(capacity);
    while (text && wait_for(out, signals) == 0) {
        const ssize_t more = read(out, text + n, capacity - n - 1);
        if (more <= 0) {
            text[n] = 0;
            return text;
        }
        n += (size_t)more;
        if (n + 1 == capacity) {
            char *longer = realloc(text, capacity *= 2);
            if (!longer)
                free(text);
            text = longer;
        }
    }
    free(text);
    return NULL;
}

char *ct_call_report(const char *program, char *const *arguments) {
    int out[2];
    const int signals = signalfd(-1, ct_supervise_signals(), SFD_CLOEXEC | SFD_NONBLOCK);
    if (pipe2(out, O_CLOEXEC)) {
        close(signals);
        return NULL;
    }
    const pid_t pid = fork();
    if (pid == 0)
        execute(program, arguments, out[1]);
    close(out[1]);
    char *text = pid > 0 ? read_output(out[0], signals) : NULL;
    close(out[0]);
    close(signals);
    if (pid > 0 && !text)
        (void)kill(pid, SIGKILL);
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return text;
}
