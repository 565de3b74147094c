// SPDX-License-Identifier: Apache-2.0
// What a program finds of itself in the system, as text.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host.h"

static char noted[1 << 17];
static size_t noted_bytes;
static char state_path[PATH_MAX] = "state";

void note(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const int n = vsnprintf(noted + noted_bytes, sizeof noted - noted_bytes, format, arguments);
    va_end(arguments);
    if (n < 0 || (size_t)n >= sizeof noted - noted_bytes)
        abort();
    noted_bytes += (size_t)n;
}

int write_notes(void) {
    const int fd = open(state_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    const int bad = fd < 0 || write(fd, noted, noted_bytes) != (ssize_t)noted_bytes;
    noted_bytes = 0;
    return bad | (fd >= 0 && close(fd));
}

void keep_place_of_notes(void) {
    if (!getcwd(state_path, sizeof state_path - 8))
        abort();
    strcat(state_path, "/state");
}

// ---- what there is ----------------------------------------------------------------------------

static int by_number(const struct dirent **a, const struct dirent **b) {
    return atoi((*a)->d_name) - atoi((*b)->d_name);
}

static void note_descriptor(int fd) {
    char link[64], target[PATH_MAX];
    const int flags = fcntl(fd, F_GETFD);
    snprintf(link, sizeof link, "/proc/thread-self/fd/%d", fd);
    const ssize_t n = readlink(link, target, sizeof target - 1);
    if (flags >= 0 && n > 0)
        note("descriptor %d %.*s flags %o %d offset %lld\n", fd, (int)n, target,
             (unsigned)fcntl(fd, F_GETFL), flags, (long long)lseek(fd, 0, SEEK_CUR));
}

// Those that are open at each of LOOKS looks. Where the library has no table of its own, a thread
// of its may have others for the moment of a call.
void note_descriptors(void) {
    enum { LOOKS = 20, PAUSE_US = 200 };
    struct dirent **names = NULL;
    const int n = scandir("/proc/thread-self/fd", &names, NULL, by_number);
    for (int look = 0; look < LOOKS; look++) {
        for (int i = 0; i < n; i++)
            if (fcntl(atoi(names[i]->d_name), F_GETFD) < 0)
                *names[i]->d_name = '.';
        usleep(PAUSE_US);
    }
    for (int i = 0; i < n; i++) {
        if (*names[i]->d_name != '.')
            note_descriptor(atoi(names[i]->d_name));
        free(names[i]);
    }
    free(names);
}

// The lines of a file of /proc that begin with one of the words, each of which has a space before
// and after it.
static void note_lines(const char *path, const char *words) {
    char line[1024], word[72];
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f)) {
        snprintf(word, sizeof word, " %.*s ", (int)strcspn(line, ": \n"), line);
        if (strstr(words, word))
            note("%s: %s", path, line);
    }
    if (f)
        fclose(f);
}

// The kernel's list has the process that holds each lock.
static void note_locks(void) {
    char line[256], lock[64];
    int pid, at;
    FILE *f = fopen("/proc/locks", "re");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "%*d: %63[^0-9] %d %*s %n", lock, &pid, &at) == 2 && pid == getpid())
            note("lock %s %s", lock, line + at);
    if (f)
        fclose(f);
}

static void note_mappings(void) {
    char line[PATH_MAX + 100];
    int n = 0;
    FILE *f = fopen("/proc/self/maps", "re");
    while (f && fgets(line, sizeof line, f))
        n++;
    if (f)
        fclose(f);
    note("mappings %d\n", n);
}

static void note_limits(void) {
    for (int i = 0; i < (int)RLIMIT_NLIMITS; i++) {
        struct rlimit l = {0, 0};
        getrlimit((__rlimit_resource_t)i, &l);
        note("limit %d %lx %lx\n", i, (unsigned long)l.rlim_cur, (unsigned long)l.rlim_max);
    }
}

static void note_timers(void) {
    for (int i = ITIMER_REAL; i <= (int)ITIMER_PROF; i++) {
        struct itimerval t;
        getitimer((__itimer_which_t)i, &t);
        note("timer %d %s, again after %ld s\n", i,
             t.it_value.tv_sec || t.it_value.tv_usec ? "runs" : "is off",
             (long)t.it_interval.tv_sec);
    }
    note_lines("/proc/self/timers", " ID signal notify ClockID ");
}

static void note_signals(void) {
    stack_t stack;
    for (int i = 1; i < NSIG; i++) {
        struct sigaction a;
        if (!sigaction(i, NULL, &a) && a.sa_handler != SIG_DFL)
            note("signal %d %s flags %x\n", i, a.sa_handler == SIG_IGN ? "ignored" : "handled",
                 (unsigned)a.sa_flags);
    }
    sigaltstack(NULL, &stack);
    note("signal stack flags %d, %zu bytes\n", stack.ss_flags, stack.ss_size);
}

static void note_process(void) {
    char text[PATH_MAX] = "";
    int death = 0, status;
    note("folder %s\n", getcwd(text, sizeof text) ? text : strerror(errno));
    note("priority %d, dumpable %d, timer slack %d\n", getpriority(PRIO_PROCESS, 0),
         prctl(PR_GET_DUMPABLE), prctl(PR_GET_TIMERSLACK));
    prctl(PR_GET_NAME, text);
    prctl(PR_GET_PDEATHSIG, &death);
    note("name %s, death signal %d\n", text, death);
    note("children: %s\n", waitpid(-1, &status, WNOHANG) < 0 ? strerror(errno) : "there are");
    note_lines("/proc/self/status", " Umask Uid Gid Groups SigPnd ShdPnd SigBlk SigIgn "
                                    "SigCgt CapEff NoNewPrivs Seccomp Cpus_allowed_list ");
}

void note_state(const char *when) {
    note("---- %s\n", when);
    note_descriptors();
    note_locks();
    note_mappings();
    note_limits();
    note_timers();
    note_signals();
    note_process();
}
