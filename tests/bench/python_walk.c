// SPDX-License-Identifier: Apache-2.0
// Measures, in the interpreter that has loaded it, what a stack of Python frames costs: walked and
// looked up, and asked of the C API with the GIL.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "../../preload/base/pages.h"
#include "record/tracing.h"
#include "stack/capture.h"
#include "stack/python_find.h"
#include "stack/python_walk.h"
#include "store/ring.h"
#include "store/stack_table.h"

#define EXPORT __attribute__((visibility("default")))
#define MOST 1024
#define IDS 4096u

static struct ct_ring *ring;
static struct ct_python_frame frames[MOST];
static struct {
    uint64_t hash;
    uint32_t id;
} ids[IDS];

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

// ---- the walk -----------------------------------------------------------------------------------

static __attribute__((noinline)) uint32_t new_id(uint64_t hash, size_t n) {
    static uint64_t words[MOST];
    for (size_t i = 0; i < n; i++)
        words[i] = ct_python_intern_frame(ring, &frames[i]);
    ids[hash % IDS].hash = hash;
    return ids[hash % IDS].id = ct_stack_table_intern(words, n);
}

static uint32_t by_walk(void) {
    uint64_t hash;
    int more;
    const size_t n = ct_python_walk(ring, frames, MOST, &hash, &more);
    return ids[hash % IDS].hash == hash ? ids[hash % IDS].id : new_id(hash, n);
}

// ---- as a hook takes it: with native frames -----------------------------------------------------

static uint32_t by_hook(void) {
    return ct_capture_stack();
}

// ---- the C API ----------------------------------------------------------------------------------

typedef struct py_object py_object;
static struct {
    int (*ensure)(void);
    void (*release)(int);
    void *(*thread)(void);
    py_object *(*frame)(void *), *(*back)(py_object *), *(*code)(py_object *);
    int (*line)(py_object *);
    const char *(*text)(py_object *);
    void (*forget)(py_object *);
} api;
static unsigned name_at, file_at;

static int look_up(void) {
    static const char *const names[] = {
        "PyGILState_Ensure",      "PyGILState_Release", "PyThreadState_Get",
        "PyThreadState_GetFrame", "PyFrame_GetBack",    "PyFrame_GetCode",
        "PyFrame_GetLineNumber",  "PyUnicode_AsUTF8",   "Py_DecRef"};
    void **at = (void **)&api;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!(at[i] = dlsym(RTLD_DEFAULT, names[i])))
            return -1;
    return 0;
}

static py_object *member(py_object *object, unsigned at) {
    return *(py_object **)(void *)((char *)object + at);
}

static uint32_t by_api(void) {
    uintptr_t sum = 0;
    const int held = api.ensure();
    for (py_object *f = api.frame(api.thread()), *back; f; f = back) {
        py_object *const code = api.code(f);
        sum += (uintptr_t)api.line(f) + (uintptr_t)api.text(member(code, name_at)) +
               (uintptr_t)api.text(member(code, file_at));
        api.forget(code);
        back = api.back(f);
        api.forget(f);
    }
    api.release(held);
    return (uint32_t)sum;
}

// ---- what Python calls, without the GIL ---------------------------------------------------------

// name, file: where a code object has them. Returns 0 if all is there.
EXPORT int bench_begin(unsigned name, unsigned file);
EXPORT int bench_begin(unsigned name, unsigned file) {
    ct_tracing_open();
    name_at = name;
    file_at = file;
    ring = ct_ring_claim();
    // (The recorder's own thread may just be looking at the loaded objects.)
    for (int i = 0; i < 1000 && ct_python_find() <= 0; i++)
        usleep(1000);
    return !ct_python_is_found() || look_up();
}

// `how` in what follows.
static uint32_t (*const ways[])(void) = {by_api, by_walk, by_hook};

// Native and Python frames of a stack as a hook takes it, above each other.
EXPORT void bench_frames(unsigned *native, unsigned *python);
EXPORT void bench_frames(unsigned *native, unsigned *python) {
    const struct ct_stack_entry *const e = ct_stack_table_get(ct_capture_stack());
    const struct ct_capture_counts c = ct_capture_counts();
    *native = *python = 0;
    if (getenv("BENCH_COUNTS"))
        fprintf(stderr, "recalled %lu walked %lu unwound %lu\n", c.recalled, c.walked, c.unwound);
    for (uint32_t i = 0; e && i < e->frames; i++)
        ++*(ct_frame_word_is_native(e->frame[i]) ? native : python);
}

// The least time of a stack, in nanoseconds, of `times` bursts of 100.
EXPORT double bench_least(int how, int times);
EXPORT double bench_least(int how, int times) {
    uint32_t (*const by)(void) = ways[how];
    double least = 1e9;
    for (int i = 0; i < times; i++) {
        const double start = now();
        for (int k = 0; k < 100; k++)
            (void)by();
        const double took = (now() - start) / 100;
        least = took < least ? took : least;
    }
    return least;
}

static int before(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// The time of a single one.
EXPORT double bench_once(int how);
EXPORT double bench_once(int how) {
    const double start = now();
    (void)ways[how]();
    return now() - start;
}

// Quantiles of single stacks between which the thread works for so long: 50, 90 and 99 %, and the
// greatest.
EXPORT void bench_quantiles(int how, int times, double work_ns, double *out);
EXPORT void bench_quantiles(int how, int times, double work_ns, double *out) {
    uint32_t (*const by)(void) = ways[how];
    double *const took = ct_pages_map((size_t)times * sizeof *took);
    for (int i = 0; i < times; i++) {
        const double begin = now();
        while (now() < begin + work_ns)
            ;
        const double start = now();
        (void)by();
        took[i] = now() - start;
    }
    qsort(took, (size_t)times, sizeof *took, before);
    out[0] = took[times / 2];
    out[1] = took[times * 9 / 10];
    out[2] = took[times * 99 / 100];
    out[3] = took[times - 1];
    ct_pages_unmap(took, (size_t)times * sizeof *took);
}
