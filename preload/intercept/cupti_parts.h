// SPDX-License-Identifier: Apache-2.0
// What the files of the CUPTI backend have for cupti.c and for each other.
#ifndef CT_CUPTI_PARTS_H
#define CT_CUPTI_PARTS_H

#include <stddef.h>
#include <stdint.h>

#include "intercept/hook_table.h"

// ---- cupti_find.c ----------------------------------------------------------------------------

// Which libcupti to use, and who else uses one.

// A handle of libcupti, and its path; NULL: there is none. In this order: the one that is loaded;
// CUTRACE_CUPTI; beside a loaded libcudart (NVIDIA's pip packages, a toolkit's folders);
// CUDA_HOME/extras/CUPTI/lib64; where the loader looks. Of several versions the one of the loaded
// libcudart, else the newest that is not newer than the driver, else any.
void *ct_cupti_find_library(char *path, size_t bytes);

// The base name of a loaded library with a profiler whose subscription at CUPTI would go unnoticed:
// CUPTI is a part of it, or `is_watched` is 0, for want of hooks on cuptiSubscribe. NULL: there is
// none. Takes the loader's lock.
const char *ct_cupti_find_unwatched(int is_watched);

// ---- cupti_calls.c ---------------------------------------------------------------------------

// From a call-back of CUPTI's to the body of the call's hook.

// CUPTI's id of the driver function of a row. 0: no call-backs are wanted. (Resolvers make no
// events; rows that are recorded only if they run out of memory are called at each launch of a
// kernel, where a call-back would cost more than the launch.)
uint32_t ct_cupti_calls_id(enum ct_hook_id hook);

// CUpti_CallbackFunc. `userdata`: the number of the subscription.
void ct_cupti_calls_back(void *userdata, int domain, uint32_t cbid, const void *cbdata);

// ---- cupti_modules.c -------------------------------------------------------------------------

// Static data (`__device__` variables) of the modules that CUPTI shows: names and sizes, from the
// symbol table of the code, which is an ELF file (a cubin). For INFO.
//
// Why not by CUPTI's activity records (MEMORY2), which have them, too: README.md.

// Any thread, in a call-back. The code is not trusted.
void ct_cupti_modules_loaded(const void *cubin, size_t bytes);
void ct_cupti_modules_unloads(const void *cubin, size_t bytes);

void ct_cupti_modules_publish_info(void);

#endif
