// SPDX-License-Identifier: Apache-2.0
#include "diagnose/plain_advice.h"

#include <inttypes.h>
#include <stdio.h>

enum {
#define CT_FRAMEWORK(ID, ALLOCATOR, name, title) OF_##ID = CT_FRAMEWORK_##ID,
#include "symbols/phases.def"
    OF_ANY, // all programs
    OF_ELSE // those without rows of their own
};
static const struct {
    enum ct_scenario scenario;
    int program;
    enum ct_text_flag setting;
    const char *flag, *versions, *text;
} rows[] = {
#define CT_PLAIN_ADVICE(SCENARIO, PROGRAM, flag, versions, text) \
    {CT_SCENARIO_##SCENARIO, OF_##PROGRAM, CT_TEXT_FLAGS, flag, versions, text},
#define CT_PLAIN_OPTION(SCENARIO, PROGRAM, SETTING, flag, versions, text) \
    {CT_SCENARIO_##SCENARIO, OF_##PROGRAM, CT_TEXT_FLAG_##SETTING, flag, versions, text},
#include "diagnose/plain_advice.def"
};
enum { ROWS = sizeof rows / sizeof *rows };

// Whether a program has a row of its own for a scenario, or options.
static int has_own(enum ct_scenario scenario, enum ct_framework program) {
    for (size_t i = 0; i < ROWS; i++)
        if (rows[i].scenario == scenario && rows[i].program == (int)program)
            return 1;
    return ct_server_has_options(program);
}

void ct_plain_advice_add(struct ct_verdict *v, enum ct_framework program,
                         const struct ct_text_facts *log) {
    const enum ct_scenario scenario =
        v->scenario == CT_SCENARIO_INCOMPLETE ? CT_SCENARIO_UNKNOWN : v->scenario;
    const int wanted = has_own(scenario, program) ? (int)program : OF_ELSE;
    for (size_t i = 0; i < ROWS; i++) {
        if (rows[i].scenario != scenario ||
            (rows[i].program != OF_ANY && rows[i].program != wanted))
            continue;
        const char *from =
            log && rows[i].setting != CT_TEXT_FLAGS ? log->settings[rows[i].setting].value : NULL;
        ct_advice_set(ct_verdict_add_advice(v, "%s", rows[i].text), rows[i].flag, from, NULL,
                      rows[i].versions);
    }
}

int ct_plain_advice_option(struct ct_verdict *v, enum ct_framework server, enum ct_option_role role,
                           const char *from, const char *to, const char *why) {
    const struct ct_server_option *o = ct_server_option_find(server, role);
    if (!o)
        return 0;
    ct_advice_set(ct_verdict_add_advice(v, "%s", why), o->name, from, to, o->versions);
    return 1;
}

void ct_plain_advice_expandable(struct ct_verdict *v, enum ct_framework server, int is_on,
                                const char *variable, const char *from) {
    const char *refused =
        server == CT_FRAMEWORK_VLLM ? "; vLLM's sleep mode refuses it before 0.20" : "";
    if (is_on) {
        (void)ct_verdict_add_advice(v, "expandable_segments are on already: allocate what stays "
                                       "before what is freed again");
        return;
    }
    ct_advice_set(ct_verdict_add_advice(v,
                                        "lets PyTorch enlarge a segment where no free block is "
                                        "large enough%s",
                                        refused),
                  variable, from, "expandable_segments:True",
                  "torch 2.1 and later; PYTORCH_ALLOC_CONF from 2.10 on");
}

// Twice as many GPUs; `from` is the setting of today, `ranks` its number; NULL and 0: not known.
static void add_ranks(struct ct_verdict *v, enum ct_framework server, const char *from,
                      int64_t ranks, const char *why) {
    char to[24] = "";
    if (ranks > 0 && ranks < 1024)
        (void)snprintf(to, sizeof to, "%" PRId64, ranks * 2);
    (void)ct_plain_advice_option(v, server, CT_OPTION_RANKS, from, to, why);
}

void ct_plain_advice_weights(struct ct_verdict *v, enum ct_framework server, const char *from,
                             int64_t ranks) {
    add_ranks(v, server, from, ranks,
              "spread the weights over more GPUs, twice as many at first, because loading "
              "failed before it had asked for all weights");
    (void)ct_plain_advice_option(v, server, CT_OPTION_QUANTIZATION, NULL, NULL,
                                 "or load quantized weights; no smaller budget or KV cache makes "
                                 "room for weights");
    ct_plain_advice_add(v, server, NULL);
}

void ct_plain_advice_repack(struct ct_verdict *v, enum ct_framework server, const char *from,
                            int64_t ranks) {
    add_ranks(v, server, from, ranks,
              "spread the weights over more GPUs, because the conversion holds a layer twice, "
              "which no smaller budget or KV cache changes");
}
