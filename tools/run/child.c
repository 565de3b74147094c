// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run/run.h"

enum { NO_EXEC = 127 };

static _Noreturn void become(const struct ct_child *c, int out) {
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    (void)dup2(null, STDIN_FILENO);
    (void)dup2(null, STDERR_FILENO);
    (void)dup2(out, STDOUT_FILENO);
    c->become(c->cookie);
    _exit(NO_EXEC);
}

static int is_ending(unsigned signal) {
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
            is_ending(info.ssi_signo))
            return -1;
        if (fds[0].revents)
            return 0;
    }
}

static enum ct_child_end read_output(const struct ct_child *c, int out, FILE *text) {
    char part[1 << 14];
    size_t all = 0;
    while (wait_for(out, c->signals) == 0) {
        const ssize_t n = read(out, part, sizeof part);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return CT_CHILD_ENDED;
        all += (size_t)n;
        if (all > c->most)
            return CT_CHILD_TOO_MUCH;
        (void)fwrite(part, 1, (size_t)n, text);
    }
    return CT_CHILD_STOPPED;
}

// Reads it to its end. (No memory is a failure like another one: the caller lives on.)
static enum ct_child_end take_output(struct ct_child *c, int out) {
    FILE *text = open_memstream(&c->text, &c->length);
    if (!text)
        return CT_CHILD_NOT_STARTED;
    enum ct_child_end end = read_output(c, out, text);
    if (fclose(text) && end == CT_CHILD_ENDED)
        end = CT_CHILD_NOT_STARTED;
    if (end != CT_CHILD_ENDED) {
        free(c->text);
        c->text = NULL;
    }
    return end;
}

enum ct_child_end ct_child_run(struct ct_child *c) {
    int out[2];
    if (pipe2(out, O_CLOEXEC))
        return CT_CHILD_NOT_STARTED;
    const pid_t pid = fork();
    if (!pid)
        become(c, out[1]);
    enum ct_child_end end = CT_CHILD_NOT_STARTED;
    int error = errno;
    close(out[1]);
    if (pid > 0) {
        end = take_output(c, out[0]);
        error = errno;
    }
    close(out[0]);
    if (pid > 0 && end != CT_CHILD_ENDED)
        (void)kill(pid, SIGKILL);
    while (pid > 0 && waitpid(pid, &c->status, 0) < 0 && errno == EINTR)
        ;
    errno = error;
    return end;
}
