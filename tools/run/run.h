// SPDX-License-Identifier: Apache-2.0
// What cutrace run is made of, and the other commands take of it.
#ifndef CT_RUN_H
#define CT_RUN_H

#include <signal.h>
#include <stddef.h>
#include <sys/types.h>

// ---- preload.c ----------------------------------------------------------------------------------

// What a traced program finds in its environment: LD_PRELOAD, the injection of NVTX and of the
// driver, CUTRACE_*.

// The folder of this program, without a slash at its end; NULL: errno says why not.
const char *ct_preload_own_folder(void);
// The absolute path of libcutrace.so: beside this program, or where `make install` puts it. NULL:
// it is nowhere. Allocated.
char *ct_preload_find_library(void);
// The file in PATH that execvp would execute; NULL: there is none. `is_sure`: not one in a folder
// that depends on where this program was started. Allocated.
char *ct_preload_find_program(const char *name, int is_sure);
// Whether LD_PRELOAD can hold the path: blanks and colons separate its entries.
int ct_preload_can_hold(const char *library);

struct ct_preload {
    const char *library;
    const char *output;     // of --output, or NULL
    const char *trace_list; // the file that traces are listed in, or NULL
    int quiet, inject;
};
// Sets the variables in this process. Returns 0, or -1: errno says why not.
int ct_preload_set_environment(const struct ct_preload *p);

// ---- supervise.c --------------------------------------------------------------------------------

// Runs a program as a child that cannot tell it from one which took this program's place: the same
// process group, terminal and open files. Signals and job control reach it.

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

// ---- child.c ------------------------------------------------------------------------------------

// A child whose standard output this program reads to its end, and whose standard input and error
// are /dev/null.

enum ct_child_end {
    CT_CHILD_ENDED,
    CT_CHILD_STOPPED,     // by SIGINT, SIGTERM, SIGHUP or SIGQUIT to this program
    CT_CHILD_TOO_MUCH,    // it wrote more than `most`
    CT_CHILD_NOT_STARTED, // errno says why
};

struct ct_child {
    void (*become)(void *cookie); // in the child; it ends with 127 if that returns
    void *cookie;
    int signals; // a signalfd; -1: no signal is looked for
    size_t most; // bytes of output
    // What became of it:
    char *text; // NUL-terminated, for free(); NULL unless it ended
    size_t length;
    int status; // as of waitpid
};

// Returns when the child has ended; one that was stopped or wrote too much was killed.
enum ct_child_end ct_child_run(struct ct_child *c);

// ---- left_traces.c ------------------------------------------------------------------------------

// Which traces a run left, and what they show.

// The traces of a run: each process that begins one appends its path to a file, whose name is in
// CUTRACE_TRACE_LIST. So traces of other runs in the same folder are not taken for this one's.
struct ct_trace_list {
    char path[4096]; // of the file; "": there is none
    char **traces;   // in the order in which they began, each once
    size_t count;
};

// Makes the file, in $TMPDIR, /tmp or /dev/shm. Returns 0 or -1: nowhere.
int ct_trace_list_create(struct ct_trace_list *list);
// Reads it and removes it.
void ct_trace_list_take(struct ct_trace_list *list);
void ct_trace_list_free(struct ct_trace_list *list);

// One line for each trace on stderr, and the verdict if the program or a request for memory failed.
// `pid` and `status` (as of waitpid): of the program.
void ct_left_traces_print(const struct ct_trace_list *list, pid_t pid, int status);

#endif
