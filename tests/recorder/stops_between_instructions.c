// SPDX-License-Identifier: Apache-2.0
// Stops a program between two of its instructions, many times:
//   stops_between_instructions MARK STOPS PROGRAM ARGUMENTS...
// The program runs until one of its threads makes its MARKth call of getpid (the simulated driver's
// ledger makes two in each driver call), or, with a negative MARK, until its thread "cutrace" wakes
// up for the -MARKth time. Then this thread is single-stepped while all others stand still. At each
// of STOPS stops it writes a line "stop N" and reads a line: "gN" continues by N instructions,
// anything else kills the program. The files are then what SIGKILL at that instruction leaves.
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t child;

static void die(const char *what) {
    fprintf(stderr, "stops_between_instructions: %s: %s\n", what, strerror(errno));
    if (child > 0)
        kill(child, SIGKILL);
    exit(2);
}

// The number of the system call that a stopped thread makes.
static long call_of(pid_t tid) {
    struct __ptrace_syscall_info info;
    if (ptrace(PTRACE_GET_SYSCALL_INFO, tid, (void *)sizeof info, &info) <= 0 ||
        info.op != PTRACE_SYSCALL_INFO_ENTRY)
        return -1;
    return (long)info.entry.nr;
}

static int is_named(pid_t tid, const char *name) {
    char path[64], text[32] = "";
    snprintf(path, sizeof path, "/proc/%d/task/%d/comm", child, tid);
    FILE *f = fopen(path, "r");
    if (f) {
        (void)!fgets(text, sizeof text, f);
        fclose(f);
    }
    text[strcspn(text, "\n")] = '\0';
    return !strcmp(text, name);
}

// Runs all threads, from system call to system call, until one is where it is wanted. Returns it,
// stopped.
static pid_t run_to(int mark, const char *thread) {
    int status, seen = 0;
    pid_t asleep = 0;
    for (;;) {
        const pid_t tid = waitpid(-1, &status, __WALL);
        if (tid < 0)
            die("the program ended before its mark");
        if (!WIFSTOPPED(status))
            continue;
        const int number = WSTOPSIG(status), at_call = number == (SIGTRAP | 0x80);
        if (at_call && asleep == tid)
            return tid;
        const long call = at_call ? call_of(tid) : -1;
        if (!thread && call == SYS_getpid && ++seen == mark)
            return tid;
        if (thread && call == SYS_futex && is_named(tid, thread) && ++seen == mark)
            asleep = tid;
        // (stops at a new thread's begin, and events, are nobody's signals)
        const int pass = at_call || number == SIGSTOP || number == SIGTRAP ? 0 : number;
        if (ptrace(PTRACE_SYSCALL, tid, NULL, (void *)(long)pass) && errno != ESRCH)
            die("PTRACE_SYSCALL");
    }
}

static void stop_others(pid_t stepped) {
    char path[64];
    int status;
    snprintf(path, sizeof path, "/proc/%d/task", child);
    DIR *tasks = opendir(path);
    for (struct dirent *e; tasks && (e = readdir(tasks));) {
        const pid_t tid = atoi(e->d_name);
        if (tid <= 0 || tid == stepped)
            continue;
        if (syscall(SYS_tgkill, child, tid, SIGSTOP) == 0)
            (void)waitpid(tid, &status, __WALL);
    }
    if (tasks)
        closedir(tasks);
}

static void step(pid_t tid, long steps) {
    char line[16];
    int status;
    for (long i = 0; i < steps; i++) {
        printf("stop %ld\n", i);
        fflush(stdout);
        if (!fgets(line, sizeof line, stdin) || *line != 'g')
            return;
        for (int n = atoi(line + 1) > 0 ? atoi(line + 1) : 1; n > 0; n--)
            if (ptrace(PTRACE_SINGLESTEP, tid, NULL, NULL) ||
                waitpid(tid, &status, __WALL) != tid || !WIFSTOPPED(status))
                return;
    }
}

int main(int argc, char **argv) {
    if (argc < 4)
        return 2;
    const int mark = atoi(argv[1]);
    child = fork();
    if (child == 0) {
        setenv("LD_PRELOAD", getenv("STEPPER_PRELOAD") ? getenv("STEPPER_PRELOAD") : "", 1);
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        raise(SIGSTOP);
        execv(argv[3], argv + 3);
        _exit(127);
    }
    int status;
    if (waitpid(child, &status, 0) != child ||
        ptrace(PTRACE_SETOPTIONS, child, NULL,
               (void *)(long)(PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL)))
        die("PTRACE_TRACEME");
    ptrace(PTRACE_SYSCALL, child, NULL, NULL);
    const pid_t tid = run_to(abs(mark), mark < 0 ? "cutrace" : NULL);
    stop_others(tid);
    step(tid, atol(argv[2]));
    kill(child, SIGKILL);
    return 0;
}
