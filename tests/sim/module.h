// SPDX-License-Identifier: Apache-2.0
// Modules, libraries and their functions, as module.c and function.c share them.
#ifndef SIM_MODULE_H
#define SIM_MODULE_H

#include "sim.h"

#define SIM_FUNCTION_ATTRIBUTES (CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE + 1)

struct sim_library {
    struct sim_object o;
};

struct sim_module {
    struct sim_object o;
    struct sim_library *library; // that it was made for, or NULL
    bool loaded;
};

struct sim_function { // kernels of a library are functions without a module
    struct sim_object o;
    struct sim_module *module;
    struct sim_library *library;
    struct sim_function *kernel; // whose attributes it shares, or NULL
    int attributes[SIM_FUNCTION_ATTRIBUTES];
    char name[64];
};

// The function of a module, or the kernel of a library, of this name.
struct sim_function *sim_function_get(struct sim_module *m, struct sim_library *library,
                                      const char *name);
// What a handle stands for, a function's or a kernel's: both may be passed as a CUfunction.
struct sim_function *sim_function_find(const void *handle);
void sim_function_begin(struct sim_function *f); // gives it the attributes of a new function
int sim_function_attribute(const struct sim_function *f, CUfunction_attribute attribute);

#endif
