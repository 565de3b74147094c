// SPDX-License-Identifier: Apache-2.0
// Preloaded into `cutrace run`: forces a race that is rare otherwise. RACE says which:
//   orphan     the launcher is killed when the program's process is about to ask for a signal when
//              it ends
//   continued  the program runs again when the launcher is about to hear that it has stopped
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int is_race(const char *name) {
    const char *race = getenv("RACE");
    return race && strcmp(race, name) == 0;
}

int prctl(int option, ...) {
    unsigned long a[4];
    va_list list;
    va_start(list, option);
    for (int i = 0; i < 4; i++)
        a[i] = va_arg(list, unsigned long);
    va_end(list);
    if (option == PR_SET_PDEATHSIG && is_race("orphan")) {
        const pid_t launcher = getppid();
        (void)kill(launcher, SIGKILL);
        while (getppid() == launcher)
            (void)sched_yield();
    }
    return (int)syscall(SYS_prctl, option, a[0], a[1], a[2], a[3]);
}

pid_t waitpid(pid_t pid, int *status, int options) {
    const pid_t found = (pid_t)syscall(SYS_wait4, pid, status, options, NULL);
    siginfo_t now = {0};
    if (found > 0 && status && WIFSTOPPED(*status) && is_race("continued")) {
        (void)kill(found, SIGCONT);
        while (waitid(P_PID, (id_t)found, &now, WCONTINUED | WNOWAIT) != 0)
            ;
    }
    return found;
}
