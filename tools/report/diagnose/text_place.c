// SPDX-License-Identifier: Apache-2.0
#include "diagnose/text_place.h"

// In the order of phases, the outermost first. A row holds if all of `places` are among those of
// the traceback.
static const struct {
    uint32_t places;
    enum ct_scenario scenario;
    const char *during;
} rows[] = {
    {CT_TEXT_IN_WAKE, CT_SCENARIO_SLEEP_WAKE, "a wake-up"},
    {CT_TEXT_IN_SYNC, CT_SCENARIO_WEIGHT_SYNC, "an update of the weights"},
    {CT_TEXT_IN_COMM, CT_SCENARIO_COMMUNICATION, "communication"},
    {CT_TEXT_IN_PINNED, CT_SCENARIO_HOST_PINNED, "an allocation of page-locked memory"},
    {CT_TEXT_IN_PROFILE | CT_TEXT_IN_VISION, CT_SCENARIO_MULTIMODAL,
     "the profile run, in an encoder of images or sounds"},
    {CT_TEXT_IN_PROFILE | CT_TEXT_IN_DRAFT, CT_SCENARIO_SPECULATIVE,
     "the profile run, in speculative decoding"},
    {CT_TEXT_IN_PROFILE, CT_SCENARIO_STARTUP_PROFILE, "the profile run"},
    {CT_TEXT_IN_GRAPHS, CT_SCENARIO_GRAPH_CAPTURE, "the capture of CUDA graphs"},
    {CT_TEXT_IN_SAMPLER, CT_SCENARIO_WARMUP, "the warm-up of the sampler"},
    {CT_TEXT_IN_KERNELS, CT_SCENARIO_WARMUP, "the warm-up of kernels"},
    {CT_TEXT_IN_WARMUP, CT_SCENARIO_WARMUP, "the warm-up after the KV cache"},
    {CT_TEXT_IN_KV, CT_SCENARIO_STARTUP_KV_POOL, "the allocation of the KV cache"},
    {CT_TEXT_IN_REPACK, CT_SCENARIO_REPACK, "the conversion of loaded weights"},
    {CT_TEXT_IN_WEIGHTS | CT_TEXT_IN_DRAFT, CT_SCENARIO_SPECULATIVE,
     "the loading of a draft model's weights"},
    {CT_TEXT_IN_WEIGHTS | CT_TEXT_IN_LORA, CT_SCENARIO_LORA, "the loading of LoRA adapters"},
    {CT_TEXT_IN_WEIGHTS, CT_SCENARIO_STARTUP_WEIGHTS, "the loading of weights"},
    {CT_TEXT_IN_TRAIN, CT_SCENARIO_TRAINING_STEP, "a training step"},
    {CT_TEXT_IN_LORA, CT_SCENARIO_LORA, "the use of a LoRA adapter"},
    {CT_TEXT_IN_DRAFT, CT_SCENARIO_SPECULATIVE, "speculative decoding"},
    {CT_TEXT_IN_VISION, CT_SCENARIO_MULTIMODAL, "an encoder of images or sounds"},
    {CT_TEXT_IN_LOGITS, CT_SCENARIO_LOGITS, "the computation of logits or log-probabilities"},
    {CT_TEXT_IN_SAMPLE, CT_SCENARIO_LOGITS, "the sampling of tokens"},
    {CT_TEXT_IN_SERVE, CT_SCENARIO_BURST_PREFILL, "a step that serves requests"},
};

// The phase that begins where a line of the log stands.
static const struct {
    enum ct_text_kind after;
    enum ct_scenario scenario;
    const char *during;
} progress[] = {
    {CT_TEXT_KIND_LOADING, CT_SCENARIO_STARTUP_WEIGHTS, "the loading of weights"},
    {CT_TEXT_KIND_LOADED, CT_SCENARIO_STARTUP_PROFILE, "the profile run"},
    {CT_TEXT_KIND_ENCODER, CT_SCENARIO_MULTIMODAL, "the profile run of a multimodal model"},
    {CT_TEXT_KIND_PROFILING, CT_SCENARIO_MULTIMODAL, "the profile run of a multimodal model"},
    {CT_TEXT_KIND_GRAPHS_ESTIMATED, CT_SCENARIO_STARTUP_PROFILE, "the profile run"},
    {CT_TEXT_KIND_BUDGET, CT_SCENARIO_STARTUP_PROFILE, "the profile run"},
    {CT_TEXT_KIND_SHARES, CT_SCENARIO_STARTUP_KV_POOL, "the allocation of the KV cache"},
    {CT_TEXT_KIND_KV_MEMORY, CT_SCENARIO_STARTUP_KV_POOL, "the allocation of the KV cache"},
    {CT_TEXT_KIND_CAPTURING, CT_SCENARIO_GRAPH_CAPTURE, "the capture of CUDA graphs"},
    {CT_TEXT_KIND_CAPTURED, CT_SCENARIO_WARMUP, "the warm-up after the capture of graphs"},
    {CT_TEXT_KIND_GRAPHS_TOOK, CT_SCENARIO_WARMUP, "the warm-up after the capture of graphs"},
    {CT_TEXT_KIND_SLEPT, CT_SCENARIO_SLEEP_WAKE, "sleep or a wake-up"},
    {CT_TEXT_KIND_STARTED, CT_SCENARIO_BURST_PREFILL, "a step that serves requests"},
    {CT_TEXT_KIND_PERIODIC, CT_SCENARIO_BURST_PREFILL, "a step that serves requests"},
};

struct ct_text_phase ct_text_place_find(const struct ct_text_fact *error) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if ((error->places & rows[i].places) == rows[i].places)
            return (struct ct_text_phase){rows[i].scenario, rows[i].during, 1};
    for (size_t i = 0; i < sizeof progress / sizeof *progress; i++)
        if (error->progress == progress[i].after)
            return (struct ct_text_phase){progress[i].scenario, progress[i].during, 0};
    return (struct ct_text_phase){CT_SCENARIO_UNKNOWN, NULL, 0};
}
