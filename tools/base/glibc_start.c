// SPDX-License-Identifier: Apache-2.0
// The start of a program that is built with a new glibc and runs with an old one.
//
// Since glibc 2.34 the start file (Scrt1.o) asks for __libc_start_main@GLIBC_2.34, which runs the
// program's constructors itself. The version before is still exported, and leaves them to a
// function that it is given. The linker replaces the start file's call by this function
// (--wrap=__libc_start_main), and the old version is asked for as that of other functions is:
// scripts/glibc-symvers.sh.
#include <stddef.h>

typedef int main_function(int, char **, char **);
typedef void constructor(int, char **, char **);

// Of the linker, and of the start files.
extern constructor *const __init_array_start[] __attribute__((visibility("hidden")));
extern constructor *const __init_array_end[] __attribute__((visibility("hidden")));
extern void _init(void);

extern int __real___libc_start_main(main_function *, int, char **, constructor *, void (*)(void),
                                    void (*)(void), void *);
int __wrap___libc_start_main(main_function *, int, char **, constructor *, void (*)(void),
                             void (*)(void), void *);

static void run_constructors(int argc, char **argv, char **environment) {
    _init();
    for (constructor *const *c = __init_array_start; c < __init_array_end; c++)
        (*c)(argc, argv, environment);
}

// `init` and `fini` are those of a start file of glibc before 2.34, or NULL.
int __wrap___libc_start_main(main_function *main, int argc, char **argv, constructor *init,
                             void (*fini)(void), void (*rtld_fini)(void), void *stack_end) {
    return __real___libc_start_main(main, argc, argv, init ? init : run_constructors, fini,
                                    rtld_fini, stack_end);
}
