// SPDX-License-Identifier: Apache-2.0
#include "text/traceback.h"

#include <string.h>

// ---- which rules fit a frame --------------------------------------------------------------------

// The loops that serve requests: their frames are outside of all that happens then.
static const char *const loops[] = {"run_busy_loop",
                                    "_process_engine_step",
                                    "run_engine_loop",
                                    "engine_step",
                                    "event_loop_normal",
                                    "event_loop_overlap",
                                    "start_worker_execution_loop"};
// What locks memory of the host (the second one in vLLM before 0.11).
static const char *const pins[] = {"pin_memory", "alloc_cpu_tensors"};

static uint8_t is_one_of(const char *const *names, size_t count, const char *function,
                         size_t length) {
    for (size_t i = 0; i < count; i++)
        if (strlen(names[i]) == length && memcmp(function, names[i], length) == 0)
            return 1;
    return 0;
}

// Whether a name means the same wherever its file lies: "initialize_kv_cache" does, "step" and
// "__init__" do not.
static int is_telling(const char *name) {
    const char *mark = *name == '_' ? strchr(name + 1, '_') : strchr(name, '_');
    return mark && mark > name + 1 && strncmp(name, "__", 2) != 0 && *name != '*' &&
           strcspn(name, "*") >= 7;
}

static void add_rules(struct ct_traceback_frame *f, const char *path, const char *function,
                      size_t length, int by_file) {
    size_t count;
    const struct ct_phase_rule *rules = ct_phase_rules_list(&count);
    for (size_t i = 0; i < count && f->count < CT_TRACEBACK_RULES; i++)
        if (ct_phase_rule_fits_function(&rules[i], function, length) &&
            (by_file ? ct_phase_rule_fits_file(&rules[i], path, strlen(path))
                     : is_telling(rules[i].function)))
            f->rules[f->count++] = (uint16_t)i;
}

void ct_traceback_add(struct ct_traceback *t, const char *path, const char *function,
                      size_t length) {
    // (A trace shows whether the graphs themselves are what grows, and no phase by these frames.)
    struct ct_traceback_frame f = {.is_ipc = strstr(path, "weight_transfer/ipc_engine") != NULL,
                                   .is_capture = strstr(path, "torch/cuda/graphs.py") != NULL};
    const char *dot = length ? memrchr(function, '.', length) : NULL;
    if (dot) { // its class
        length -= (size_t)(dot + 1 - function);
        function = dot + 1;
    }
    t->seen++;
    f.is_loop = is_one_of(loops, sizeof loops / sizeof *loops, function, length);
    f.is_pinned = is_one_of(pins, sizeof pins / sizeof *pins, function, length);
    add_rules(&f, path, function, length, 1);
    f.by_file = f.count;
    add_rules(&f, path, function, length, 0); // a fork's file, or one whose path was cut
    if (f.count || f.is_loop || f.is_ipc || f.is_pinned || f.is_capture)
        t->frames[t->count++ % CT_TRACEBACK_FRAMES] = f;
}

// ---- what they say together ---------------------------------------------------------------------

static int is_outside(enum ct_phase phase) {
    return phase == CT_PHASE_UNKNOWN || phase == CT_PHASE_OTHER;
}

// The first rule for a phase that leads on; where the frames outside of it may be missing, the
// first one of a part of a phase. Sets its position; returns NULL where there is none.
static const struct ct_phase_rule *find_phase(const struct ct_traceback_frame *f,
                                              enum ct_phase phase, size_t *at) {
    size_t count;
    const struct ct_phase_rule *rules = ct_phase_rules_list(&count), *part = NULL;
    for (size_t i = 0; i < f->count; i++) {
        const struct ct_phase_rule *rule = &rules[f->rules[i]];
        const int leads = !rule->is_component && ct_phase_rule_leads_from(rule, phase);
        if (rule->is_component || (!leads && (part || rule->below == CT_PHASE_UNKNOWN ||
                                              !rule->framework || !is_outside(phase))))
            continue;
        part = rule;
        *at = i;
        if (leads)
            break;
    }
    return part;
}

static const struct ct_phase_rule *find_component(const struct ct_traceback_frame *f,
                                                  enum ct_phase phase) {
    size_t count;
    const struct ct_phase_rule *rules = ct_phase_rules_list(&count);
    for (size_t i = 0; i < f->count; i++) {
        const struct ct_phase_rule *rule = &rules[f->rules[i]];
        if (rule->is_component &&
            (rule->below == CT_PHASE_ANY || rule->below == phase || is_outside(phase)))
            return rule;
    }
    return NULL;
}

static void follow(struct ct_text_where *w, const struct ct_traceback_frame *f) {
    size_t at = 0;
    const struct ct_phase_rule *phase = find_phase(f, w->phase, &at);
    if (phase) {
        w->phase = phase->phase;
        if (phase->framework && at < f->by_file) // any program may have a load_weights
            w->framework = phase->framework;
    }
    const struct ct_phase_rule *component = find_component(f, w->phase);
    if (component)
        w->component = component->component;
    w->is_loop |= f->is_loop;
    w->is_ipc |= f->is_ipc;
    w->is_pinned |= f->is_pinned;
    if (f->is_capture && ct_phase_is_inner(w->phase))
        w->phase = CT_PHASE_GRAPHS;
}

struct ct_text_where ct_traceback_read(const struct ct_traceback *t, int is_reversed) {
    struct ct_text_where w = {.component = CT_COMPONENT_BY_PHASE};
    const size_t kept = t->count < CT_TRACEBACK_FRAMES ? t->count : CT_TRACEBACK_FRAMES;
    for (size_t i = 0; i < kept; i++) {
        const size_t at = is_reversed ? t->count - 1 - i : t->count - kept + i;
        follow(&w, &t->frames[at % CT_TRACEBACK_FRAMES]);
    }
    if (w.is_loop && ct_phase_is_inner(w.phase))
        w.phase = CT_PHASE_SERVE;
    return w;
}

int ct_text_where_is_known(const struct ct_text_where *w) {
    return w->phase != CT_PHASE_UNKNOWN || w->component != CT_COMPONENT_BY_PHASE || w->is_pinned;
}
