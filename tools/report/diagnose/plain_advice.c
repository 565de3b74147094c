// SPDX-License-Identifier: Apache-2.0
#include "diagnose/plain_advice.h"

#include <inttypes.h>
#include <stdio.h>

static const struct {
    enum ct_scenario scenario;
    const char *flag, *versions, *text;
} rows[] = {
#define CT_PLAIN_ADVICE(SCENARIO, flag, versions, text) \
    {CT_SCENARIO_##SCENARIO, flag, versions, text},
#include "diagnose/plain_advice.def"
};

void ct_plain_advice_add(struct ct_verdict *v) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].scenario == v->scenario)
            ct_advice_set(ct_verdict_add_advice(v, "%s", rows[i].text), rows[i].flag, NULL, NULL,
                          rows[i].versions);
}

void ct_plain_advice_ranks(struct ct_verdict *v, const char *from, int64_t ranks, const char *why) {
    char to[24] = "";
    if (ranks > 0 && ranks < 1024)
        (void)snprintf(to, sizeof to, "%" PRId64, ranks * 2);
    ct_advice_set(ct_verdict_add_advice(v, "%s", why), "--tensor-parallel-size", from, to,
                  "vLLM 0.1 and later");
}

void ct_plain_advice_weights(struct ct_verdict *v, const char *from, int64_t ranks) {
    ct_plain_advice_ranks(v, from, ranks,
                          "spread the weights over more GPUs: each then holds that much less; "
                          "whether so many are enough is not known, because not all weights were "
                          "loaded");
    ct_advice_set(ct_verdict_add_advice(v, "or load weights of fewer bits; no setting of the "
                                           "budget makes room for weights"),
                  "--quantization", NULL, NULL, "vLLM 0.2 and later");
}
