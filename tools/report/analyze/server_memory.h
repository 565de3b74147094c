// SPDX-License-Identifier: Apache-2.0
// What the parts of a vLLM server's budget took on a device, by the phases of its stacks: what was
// there before it, the profile run, the KV cache, and what steps need beside the cache.
#ifndef CT_SERVER_MEMORY_H
#define CT_SERVER_MEMORY_H

#include "analyze/device_need.h"
#include "analyze/phase_follow.h"

// The least of so many events is what stays between steps: a step takes and gives back its memory
// within fewer.
enum { CT_SERVER_WINDOW = 8192 };

struct ct_server_window {
    int known;
    uint64_t least, before; // of this window, of the one before; `before` UINT64_MAX: there is none
    uint64_t pending;       // since the last event that is of a step for certain
    unsigned events;
};

struct ct_server_memory {
    enum ct_framework framework; // whose phases the last events had; NONE: of no server
    // Free before vLLM takes anything but its context: what it read, or what was free when it began
    // to load.
    int start_known, start_is_read;
    uint64_t start_free;
    // The profile run: the most in PyTorch's blocks beyond what stays of it, and what was free
    // after it.
    int has_profile, behind_known;
    uint64_t profile_bytes, behind_free;
    int has_trial, has_graphs; // CUDA graphs were captured before the cache was made; after it
    // The KV cache, and what the buffers of the runner, among them block tables, those of the
    // sampler and the weights held then.
    int has_cache;
    uint64_t cache_bytes, cache_count, cache_event, cache_t_ns;
    uint64_t buffers_bytes, sampler_bytes, weights_bytes;
    struct ct_device_need since; // need of the process since then
    int serves;                  // a step of serving was seen
    int stays_known;
    uint64_t stays; // blocks and other allocations between the last steps, the cache among them
    int slept;
    // Working state.
    enum ct_phase phase; // of the last event whose stack has one
    int is_loading;      // or after it
    uint64_t profile_most;
    struct ct_server_window window;
};

struct ct_server_memories {
    struct ct_server_memory device[CT_DEVICES];
};

// For each event, after ct_replay_apply. `at`: its phase.
void ct_server_memories_note(struct ct_server_memories *m, struct ct_phases *phases,
                             const struct ct_phase_at *at, const struct ct_replay *r,
                             const struct ct_event *e, uint64_t number);
// After the last event; `s`: the scan of the same pass.
void ct_server_memories_finish(struct ct_server_memories *m, const struct ct_scan *s);

#endif
