// SPDX-License-Identifier: Apache-2.0
// The writer thread: drains the rings, names the addresses of stacks, samples the devices through
// NVML.
#ifndef CT_WRITER_THREAD_H
#define CT_WRITER_THREAD_H

// Starts the thread. Returns 0, or -errno.
int ct_writer_thread_start(void);

// Whether the thread runs. Without it, the threads that publish drain the rings themselves.
int ct_writer_thread_runs(void);

// Gives names to the frames that have none, and drains, so that the names are in the trace. The
// thread's own work, and at the exit the exiting thread's. Drain lock not held. Waits up to `ms`
// milliseconds for another thread that does the same. Returns 1 if it took over a changed list of
// loaded objects, 0 if not, or -EBUSY.
int ct_writer_thread_name_pending(unsigned ms);

// At the exit: records what other parts of the library want noted in the trace, and waits, for a
// bounded time, until a note that the writer thread is recording is published.
void ct_writer_thread_finish_notes(void);

// At the exit: waits, for at most a second, until the writer thread has read the command lines of
// the process's ancestors and the versions of its packages, and has made its last survey.
void ct_writer_thread_finish_reading(void);

// A forked child, whose main thread is the calling one.
void ct_writer_thread_after_fork(void);

#endif
