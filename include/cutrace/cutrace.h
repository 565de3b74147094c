// SPDX-License-Identifier: Apache-2.0
// Annotations of a program for cutrace: marks, ranges, and sub-allocations of the program's own
// pools. Header-only, for C99 and C++11; nothing to link with, and no cost to speak of where
// nothing listens: one load and a branch (tests/interception/test_annotations.py looks at the
// instructions).
//
//   #include <cutrace/cutrace.h>
//   cutrace_range_push("load weights");
//   ...
//   cutrace_range_pop();
//
// The program looks for libcutrace.so once in each of its modules, at the module's first call of
// one of these functions. If libcutrace.so is not loaded by then, the module's annotations are not
// heard.
//
// Threads: every function may be called in any thread at any time. Ranges belong to the calling
// thread and nest: pop ends the range that was pushed last. No function blocks, allocates memory of
// the program, changes errno or fails.
//
// Names: UTF-8 by intent, any bytes possible; they are copied before the call returns. 200 bytes of
// a name are kept. Names should be few: after some thousand different ones digits are replaced by
// '#'. NULL is a name that is not known.
//
// Sizes are bytes. A sub-allocation is memory that a pool of the program's hands out, of memory
// that the pool has from CUDA: it does not count as memory beyond that.
//
// From Python, without this header:
//
//   import contextlib, ctypes
//   me = ctypes.CDLL(None)
//   push = getattr(me, "cutrace_range_push", None)  # None: libcutrace.so is not loaded
//   pop = getattr(me, "cutrace_range_pop", None)
//   @contextlib.contextmanager
//   def cutrace_range(name):
//       if push: push(name.encode())
//       try: yield
//       finally:
//           if pop: pop()
#ifndef CUTRACE_H
#define CUTRACE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

// What libcutrace.so exports as `cutrace_annotations_1`. A later version may append members.
struct cutrace_annotations {
    size_t bytes; // sizeof(struct cutrace_annotations) of the library
    void (*mark)(const char *name);
    void (*range_push)(const char *name);
    void (*range_pop)(void);
    void (*pool_alloc)(const char *pool, const void *ptr, size_t bytes);
    void (*pool_free)(const char *pool, const void *ptr);
};

#ifndef CUTRACE_TYPES_ONLY

// Weak: before glibc 2.34 it is in libdl, with which the program need not be linked. Under a name
// of its own, so that it fits any declaration of <dlfcn.h>.
extern void *cutrace_dlsym_(void *handle, const char *name) __asm__("dlsym") __attribute__((weak));

#define CUTRACE_SHARED_ __attribute__((weak, visibility("hidden")))

// One for each module. At first the functions that look for the library; then the library's, or
// NULL.
extern CUTRACE_SHARED_ const struct cutrace_annotations *cutrace_listener_;

CUTRACE_SHARED_ const struct cutrace_annotations *cutrace_find_(void);
CUTRACE_SHARED_ const struct cutrace_annotations *cutrace_find_(void) {
    const struct cutrace_annotations *found =
        cutrace_dlsym_
            ? (const struct cutrace_annotations *)cutrace_dlsym_(NULL, "cutrace_annotations_1")
            : NULL;
    __atomic_store_n(&cutrace_listener_, found, __ATOMIC_RELEASE);
    return found;
}

CUTRACE_SHARED_ void cutrace_first_mark_(const char *name);
CUTRACE_SHARED_ void cutrace_first_mark_(const char *name) {
    const struct cutrace_annotations *a = cutrace_find_();
    if (a)
        a->mark(name);
}
CUTRACE_SHARED_ void cutrace_first_push_(const char *name);
CUTRACE_SHARED_ void cutrace_first_push_(const char *name) {
    const struct cutrace_annotations *a = cutrace_find_();
    if (a)
        a->range_push(name);
}
CUTRACE_SHARED_ void cutrace_first_pop_(void);
CUTRACE_SHARED_ void cutrace_first_pop_(void) {
    const struct cutrace_annotations *a = cutrace_find_();
    if (a)
        a->range_pop();
}
CUTRACE_SHARED_ void cutrace_first_alloc_(const char *pool, const void *ptr, size_t bytes);
CUTRACE_SHARED_ void cutrace_first_alloc_(const char *pool, const void *ptr, size_t bytes) {
    const struct cutrace_annotations *a = cutrace_find_();
    if (a)
        a->pool_alloc(pool, ptr, bytes);
}
CUTRACE_SHARED_ void cutrace_first_free_(const char *pool, const void *ptr);
CUTRACE_SHARED_ void cutrace_first_free_(const char *pool, const void *ptr) {
    const struct cutrace_annotations *a = cutrace_find_();
    if (a)
        a->pool_free(pool, ptr);
}

extern CUTRACE_SHARED_ const struct cutrace_annotations cutrace_first_;
const struct cutrace_annotations cutrace_first_ = {
    sizeof(struct cutrace_annotations),
    cutrace_first_mark_,
    cutrace_first_push_,
    cutrace_first_pop_,
    cutrace_first_alloc_,
    cutrace_first_free_,
};
const struct cutrace_annotations *cutrace_listener_ = &cutrace_first_;

#define CUTRACE_CALL_(function, arguments)                         \
    do {                                                           \
        const struct cutrace_annotations *const listener_ =        \
            __atomic_load_n(&cutrace_listener_, __ATOMIC_ACQUIRE); \
        if (__builtin_expect(listener_ != NULL, 0))                \
            listener_->function arguments;                         \
    } while (0)

// Marks a moment.
static inline void cutrace_mark(const char *name) {
    CUTRACE_CALL_(mark, (name));
}

// Begins a range of the calling thread, which lasts until the pop that belongs to it.
static inline void cutrace_range_push(const char *name) {
    CUTRACE_CALL_(range_push, (name));
}
static inline void cutrace_range_pop(void) {
    CUTRACE_CALL_(range_pop, ());
}

// A pool of the program's has handed out `bytes` at `ptr`: call this after it did. `pool` names it.
static inline void cutrace_pool_alloc(const char *pool, const void *ptr, size_t bytes) {
    CUTRACE_CALL_(pool_alloc, (pool, ptr, bytes));
}
// It takes the memory back: call this before it does, so that no other thread gets the address
// first.
static inline void cutrace_pool_free(const char *pool, const void *ptr) {
    CUTRACE_CALL_(pool_free, (pool, ptr));
}

#undef CUTRACE_CALL_
#undef CUTRACE_SHARED_

#endif // CUTRACE_TYPES_ONLY

#ifdef __cplusplus
} // extern "C"

#ifndef CUTRACE_TYPES_ONLY
namespace cutrace {
// A range as long as the object lives.
class range {
  public:
    explicit range(const char *name) {
        cutrace_range_push(name);
    }
    ~range() {
        cutrace_range_pop();
    }
    range(const range &) = delete;
    range &operator=(const range &) = delete;
};
} // namespace cutrace
#endif
#endif

#endif
