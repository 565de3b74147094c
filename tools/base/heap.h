// SPDX-License-Identifier: Apache-2.0
// Heap memory for the tools. A failed allocation ends the program with one line and an exit code of
// its own, so that no caller has to check.
#ifndef CT_HEAP_H
#define CT_HEAP_H

#include <errno.h> // program_invocation_short_name
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"

_Noreturn static inline void ct_heap_exhausted(void) {
    // (fputs: fprintf may want memory)
    fputs(program_invocation_short_name, stderr);
    fputs(": out of memory: give it more, or a part of the trace (cutrace-report copy)\n", stderr);
    exit(CT_EXIT_MEMORY);
}

static inline void *ct_heap_resize(void *old, size_t count, size_t size) {
    if (size && count > SIZE_MAX / size)
        ct_heap_exhausted();
    const size_t bytes = count * size;
    void *p = realloc(old, bytes ? bytes : 1);
    if (!p)
        ct_heap_exhausted();
    return p;
}

static inline void *ct_heap_alloc_zeroed(size_t count, size_t size) {
    void *p = calloc(count ? count : 1, size ? size : 1);
    if (!p)
        ct_heap_exhausted();
    return p;
}

// A copy of n bytes as a text, which the caller frees.
static inline char *ct_heap_copy(const char *at, size_t n) {
    char *copy = ct_heap_resize(NULL, n + 1, 1);
    memcpy(copy, at, n);
    copy[n] = 0;
    return copy;
}

static inline char *ct_heap_copy_text(const char *text) {
    return ct_heap_copy(text, strlen(text));
}

// A stream whose text grows as it is printed; the caller frees the text, which is whole once it is
// closed.
static inline FILE *ct_heap_open_text(char **text, size_t *size) {
    FILE *out = open_memstream(text, size);
    if (!out)
        ct_heap_exhausted();
    return out;
}

static inline void ct_heap_close_text(FILE *out) {
    if (fclose(out))
        ct_heap_exhausted();
}

// Makes room for one more element in an array, whose capacity doubles. Evaluates its arguments more
// than once.
#define CT_HEAP_GROW(array, count, capacity)                                \
    do {                                                                    \
        if ((count) == (capacity)) {                                        \
            (capacity) = (capacity) ? (capacity)*2 : 16;                    \
            (array) = ct_heap_resize((array), (capacity), sizeof *(array)); \
        }                                                                   \
    } while (0)

// Makes an array as long as wanted, if it is shorter; what is added is zero. Evaluates its
// arguments more than once.
#define CT_HEAP_EXTEND(array, count, wanted)                                      \
    do {                                                                          \
        if ((count) < (wanted)) {                                                 \
            (array) = ct_heap_resize((array), (wanted), sizeof *(array));         \
            memset((array) + (count), 0, ((wanted) - (count)) * sizeof *(array)); \
            (count) = (wanted);                                                   \
        }                                                                         \
    } while (0)

// The same, so long that it has an element `index`: twice as long as before, if that is enough.
#define CT_HEAP_REACH(array, count, index) \
    CT_HEAP_EXTEND(array, count, (count)*2 > (index) + (size_t)1 ? (count)*2 : (index) + (size_t)64)

#endif
