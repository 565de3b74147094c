// SPDX-License-Identifier: Apache-2.0
// The table of rules (rules.def), and the figures of a trace, a text or a snapshot that its
// sentences name.
#ifndef CT_RULES_H
#define CT_RULES_H

#include "diagnose/verdicts.h"
#include "symbols/phase_rules.h"

// Figures that are known are 0 or more.
struct ct_figures {
#define CT_TEXT_FIELD(ID, name) int64_t name;
#include "text/fields.def"
#define CT_FIGURE(name) int64_t name;
#include "diagnose/figures.def"
    // and words, which are not copied; NULL: not known
#define CT_WORD(name) const char *name;
#include "diagnose/figures.def"
};
static inline int64_t ct_figure(uint64_t n) {
    return n < INT64_MAX ? (int64_t)n : INT64_MAX;
}
void ct_figures_clear(struct ct_figures *f); // nothing is known

enum ct_rule {
#define CT_RULE(ID, SCENARIO, confidence, summary, evidence, advice, refuted_by) CT_RULE_##ID,
#include "diagnose/rules.def"
    CT_RULES
};

// What rules are filled in with: a failed request of a trace, a message of a text, a snapshot.
struct ct_rule_source {
    struct ct_verdicts *to;
    int device;
    const struct ct_figures *figures;
    // What "@name" in a row stands for, up to one without a name; NULL: nothing.
    const struct ct_rule_step {
        const char *name;
        void (*run)(const void *self, struct ct_verdict *v);
    } * steps;
    int is_event; // of a trace: what sentences say is evidence of this event
    uint64_t event, t_ns;
    const void *self;
};

// Adds the verdict of a row, with evidence, advice and what would refute it.
struct ct_verdict *ct_rule_add(const struct ct_rule_source *s, enum ct_rule rule);
// The same with another confidence, or for a scenario that a phase or component names.
struct ct_verdict *ct_rule_add_sure(const struct ct_rule_source *s, enum ct_rule rule,
                                    double confidence);
struct ct_verdict *ct_rule_add_as(const struct ct_rule_source *s, enum ct_rule rule,
                                  enum ct_scenario scenario, double confidence,
                                  const char *summary);
// Adds sentences of a row's form (rules.def) as evidence, or as advice.
void ct_rule_say(const struct ct_rule_source *s, struct ct_verdict *v, const char *sentences);
void ct_rule_advise(const struct ct_rule_source *s, struct ct_verdict *v, const char *sentences);

// The scenario of a phase, or of the component that was asked for where that makes the difference;
// CT_SCENARIO_UNKNOWN: no row names one. *summary: one sentence without a full stop.
enum ct_scenario ct_phase_scenario(enum ct_phase phase, enum ct_component component,
                                   const char **summary);
// The scenario that a component names by itself, and its sentence; CT_SCENARIO_UNKNOWN: none.
enum ct_scenario ct_component_scenario(enum ct_component component, const char **summary);

#endif
