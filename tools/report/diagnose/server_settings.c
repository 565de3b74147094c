// SPDX-License-Identifier: Apache-2.0
#include "diagnose/server_settings.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "base/version_order.h"

// ---- options ------------------------------------------------------------------------------------

static const struct ct_server_option options[] = {
#define CT_SERVER_OPTION(SERVER, ROLE, FLAG, name, versions) \
    {CT_FRAMEWORK_##SERVER, CT_OPTION_##ROLE, CT_TEXT_##FLAG, name, versions},
#include "diagnose/server_options.def"
};

const struct ct_server_option *ct_server_option_find(enum ct_framework server,
                                                     enum ct_option_role role) {
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (options[i].server == server && options[i].role == role)
            return &options[i];
    return NULL;
}

int ct_server_has_options(enum ct_framework program) {
    return ct_server_option_find(program, CT_OPTION_BUDGET) != NULL;
}

enum ct_framework ct_server_of_request(enum ct_framework framework, const char *command,
                                       const struct ct_text_facts *log) {
    if (ct_server_has_options(framework))
        return framework;
    for (int i = CT_FRAMEWORK_NONE + 1; command && i < CT_FRAMEWORKS; i++)
        if (strcmp(command, ct_framework_name((enum ct_framework)i)) == 0)
            return (enum ct_framework)i;
    const enum ct_framework of_log = log ? ct_text_facts_program(log) : CT_FRAMEWORK_NONE;
    return of_log ? of_log : framework;
}

// ---- settings -----------------------------------------------------------------------------------

static const char *const flag_names[] = {
#define CT_TEXT_FLAG(ID, name, dashed, source) dashed,
#include "text/flags.def"
};

// Defaults of vLLM by the first version that has them, the newest first. Source: its
// vllm/config/cache.py, scheduler.py and parallel.py.
static const struct {
    enum ct_text_flag flag;
    const char *since, *value;
} defaults[] = {
    {CT_TEXT_FLAG_GPU_MEMORY_UTILIZATION, "0.26", "0.92"},
    {CT_TEXT_FLAG_GPU_MEMORY_UTILIZATION, "0.12", NULL}, // not known since which version it is 0.92
    {CT_TEXT_FLAG_GPU_MEMORY_UTILIZATION, "0.1", "0.9"},
    {CT_TEXT_FLAG_TENSOR_PARALLEL_SIZE, "0.1", "1"},
};

static void set(struct ct_setting *s, enum ct_setting_source source, const char *text) {
    struct ct_text_value number = {0};
    size_t at = 0;
    s->source = source;
    ct_utf8_sanitize(s->text, sizeof s->text, text, strlen(text));
    if (ct_template_read_number(text, strlen(text), &at, &number) && at == strlen(text) &&
        number.known)
        s->number = number.value;
}

const char *ct_server_settings_default(enum ct_text_flag flag, const char *version) {
    int order;
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++)
        if (defaults[i].flag == flag && !ct_version_order(version, defaults[i].since, &order) &&
            order >= 0)
            return defaults[i].value;
    return NULL;
}

static const char *find_default(const struct ct_facts *facts, enum ct_text_flag flag) {
    const char *version = facts ? ct_facts_find_version(facts, "vllm") : NULL;
    if (!version || !ct_facts_has_all_flags(facts) || !facts->program ||
        strcmp(facts->program, "vllm") != 0)
        return NULL;
    return ct_server_settings_default(flag, version);
}

// A budget line of the log names the utilization that was used, set or default.
static const struct ct_text_value *find_utilization(const struct ct_text_facts *log) {
    for (size_t i = 0; i < log->count; i++)
        if (log->list[i].values[CT_TEXT_UTIL].known && log->list[i].values[CT_TEXT_UTIL].value > 0)
            return &log->list[i].values[CT_TEXT_UTIL];
    return NULL;
}

struct ct_setting ct_server_settings_find(const struct ct_facts *facts,
                                          const struct ct_text_facts *log, enum ct_text_flag flag) {
    struct ct_setting s = {.source = CT_SETTING_UNKNOWN};
    const char *given = facts ? ct_facts_find_flag(facts, flag_names[flag]) : NULL;
    const char *usual = given ? NULL : find_default(facts, flag);
    if (given)
        set(&s, CT_SETTING_TRACE, given);
    else if (log && *log->settings[flag].value)
        set(&s, CT_SETTING_LOG, log->settings[flag].value);
    else if (log && flag == CT_TEXT_FLAG_GPU_MEMORY_UTILIZATION && find_utilization(log)) {
        s.source = CT_SETTING_LOG;
        s.number = find_utilization(log)->value;
        (void)snprintf(s.text, sizeof s.text, "%.2f", (double)s.number / 1000000);
    } else if (usual)
        set(&s, CT_SETTING_DEFAULT, usual);
    return s;
}

struct ct_setting ct_server_find_option(const struct ct_server *s, enum ct_option_role role) {
    const struct ct_server_option *o = ct_server_option_find(s->is, role);
    if (!o || o->flag == CT_TEXT_FLAGS)
        return (struct ct_setting){.source = CT_SETTING_UNKNOWN};
    return ct_server_settings_find(s->facts, s->log, o->flag);
}

// ---- advice ------------------------------------------------------------------------------------

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

void ct_plain_advice_add(struct ct_verdict *v, const struct ct_server *s) {
    const enum ct_scenario scenario =
        v->scenario == CT_SCENARIO_INCOMPLETE ? CT_SCENARIO_UNKNOWN : v->scenario;
    const int wanted = has_own(scenario, s->is) ? (int)s->is : OF_ELSE;
    for (size_t i = 0; i < ROWS; i++) {
        if (rows[i].scenario != scenario ||
            (rows[i].program != OF_ANY && rows[i].program != wanted))
            continue;
        const int has_setting = s->log && rows[i].setting != CT_TEXT_FLAGS;
        ct_verdict_add_setting(v, rows[i].flag,
                               has_setting ? s->log->settings[rows[i].setting].value : NULL, NULL,
                               rows[i].versions, "%s", rows[i].text);
    }
}

void ct_plain_advice_option(struct ct_verdict *v, const struct ct_server *s,
                            enum ct_option_role role, const char *to, const char *why) {
    const struct ct_server_option *o = ct_server_option_find(s->is, role);
    const struct ct_setting now = ct_server_find_option(s, role);
    if (o)
        ct_verdict_add_setting(v, o->name, now.text, to, o->versions, "%s", why);
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
    ct_verdict_add_setting(v, variable, from, "expandable_segments:True",
                           "torch 2.1 and later; PYTORCH_ALLOC_CONF from 2.10 on",
                           "lets PyTorch enlarge a segment where no free block is large enough%s",
                           refused);
}

int64_t ct_plain_advice_scale(int64_t now, int64_t step, int64_t asked, int64_t free) {
    if (now <= 0 || free < 0 || free >= asked)
        return 0;
    return (int64_t)((__int128)now * free / asked) / step * step;
}

// How many GPUs are enough is not known: loading ended before all weights were asked for.
void ct_plain_advice_weights(struct ct_verdict *v, const struct ct_server *s) {
    const int is_repack = v->scenario == CT_SCENARIO_REPACK;
    const int64_t ranks = ct_server_find_option(s, CT_OPTION_RANKS).number / 1000000;
    char twice[24] = "";
    if (ranks > 0 && ranks < 1024)
        (void)snprintf(twice, sizeof twice, "%" PRId64, ranks * 2);
    ct_plain_advice_option(v, s, CT_OPTION_RANKS, twice,
                           is_repack
                               ? "spread the weights over more GPUs, because the conversion "
                                 "holds a layer twice, which no smaller budget or KV cache "
                                 "changes"
                               : "spread the weights over more GPUs, twice as many at first, "
                                 "because loading failed before it had asked for all weights");
    if (is_repack)
        return;
    ct_plain_advice_option(v, s, CT_OPTION_QUANTIZATION, NULL,
                           "or load quantized weights; no smaller budget or KV cache makes room "
                           "for weights");
    ct_plain_advice_add(v, &(struct ct_server){.is = s->is});
}

void ct_plain_advice_graphs(struct ct_verdict *v, const struct ct_server *s) {
    ct_plain_advice_option(v, s, CT_OPTION_GRAPH_SIZES, NULL,
                           "or lower it, so that fewer and smaller graphs are captured");
    ct_plain_advice_option(v, &(struct ct_server){.is = s->is}, CT_OPTION_NO_GRAPHS, NULL,
                           "or do without graphs, which is slower");
}
