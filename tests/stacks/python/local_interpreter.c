// SPDX-License-Identifier: Apache-2.0
// A program with an interpreter that it initializes and finalizes several times:
// local_interpreter LIBPYTHON local|global SCRIPT TIMES. The script calls here(), which allocates
// as many bytes as it returns, every second time without the GIL. C code allocates before there is
// an interpreter, while it runs, in another thread, and after its end.
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct py_object py_object;
typedef py_object *method(py_object *self, py_object *arguments);
struct method_definition {
    const char *name;
    method *function;
    int flags;
    const char *help;
};

static struct {
    void (*Py_InitializeEx)(int);
    int (*Py_FinalizeEx)(void);
    int (*PyRun_SimpleString)(const char *);
    py_object *(*PyImport_ImportModule)(const char *);
    py_object *(*PyCFunction_NewEx)(struct method_definition *, py_object *, py_object *);
    int (*PyObject_SetAttrString)(py_object *, const char *, py_object *);
    py_object *(*PyLong_FromLong)(long);
    void *(*PyEval_SaveThread)(void);
    void (*PyEval_RestoreThread)(void *);
} python;
static struct {
    int (*cuInit)(unsigned);
    int (*cuDevicePrimaryCtxRetain)(void **, int);
    int (*cuCtxSetCurrent)(void *);
    int (*cuMemAlloc_v2)(uint64_t *, size_t);
} cuda;
static void *context;

static void check(int good, const char *what) {
    if (!good) {
        fprintf(stderr, "local_interpreter: %s: %s\n", what, dlerror());
        exit(1);
    }
}

static void look_up(void *library, void *at, const char *name) {
    check((*(void **)at = dlsym(library, name)) != NULL, name);
}
#define LOOK_UP(library, table, name) look_up(library, &(table).name, #name)

static long allocate(void) {
    static long bytes;
    uint64_t p;
    check(!cuda.cuMemAlloc_v2(&p, (size_t)++bytes), "cuMemAlloc");
    return bytes;
}

static void allocate_in_c(void) {
    printf("[%ld, []]\n", allocate());
    fflush(stdout);
}

static void *allocate_in_thread(void *unused) {
    check(!cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent");
    allocate_in_c();
    return unused;
}

static py_object *here(py_object *self, py_object *arguments) {
    static int calls;
    (void)self;
    (void)arguments;
    if (calls++ % 2)
        return python.PyLong_FromLong(allocate());
    void *const thread = python.PyEval_SaveThread(); // as extensions do around a long call
    const long bytes = allocate();
    python.PyEval_RestoreThread(thread);
    return python.PyLong_FromLong(bytes);
}

static void begin_driver(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    check(library != NULL, "libcuda");
    LOOK_UP(library, cuda, cuInit);
    LOOK_UP(library, cuda, cuDevicePrimaryCtxRetain);
    LOOK_UP(library, cuda, cuCtxSetCurrent);
    LOOK_UP(library, cuda, cuMemAlloc_v2);
    check(!cuda.cuInit(0) && !cuda.cuDevicePrimaryCtxRetain(&context, 0) &&
              !cuda.cuCtxSetCurrent(context),
          "driver");
}

static void begin_python(const char *path, const char *scope) {
    const int global = !strcmp(scope, "global");
    void *library = dlopen(path, RTLD_NOW | (global ? RTLD_GLOBAL : RTLD_LOCAL));
    check(library != NULL, path);
    LOOK_UP(library, python, Py_InitializeEx);
    LOOK_UP(library, python, Py_FinalizeEx);
    LOOK_UP(library, python, PyRun_SimpleString);
    LOOK_UP(library, python, PyImport_ImportModule);
    LOOK_UP(library, python, PyCFunction_NewEx);
    LOOK_UP(library, python, PyObject_SetAttrString);
    LOOK_UP(library, python, PyLong_FromLong);
    LOOK_UP(library, python, PyEval_SaveThread);
    LOOK_UP(library, python, PyEval_RestoreThread);
}

static char *read_all(const char *path) {
    static char text[65536];
    FILE *f = fopen(path, "r");
    check(f != NULL, path);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    return text;
}

int main(int argc, char **argv) {
    static struct method_definition definition = {"here", here, 4 /* METH_NOARGS */, NULL};
    pthread_t thread;
    check(argc == 5, "usage: local_interpreter LIBPYTHON local|global SCRIPT TIMES");
    begin_driver();
    allocate_in_c();
    begin_python(argv[1], argv[2]);
    const char *script = read_all(argv[3]);
    for (int i = 0; i < atoi(argv[4]); i++) {
        python.Py_InitializeEx(0);
        py_object *function = python.PyCFunction_NewEx(&definition, NULL, NULL);
        check(!python.PyObject_SetAttrString(python.PyImport_ImportModule("builtins"), "here",
                                             function),
              "here");
        check(!python.PyRun_SimpleString(script), "the script");
        allocate_in_c();
        check(!pthread_create(&thread, NULL, allocate_in_thread, NULL), "a thread");
        pthread_join(thread, NULL);
        check(!python.Py_FinalizeEx(), "the end");
        allocate_in_c();
    }
    return 0;
}
