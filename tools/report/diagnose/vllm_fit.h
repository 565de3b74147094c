// SPDX-License-Identifier: Apache-2.0
// How far each setting of a vLLM server could go on a device, by its budget (vllm_budget.h): up to
// which value it serves for certain, above which it cannot, and by which figures.
#ifndef CT_VLLM_FIT_H
#define CT_VLLM_FIT_H

#include "base/human.h"
#include "diagnose/metrics_verdicts.h"
#include "diagnose/vllm_budget.h"

enum { CT_FIT_SETTINGS = 5, CT_FIT_TEXT = 700 };

// Values of a setting: in millionths of the utilization, else whole. 0: not known.
struct ct_fit_setting {
    const char *flag;             // "--max-model-len"
    const struct ct_setting *now; // as recorded
    int64_t least;                // down to it one request of max_model_len fits
    int64_t safe;                 // up to it everything fits, under what `because` says
    int64_t fails;                // from it on something does not fit, or vLLM does not start
    int is_share;                 // it is the utilization
    char because[CT_FIT_TEXT];    // the arithmetic, in plain sentences
    char unknown[CT_FIT_TEXT];    // what is not known, and what would tell it; "": nothing
};

struct ct_vllm_fit {
    struct ct_fit_setting list[CT_FIT_SETTINGS];
    size_t count;
    int64_t cache_excess; // bytes by which the cache is larger than what is left for certain
    // What the metrics say of the load that was served: one sentence each, "" where there is none.
    char load[CT_FIT_TEXT], load_change[CT_FIT_TEXT];
};

// `b` must stay. `metrics`: NULL: there are none.
void ct_vllm_fit_find(struct ct_vllm_fit *f, const struct ct_vllm_budget *b,
                      const struct ct_metrics *metrics, enum ct_human_units units);
// The bound of a flag, or NULL.
const struct ct_fit_setting *ct_vllm_fit_setting(const struct ct_vllm_fit *f, const char *flag);
// Its recorded value, in the units of its bounds; 0: not known.
int64_t ct_vllm_fit_recorded(const struct ct_fit_setting *s);
// A value as one writes it: "0.95", "17984"; "" if it is not known.
struct ct_human_text ct_vllm_fit_value(const struct ct_fit_setting *s, int64_t value);

#endif
