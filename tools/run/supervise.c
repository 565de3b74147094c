// SPDX-License-Identifier: Apache-2.0
// The program stays in this process's group, so a signal of the terminal (Ctrl-C, Ctrl-Z, a new
// window size) reaches both: the kernel is its sender, and it is not passed on, because a second
// SIGINT means more than one. A signal that a process sends is passed on. One that was sent to the
// whole group arrives twice then; nothing tells it from one that was sent to this process alone,
// and a SIGTERM that does not arrive is worse.
#include "run/run.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct {
    int number;
    const char *name;
    int is_forwarded;
} signals[] = {
    {SIGHUP, "SIGHUP", 1},   {SIGINT, "SIGINT", 1},   {SIGQUIT, "SIGQUIT", 1},
    {SIGTERM, "SIGTERM", 1}, {SIGUSR1, "SIGUSR1", 1}, {SIGUSR2, "SIGUSR2", 1},
    {SIGALRM, "SIGALRM", 1}, {SIGCONT, "SIGCONT", 1}, {SIGWINCH, "SIGWINCH", 1},
    {SIGTSTP, "SIGTSTP", 1}, {SIGTTIN, "SIGTTIN", 1}, {SIGTTOU, "SIGTTOU", 1},
    {SIGKILL, "SIGKILL", 0}, {SIGSEGV, "SIGSEGV", 0}, {SIGABRT, "SIGABRT", 0},
    {SIGBUS, "SIGBUS", 0},   {SIGFPE, "SIGFPE", 0},   {SIGILL, "SIGILL", 0},
    {SIGTRAP, "SIGTRAP", 0}, {SIGSYS, "SIGSYS", 0},   {SIGPIPE, "SIGPIPE", 0},
    {SIGXCPU, "SIGXCPU", 0}, {SIGXFSZ, "SIGXFSZ", 0},
};
enum { SIGNALS = sizeof signals / sizeof *signals };

static sigset_t mask_before, watched;
static struct sigaction child_action_before;

const char *ct_supervise_signal_name(int signal) {
    for (int i = 0; i < SIGNALS; i++)
        if (signals[i].number == signal)
            return signals[i].name;
    return NULL;
}

const sigset_t *ct_supervise_signals(void) {
    return &watched;
}

// Blocked from now on, and taken one by one. A parent that ignores SIGCHLD must not take the exit
// status away.
static void watch_signals(void) {
    const struct sigaction standard = {.sa_handler = SIG_DFL};
    sigemptyset(&watched);
    sigaddset(&watched, SIGCHLD);
    for (int i = 0; i < SIGNALS; i++)
        if (signals[i].is_forwarded)
            sigaddset(&watched, signals[i].number);
    (void)sigaction(SIGCHLD, &standard, &child_action_before);
    (void)sigprocmask(SIG_BLOCK, &watched, &mask_before);
}

void ct_supervise_restore_signals(void) {
    (void)sigaction(SIGCHLD, &child_action_before, NULL);
    (void)sigprocmask(SIG_SETMASK, &mask_before, NULL);
}

// ---- starting -----------------------------------------------------------------------------------

// In the child. What the parent reads from the pipe says that it failed, and where.
_Noreturn static void execute(const struct ct_supervised *s, pid_t parent, int report) {
    struct ct_supervised failed = *s;
    // SIGKILL for this program must not leave the other one behind, with the GPU in its hands.
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        raise(SIGKILL);
    ct_supervise_restore_signals();
    if (s->prepare(s->cookie) == 0) {
        failed.is_prepared = 1;
        execvp(s->command[0], s->command);
    }
    failed.start_errno = errno;
    const ssize_t n = write(report, &failed, sizeof failed);
    _exit(n == sizeof failed ? 127 : 125);
}

static int start(struct ct_supervised *s) {
    struct ct_supervised failed;
    int report[2];
    const pid_t parent = getpid();
    if (pipe2(report, O_CLOEXEC) || (s->pid = fork()) < 0) {
        s->start_errno = errno;
        return -1;
    }
    if (s->pid == 0)
        execute(s, parent, report[1]);
    close(report[1]);
    ssize_t n;
    do
        n = read(report[0], &failed, sizeof failed);
    while (n < 0 && errno == EINTR);
    close(report[0]);
    if (n != sizeof failed)
        return 0;
    (void)waitpid(s->pid, &s->status, 0);
    s->start_errno = failed.start_errno;
    s->is_prepared = failed.is_prepared;
    return -1;
}

// ---- while it runs ------------------------------------------------------------------------------

static void forward(const struct ct_supervised *s, const siginfo_t *info) {
    // The kernel tells of a lost terminal only the leader of the session.
    const int is_ours_alone = info->si_signo == SIGHUP && getsid(0) == getpid();
    if (info->si_code > 0 && !is_ours_alone)
        return;
    if (info->si_code <= 0 && info->si_pid == s->pid)
        return; // the program means its group, or its parent
    (void)kill(s->pid, info->si_signo);
}

// Stops this process as the terminal has stopped the program, so that the shell gets the terminal
// back. `fg` and `bg` continue both.
static void stop_alike(const struct ct_supervised *s, int signal) {
    const struct sigaction standard = {.sa_handler = SIG_DFL};
    struct sigaction before;
    siginfo_t now = {0};
    sigset_t one;
    if (waitid(P_PID, (id_t)s->pid, &now, WCONTINUED | WNOHANG | WNOWAIT) == 0 && now.si_pid)
        return; // it runs again already
    sigemptyset(&one);
    sigaddset(&one, signal);
    (void)sigaction(signal, &standard, &before);
    (void)raise(signal);
    (void)sigprocmask(SIG_UNBLOCK, &one, NULL);
    (void)sigprocmask(SIG_BLOCK, &one, NULL);
    (void)sigaction(signal, &before, NULL);
}

// Looks at all children: this process may be the first one of a container, which others' orphans
// become children of. Returns 1 when the program has ended.
static int reap(struct ct_supervised *s) {
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
        if (pid != s->pid)
            continue;
        if (!WIFSTOPPED(status)) {
            s->status = status;
            return 1;
        }
        if (WSTOPSIG(status) == SIGTSTP || WSTOPSIG(status) == SIGTTIN ||
            WSTOPSIG(status) == SIGTTOU)
            stop_alike(s, WSTOPSIG(status));
    }
    return 0;
}

int ct_supervise(struct ct_supervised *s) {
    siginfo_t info;
    watch_signals();
    if (start(s))
        return -1;
    for (;;) {
        if (sigwaitinfo(&watched, &info) < 0)
            continue;
        if (info.si_signo != SIGCHLD)
            forward(s, &info);
        else if (reap(s))
            return 0;
    }
}

int ct_supervise_end_alike(int status) {
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    const struct sigaction standard = {.sa_handler = SIG_DFL};
    const struct rlimit no_core = {0, 0};
    const int signal = WTERMSIG(status);
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, signal);
    // The other program has left its core file; one of this program would take its name.
    (void)setrlimit(RLIMIT_CORE, &no_core);
    (void)prctl(PR_SET_DUMPABLE, 0);
    (void)sigaction(signal, &standard, NULL);
    (void)sigprocmask(SIG_UNBLOCK, &one, NULL);
    (void)raise(signal);
    return 128 + signal; // the first process of a container cannot end itself by a signal
}
