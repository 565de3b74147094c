// SPDX-License-Identifier: Apache-2.0
// Which libcupti to use, and who else uses one.
#ifndef CT_CUPTI_FIND_H
#define CT_CUPTI_FIND_H

#include <stddef.h>

// A handle of libcupti, and its path; NULL: there is none. In this order: the one that is loaded;
// CUTRACE_CUPTI; beside a loaded libcudart (NVIDIA's pip packages, a toolkit's folders);
// CUDA_HOME/extras/CUPTI/lib64; where the loader looks. Of several versions the one of the loaded
// libcudart, else the newest that is not newer than the driver, else any.
void *ct_cupti_find_library(char *path, size_t bytes);

// The base name of a loaded library with a profiler whose subscription at CUPTI would go unnoticed:
// CUPTI is a part of it, or `is_watched` is 0, for want of hooks on cuptiSubscribe. NULL: there is
// none. Takes the loader's lock.
const char *ct_cupti_find_unwatched(int is_watched);

#endif
