// SPDX-License-Identifier: Apache-2.0
// A program with an interpreter outside the global scope, initialized and finalized several times:
// local_interpreter LIBPYTHON SCRIPT TIMES. The script calls here(), which allocates as many bytes
// as it returns.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

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
} python;
static struct {
    int (*cuInit)(unsigned);
    int (*cuDevicePrimaryCtxRetain)(void **, int);
    int (*cuCtxSetCurrent)(void *);
    int (*cuMemAlloc_v2)(uint64_t *, size_t);
} cuda;

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

static py_object *here(py_object *self, py_object *arguments) {
    (void)self;
    (void)arguments;
    return python.PyLong_FromLong(allocate());
}

static void begin_driver(void) {
    void *context, *library = dlopen("libcuda.so.1", RTLD_NOW);
    check(library != NULL, "libcuda");
    LOOK_UP(library, cuda, cuInit);
    LOOK_UP(library, cuda, cuDevicePrimaryCtxRetain);
    LOOK_UP(library, cuda, cuCtxSetCurrent);
    LOOK_UP(library, cuda, cuMemAlloc_v2);
    check(!cuda.cuInit(0) && !cuda.cuDevicePrimaryCtxRetain(&context, 0) &&
              !cuda.cuCtxSetCurrent(context),
          "driver");
}

static void begin_python(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    check(library != NULL, path);
    LOOK_UP(library, python, Py_InitializeEx);
    LOOK_UP(library, python, Py_FinalizeEx);
    LOOK_UP(library, python, PyRun_SimpleString);
    LOOK_UP(library, python, PyImport_ImportModule);
    LOOK_UP(library, python, PyCFunction_NewEx);
    LOOK_UP(library, python, PyObject_SetAttrString);
    LOOK_UP(library, python, PyLong_FromLong);
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
    check(argc == 4, "usage: local_interpreter LIBPYTHON SCRIPT TIMES");
    begin_driver();
    printf("[%ld, []]\n", allocate()); // before there is an interpreter
    fflush(stdout);
    begin_python(argv[1]);
    const char *script = read_all(argv[2]);
    for (int i = 0; i < atoi(argv[3]); i++) {
        python.Py_InitializeEx(0);
        py_object *function = python.PyCFunction_NewEx(&definition, NULL, NULL);
        check(!python.PyObject_SetAttrString(python.PyImport_ImportModule("builtins"), "here",
                                             function),
              "here");
        check(!python.PyRun_SimpleString(script), "the script");
        check(!python.Py_FinalizeEx(), "the end");
        printf("[%ld, []]\n", allocate());
        fflush(stdout);
    }
    return 0;
}
