// SPDX-License-Identifier: Apache-2.0
// Runs a program as a child that cannot tell it from one which took this program's place: the same
// process group, terminal and open files. Signals and job control reach it.
#ifndef CT_SUPERVISE_H
#define CT_SUPERVISE_H

#include <signal.h>
#include <sys/types.h>

struct ct_supervised {
    char **command;
    int (*prepare)(void *cookie); // in the child: -1: errno says why it cannot be started
    void *cookie;
    pid_t pid;
    int status;      // as of waitpid
    int start_errno; // it was never executed
    int is_prepared; // `start_errno` is of the execution, not of `prepare`
};

// Returns when the program has ended: 0, or -1: it could not be started. Afterwards the signals
// that were forwarded stay blocked; ct_supervise_signals() has them.
int ct_supervise(struct ct_supervised *s);
const sigset_t *ct_supervise_signals(void);
// Sets the signals as they were before ct_supervise, in a child that executes another program.
void ct_supervise_restore_signals(void);
// Ends this program as the other one has ended. Returns the exit code if that was no signal, or if
// the signal cannot end this process.
int ct_supervise_end_alike(int status);
// "SIGKILL"; NULL: it has no name here.
const char *ct_supervise_signal_name(int signal);

#endif
