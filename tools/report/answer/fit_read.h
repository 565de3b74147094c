// SPDX-License-Identifier: Apache-2.0
// What a run took of each device and, of a vLLM server, how far its settings could go: read once
// for the view fit, and for every view that advises a value, so that all name the same one.
#ifndef CT_FIT_READ_H
#define CT_FIT_READ_H

#include "analyze/device_need.h"
#include "analyze/server_memory.h"
#include "answer/view.h"
#include "diagnose/vllm_fit.h"
#include "read/facts.h"

struct ct_fit_read {
    struct ct_view *v;
    struct ct_scan scan;
    struct ct_device_needs needs;
    struct ct_server_memories servers;
    struct ct_facts facts;
};

struct ct_fit_vllm {
    struct ct_vllm_budget budget;
    struct ct_vllm_fit fit;
};

// One pass over the whole trace. `f` is all 0 before it.
void ct_fit_read_run(struct ct_fit_read *f, struct ct_view *v);
void ct_fit_read_free(struct ct_fit_read *f);

// The budget of a server on a device, on which --capacity asks about another size, and its bounds.
// Returns 0 if the process was no server of vLLM's there.
int ct_fit_read_vllm(const struct ct_fit_read *f, int device, struct ct_fit_vllm *to);

#endif
