// SPDX-License-Identifier: Apache-2.0
#include "diagnose/phase_scenarios.h"

static const struct {
    enum ct_phase phase;
    enum ct_scenario scenario;
    const char *summary;
} of_phase[] = {
    {CT_PHASE_WEIGHTS, CT_SCENARIO_STARTUP_WEIGHTS, "the weights do not fit on the device"},
    {CT_PHASE_REPACK, CT_SCENARIO_REPACK,
     "the weights fit, but their conversion after loading needs more than was left"},
    {CT_PHASE_LORA_LOAD, CT_SCENARIO_LORA,
     "LoRA adapters, or the room for them, needed more than was left"},
    {CT_PHASE_PROFILE, CT_SCENARIO_STARTUP_PROFILE,
     "the profile run, with the largest inputs that the settings allow, needs more than the weights "
     "leave"},
    {CT_PHASE_KV_CACHE, CT_SCENARIO_STARTUP_KV_POOL,
     "the KV cache itself is larger than what was left"},
    {CT_PHASE_BUFFERS, CT_SCENARIO_WARMUP,
     "the buffers that a computation needs did not fit beside what was there"},
    {CT_PHASE_WARMUP, CT_SCENARIO_WARMUP, "the warm-up needed more than the KV cache left"},
    {CT_PHASE_WARMUP_KERNELS, CT_SCENARIO_WARMUP,
     "the warm-up of kernels needed more than the KV cache left"},
    {CT_PHASE_WARMUP_SAMPLER, CT_SCENARIO_WARMUP,
     "the warm-up of the sampler needed more than the KV cache left"},
    {CT_PHASE_GRAPHS, CT_SCENARIO_GRAPH_CAPTURE,
     "the capture of CUDA graphs needed more than was left"},
    {CT_PHASE_PROFILE_GRAPHS, CT_SCENARIO_GRAPH_CAPTURE,
     "the trial capture of CUDA graphs needed more than was left"},
    {CT_PHASE_SERVE, CT_SCENARIO_BURST_PREFILL,
     "a step that serves requests needed more than was left"},
    {CT_PHASE_SERVE_DUMMY, CT_SCENARIO_BURST_PREFILL, "a dummy step needed more than was left"},
    {CT_PHASE_SLEEP, CT_SCENARIO_SLEEP_WAKE, "going to sleep needed more than was left"},
    {CT_PHASE_WAKE_UP, CT_SCENARIO_SLEEP_WAKE, "the wake-up needed more than was left"},
    {CT_PHASE_WEIGHT_SYNC, CT_SCENARIO_WEIGHT_SYNC,
     "an update of the weights needed more than was left"},
    {CT_PHASE_INIT_COMM, CT_SCENARIO_COMMUNICATION,
     "the set-up of communication needed more than was left"},
    {CT_PHASE_TRAIN_FORWARD, CT_SCENARIO_TRAINING_STEP,
     "the forward pass of a training step needed more than was left"},
    {CT_PHASE_TRAIN_BACKWARD, CT_SCENARIO_TRAINING_STEP,
     "the backward pass of a training step needed more than was left"},
    {CT_PHASE_TRAIN_OPTIMIZER, CT_SCENARIO_TRAINING_STEP,
     "the optimizer's step, or the making of its states, needed more than was left"},
    {CT_PHASE_TRAIN_OTHER, CT_SCENARIO_TRAINING_STEP, "a training step needed more than was left"},
};

// Parts of a server that name the scenario wherever they ask while it serves.
static const struct {
    enum ct_component component;
    enum ct_scenario scenario;
    const char *summary;
} of_component[] = {
    {CT_COMPONENT_LOGITS, CT_SCENARIO_LOGITS,
     "logits or log-probabilities of a step needed more than was left"},
    {CT_COMPONENT_LORA, CT_SCENARIO_LORA, "a LoRA adapter needed more than was left"},
    {CT_COMPONENT_VISION, CT_SCENARIO_MULTIMODAL,
     "an encoder of images or sounds needed more than was left"},
    {CT_COMPONENT_SPECULATIVE, CT_SCENARIO_SPECULATIVE,
     "speculative decoding needed more than was left"},
    {CT_COMPONENT_COMMUNICATION, CT_SCENARIO_COMMUNICATION,
     "communication between GPUs needed more than was left"},
};
enum { COMPONENTS = sizeof of_component / sizeof *of_component };

// A component makes the difference while a server serves and where no phase is known; an encoder's
// in the profile run, too, an adapter's while weights are loaded, and a draft model's in both.
static int counts(enum ct_phase phase, enum ct_scenario special) {
    switch (phase) {
    case CT_PHASE_SERVE:
    case CT_PHASE_SERVE_DUMMY:
        return 1;
    case CT_PHASE_PROFILE:
        return special == CT_SCENARIO_MULTIMODAL || special == CT_SCENARIO_SPECULATIVE;
    case CT_PHASE_WEIGHTS:
        return special == CT_SCENARIO_LORA || special == CT_SCENARIO_SPECULATIVE;
    default:
        return ct_phase_is_inner(phase);
    }
}

enum ct_scenario ct_component_scenario(enum ct_component component, const char **summary) {
    for (size_t i = 0; i < COMPONENTS; i++)
        if (of_component[i].component == component) {
            *summary = of_component[i].summary;
            return of_component[i].scenario;
        }
    return CT_SCENARIO_UNKNOWN;
}

enum ct_scenario ct_phase_scenario(enum ct_phase phase, enum ct_component component,
                                   const char **summary) {
    const char *special_summary = NULL;
    const enum ct_scenario special = ct_component_scenario(component, &special_summary);
    if (special != CT_SCENARIO_UNKNOWN && counts(phase, special)) {
        *summary = special_summary;
        return special;
    }
    for (size_t i = 0; i < sizeof of_phase / sizeof *of_phase; i++)
        if (of_phase[i].phase == phase) {
            *summary = of_phase[i].summary;
            return of_phase[i].scenario;
        }
    return CT_SCENARIO_UNKNOWN;
}
