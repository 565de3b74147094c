// SPDX-License-Identifier: Apache-2.0
// Programs that change who and where they are, start others, and end in unusual ways.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "host.h"

extern char **environ;

// ---- another root, another user, no files
static int leave(const char *how) {
    if (!strcmp(how, "root"))
        return chroot(".") || chdir("/");
    if (!strcmp(how, "user"))
        return setgid(65534) || setuid(65534);
    for (int i = 0; i < 1024 && !strcmp(how, "files"); i++)
        close(i);
    return 0;
}

// The main thread ends, and the process by its last worker.
static void *work_alone(void *main_thread) {
    pthread_join(*(pthread_t *)main_thread, NULL);
    use_in_thread((void *)20);
    puts("the last worker is done");
    fflush(stdout);
    return NULL;
}

static int main_leaves(const char *after_leaving) {
    static pthread_t me;
    pthread_t worker;
    me = pthread_self();
    (void)dlopen("libgcc_s.so.1", RTLD_NOW); // which pthread_exit needs
    begin();
    note_state("alive");
    if (write_notes() || leave(after_leaving) || pthread_create(&worker, NULL, work_alone, &me))
        return 77;
    pthread_exit(NULL);
}

// ---- settings of the process
static pid_t main_thread;
static volatile sig_atomic_t hits, astray;

static void on_signal(int n) {
    (void)n;
    hits++;
    astray |= gettid() != main_thread;
}

static void set_timers(void) {
    const struct itimerval soon = {{700, 0}, {900, 0}};
    const struct itimerspec later = {{50, 0}, {9000, 0}};
    struct sigevent by = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 3};
    timer_t timer;
    setitimer(ITIMER_REAL, &soon, NULL);
    setitimer(ITIMER_VIRTUAL, &soon, NULL);
    if (!timer_create(CLOCK_MONOTONIC, &by, &timer))
        timer_settime(timer, 0, &later, NULL);
}

static void set_signals(void) {
    static char stack[64 << 10];
    const stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    sigset_t some;
    sigaltstack(&other, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGUSR1, on_signal);
    sigemptyset(&some);
    sigaddset(&some, SIGUSR2);
    sigaddset(&some, SIGRTMIN + 5);
    pthread_sigmask(SIG_BLOCK, &some, NULL);
    raise(SIGUSR2); // stays pending
}

static void set_limits(void) {
    const struct rlimit files = {300, 400}, none = {0, 0};
    setrlimit(RLIMIT_NOFILE, &files);
    setrlimit(RLIMIT_CORE, &none);
    umask(027);
    errno = 0;
    (void)!nice(3);
    prctl(PR_SET_NAME, "a server");
    prctl(PR_SET_TIMERSLACK, 70000);
    prctl(PR_SET_PDEATHSIG, SIGHUP);
    if (mkdir("sub", 0755) || chdir("sub"))
        abort();
}

static int has_settings(const char *unused) {
    (void)unused;
    main_thread = gettid();
    keep_place_of_notes();
    set_limits();
    set_signals();
    set_timers();
    note_state("set");
    begin();
    for (int i = 0; i < 100; i++) {
        kill(getpid(), SIGUSR1);
        use(1);
    }
    refuse();
    note("handled %d, in another thread %d\n", hits > 0, (int)astray);
    return 0;
}

// ---- children
static void wait_for(const char *what, pid_t pid) {
    int status = -1;
    note("%s: %s", what, waitpid(pid, &status, 0) == pid ? "" : strerror(errno));
    note("status %x\n", (unsigned)status);
}

static char *const *plain_arguments(void) {
    static char name[] = "host", kind[] = "plain", *arguments[] = {name, kind, NULL};
    return arguments;
}

static int notes_itself(const char *unused) {
    (void)unused;
    return 0;
}

static void fork_and_note(void) {
    const pid_t pid = fork();
    if (!pid) {
        note_state("a forked child");
        _exit(write_notes());
    }
    wait_for("fork", pid);
}

static void spawn(void) {
    pid_t pid = 0;
    if (posix_spawn(&pid, "/proc/self/exe", NULL, NULL, plain_arguments(), environ))
        abort();
    wait_for("posix_spawn", pid);
}

static int starts_children(const char *unused) {
    (void)unused;
    begin();
    refuse();
    if (write_notes())
        return 1;
    fork_and_note();
    note("system: %x\n", (unsigned)system("/proc/$$/exe -c 'exit 3'"));
    const pid_t pid = vfork();
    if (!pid) {
        execv("/proc/self/exe", plain_arguments()); // NOLINT(clang-analyzer-unix.Vfork)
        _exit(127);
    }
    wait_for("vfork and exec", pid);
    spawn();
    use(10);
    return 0;
}

static int becomes_another(const char *unused) {
    (void)unused;
    begin();
    run_threads(4, 0, use_in_thread, (void *)10);
    if (!write_notes())
        execv("/proc/self/exe", plain_arguments());
    return 127;
}

// As daemon(3) does it: another session, /dev/null, the root folder.
static int daemonises(const char *unused) {
    int ends[2];
    char c;
    (void)unused;
    keep_place_of_notes();
    if (pipe2(ends, O_CLOEXEC))
        return 1;
    const pid_t pid = fork();
    if (pid) {
        close(ends[1]);
        (void)!read(ends[0], &c, 1); // until the daemon has ended
        wait_for("the first child", pid);
        return 0;
    }
    if (daemon(0, 0))
        abort();
    begin();
    use(10);
    refuse();
    note_state("a daemon");
    exit(write_notes());
}

const struct kind process_kinds[] = {{"main-leaves", main_leaves},
                                     {"has-settings", has_settings},
                                     {"starts-children", starts_children},
                                     {"becomes-another", becomes_another},
                                     {"daemonises", daemonises},
                                     {"plain", notes_itself},
                                     {NULL, NULL}};
