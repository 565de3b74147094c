// SPDX-License-Identifier: Apache-2.0
#include "symbols/phase_rules.h"

#include <string.h>

// A path that has more parts than these, or a longer one, is compared by its last ones.
enum { MAX_PARTS = 16, MAX_PATH = 512 };

static const struct {
    enum { OWN, TORCH } allocator;
    const char *name, *title;
} frameworks[] = {
#define CT_FRAMEWORK(ID, ALLOCATOR, name, title) {ALLOCATOR, name, title},
#include "symbols/phases.def"
};

static const char *const components[] = {
#define CT_COMPONENT(ID, name, title) name,
#include "symbols/phases.def"
};

static const struct {
    enum ct_component component;
    const char *name, *title;
} phases[] = {
#define CT_PHASE(ID, COMPONENT, name, title) {CT_COMPONENT_##COMPONENT, name, title},
#include "symbols/phases.def"
};

const char *ct_framework_name(enum ct_framework f) {
    return frameworks[f].name;
}

const char *ct_framework_title(enum ct_framework f) {
    return frameworks[f].title;
}

int ct_framework_has_torch(enum ct_framework f) {
    return frameworks[f].allocator == TORCH;
}

const char *ct_phase_name(enum ct_phase p) {
    return phases[p].name;
}

const char *ct_phase_title(enum ct_phase p) {
    return phases[p].title;
}

int ct_phase_is_inner(enum ct_phase p) {
    return p == CT_PHASE_UNKNOWN || p == CT_PHASE_OTHER || p == CT_PHASE_FORWARD;
}

enum ct_component ct_phase_component(enum ct_phase p) {
    return phases[p].component;
}

const char *ct_component_name(enum ct_component c) {
    return components[c];
}

const struct ct_phase_rule *ct_phase_rules_list(size_t *count) {
    static const struct ct_phase_rule rules[] = {
#define CT_PHASE_RULE(PHASE, FRAMEWORK, BELOW, file, function, source) \
    {                                                                  \
        0,                                                             \
        {.phase = CT_PHASE_##PHASE},                                   \
        CT_FRAMEWORK_##FRAMEWORK,                                      \
        file,                                                          \
        function,                                                      \
        CT_PHASE_##BELOW,                                              \
        source},
#define CT_COMPONENT_RULE(COMPONENT, IN, file, function, source) \
    {1,                                                          \
     {.component = CT_COMPONENT_##COMPONENT},                    \
     CT_FRAMEWORK_NONE,                                          \
     file,                                                       \
     function,                                                   \
     CT_PHASE_##IN,                                              \
     source},
#include "symbols/phase_rules.def"
    };
    *count = sizeof rules / sizeof *rules;
    return rules;
}

// Whether a text is one of a pattern. Where the rest does not fit, the last star takes one byte
// more: without recursion.
static int fits(const char *pattern, const char *text, size_t length) {
    const char *star = NULL, *end = text + length, *again = text;
    while (text < end) {
        if (*pattern == '*') {
            star = pattern++;
            again = text;
        } else if (*pattern && *pattern == *text) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star + 1;
            text = ++again;
        } else {
            return 0;
        }
    }
    while (*pattern == '*')
        pattern++;
    return !*pattern;
}

int ct_phase_rule_fits_file(const struct ct_phase_rule *rule, const char *path, size_t length) {
    const size_t cut = length > MAX_PATH ? length - MAX_PATH : 0;
    size_t at = length;
    for (unsigned parts = 0; parts < MAX_PARTS; parts++) {
        while (at > cut && path[at - 1] != '/')
            at--;
        if (at == cut && cut)
            return 0; // the part began before
        if (fits(rule->file, path + at, length - at))
            return 1;
        if (!at)
            return 0;
        at--;
    }
    return 0;
}

int ct_phase_rule_fits_function(const struct ct_phase_rule *rule, const char *name, size_t length) {
    return fits(rule->function, name, length < MAX_PATH ? length : MAX_PATH);
}

// Phases that are only a frame around others.
static int is_around(enum ct_phase phase) {
    return phase == CT_PHASE_UNKNOWN || phase == CT_PHASE_OTHER || phase == CT_PHASE_TRAIN_OTHER;
}

int ct_phase_rule_leads_from(const struct ct_phase_rule *rule, enum ct_phase phase) {
    if (rule->below != CT_PHASE_UNKNOWN)
        return rule->below == phase;
    if (rule->phase == CT_PHASE_OTHER)
        return phase == CT_PHASE_UNKNOWN;
    return is_around(phase) && rule->phase != phase;
}
