// SPDX-License-Identifier: Apache-2.0
// Programs that do what servers, daemons and their libraries do, and note what they find of
// themselves in the system: a run with the library is compared with one without it. All of them are
// one program, `host KIND [ARGUMENT]`; a kind is a function in one of the tables below.
#ifndef WAYS_HOST_H
#define WAYS_HOST_H

#include "cu.h"

struct kind {
    const char *name;
    int (*run)(const char *argument); // returns the exit status
};
// Each ends with an empty row.
extern const struct kind descriptor_kinds[], process_kinds[], thread_kinds[];

// ---- what it finds (host_state.c)
// It is kept in memory and written at the end: a file that was open meanwhile would be a descriptor
// of its own.

void note(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Notes descriptors, locks, limits, timers, signals and more, all of the whole process.
void note_state(const char *when);

// The same of the calling thread's descriptors alone: number, flags, what each leads to.
void note_descriptors(void);

// Adds what was noted to the file "state". Returns whether that failed.
int write_notes(void);

// Where that file is: in the folder of the moment, wherever the program goes from there.
void keep_place_of_notes(void);

// ---- calls of the driver (host.c)
// Wrong results, and calls that changed errno, are counted, and noted at the end.

// The first call: the context is current in this thread, then.
void begin(void);

// Allocates and frees so many times.
void use(int pairs);

// An allocation that is refused: the library has said so on stderr when this returns.
void refuse(void);

// For pthread_create: makes the context current, and uses it (intptr_t)pairs times.
void *use_in_thread(void *pairs);

// Starts so many threads at once and waits for them; each is given `argument`, or its number if
// that is NULL. `stack_bytes` 0: the usual ones.
void run_threads(int threads, size_t stack_bytes, void *(*run)(void *), void *argument);

#endif
