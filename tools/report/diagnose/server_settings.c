// SPDX-License-Identifier: Apache-2.0
#include "diagnose/server_settings.h"

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
    const char *version = ct_facts_find_version(facts, "vllm");
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
    const char *given = ct_facts_find_flag(facts, flag_names[flag]);
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
