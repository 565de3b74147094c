// SPDX-License-Identifier: Apache-2.0
// A program that embeds Python, and allocates GPU memory before Python's start, while it runs,
// after its end and after its second start: embeds_python LIBPYTHON LIBCUDA local|global
//
// The sizes tell the allocations apart: 1 before Python, 2 and 3 from Python (with the GIL, without
// it), 4 from C in a thread without Python while Python runs, 5 after the end, 6 from Python after
// its second start, 7 from C in the main thread.
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *driver, *python;

static void find(void *library, const char *name, void *function, size_t bytes) {
    void *const p = dlsym(library, name);
    if (!p) {
        fprintf(stderr, "no %s\n", name);
        exit(3);
    }
    memcpy(function, &p, bytes);
}

static void take(size_t bytes) {
    int (*alloc)(unsigned long long *, size_t);
    unsigned long long address;
    find(driver, "cuMemAlloc_v2", &alloc, sizeof alloc);
    if (alloc(&address, bytes))
        exit(4);
}

static void begin(void) {
    int (*init)(unsigned), (*retain)(void **, int), (*current)(void *);
    void *context;
    find(driver, "cuInit", &init, sizeof init);
    find(driver, "cuDevicePrimaryCtxRetain", &retain, sizeof retain);
    find(driver, "cuCtxSetCurrent", &current, sizeof current);
    if (init(0) || retain(&context, 0) || current(context))
        exit(5);
}

static void *in_thread(void *argument) {
    begin();
    take(*(size_t *)argument);
    return NULL;
}

// A function for Python, without a module that would have to find the interpreter's symbols.
static long (*as_long)(void *);
static void *(*long_from)(long);
static void *(*let_go)(void); // of the GIL
static void (*get_back)(void *);
static void *take_from_python(void *self, void *argument) {
    const size_t bytes = (size_t)as_long(argument);
    (void)self;
    if (bytes % 2) {
        void *const thread = let_go(); // as extensions do around a call that may take long
        take(bytes);
        get_back(thread);
    } else {
        take(bytes);
    }
    return long_from(0);
}

static struct {
    const char *name;
    void *(*function)(void *, void *);
    int flags;
    const char *help;
} method = {"take", take_from_python, 8 /* METH_O */, NULL};

static void run(size_t bytes) {
    char text[200];
    int (*run_string)(const char *, void *), (*set)(void *, const char *, void *);
    void *(*function)(void *, void *, void *), *(*module)(const char *);
    find(python, "PyRun_SimpleStringFlags", &run_string, sizeof run_string);
    find(python, "PyObject_SetAttrString", &set, sizeof set);
    find(python, "PyCFunction_NewEx", &function, sizeof function);
    find(python, "PyImport_AddModule", &module, sizeof module);
    find(python, "PyLong_AsLong", &as_long, sizeof as_long);
    find(python, "PyEval_SaveThread", &let_go, sizeof let_go);
    find(python, "PyEval_RestoreThread", &get_back, sizeof get_back);
    find(python, "PyLong_FromLong", &long_from, sizeof long_from);
    snprintf(text, sizeof text,
             "def inner(n):\n"
             "    take(n)\n"
             "def outer(n):\n"
             "    inner(n)\n"
             "outer(%zu)\n",
             bytes);
    if (set(module("__main__"), "take", function(&method, NULL, NULL)) || run_string(text, NULL))
        exit(6);
}

int main(int argc, char **argv) {
    void (*initialize)(void);
    int (*finalize)(void);
    pthread_t thread;
    size_t bytes = 4;
    if (argc < 4 || !(driver = dlopen(argv[2], RTLD_NOW)))
        return 2;
    begin();
    take(1);
    python = dlopen(argv[1], RTLD_NOW | (strcmp(argv[3], "local") ? RTLD_GLOBAL : RTLD_LOCAL));
    if (!python) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    find(python, "Py_Initialize", &initialize, sizeof initialize);
    find(python, "Py_FinalizeEx", &finalize, sizeof finalize);
    initialize();
    run(2);
    run(3);
    pthread_create(&thread, NULL, in_thread, &bytes);
    pthread_join(thread, NULL);
    finalize();
    take(5);
    initialize();
    run(6);
    take(7);
    return 0;
}
