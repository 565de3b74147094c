// SPDX-License-Identifier: Apache-2.0
// The rules by which frames of stacks name phases and components: a table, phase_rules.def, and
// rows of the user's in front of it.
#ifndef CT_PHASE_RULES_H
#define CT_PHASE_RULES_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum ct_framework {
#define CT_FRAMEWORK(ID, name, title) CT_FRAMEWORK_##ID,
#include "symbols/phases.def"
    CT_FRAMEWORKS
};

enum ct_phase {
#define CT_PHASE(ID, name, title) CT_PHASE_##ID,
#include "symbols/phases.def"
    CT_PHASES,
    CT_PHASE_ANY = CT_PHASES, // a rule for all phases
};

enum ct_component {
#define CT_COMPONENT(ID, name, title) CT_COMPONENT_##ID,
#include "symbols/phases.def"
    CT_COMPONENTS,
    CT_COMPONENT_BY_PHASE = CT_COMPONENTS, // no rule fits: the phase decides
};

// A row: a frame that matches `file` and `function` leads from the phase `below` to `phase`, or in
// the phase `below` belongs to `component`.
struct ct_phase_rule {
    int is_component;
    union {
        enum ct_phase phase;
        enum ct_component component;
    };
    enum ct_framework framework; // of a phase
    // The end of a path ("vllm/v1/worker/gpu_worker.py") at the limit of a name; of native frames
    // the base name of the module. `*` stands for any text, also for the empty one.
    const char *file;
    const char *function; // without its class; `*` as above
    enum ct_phase below;  // of a phase: UNKNOWN is the outside of all phases; of a component: ANY
    const char *source;
};

// Rows of a file.
struct ct_phase_rules {
    struct ct_phase_rule *list;
    size_t count, room;
    char *text; // of the file, which the rows point into
};

// Reads a file of rows. 0, or -1 with the error set, which names the file and the line.
int ct_phase_rules_read(struct ct_phase_rules *r, const char *path, struct ct_error *error);
void ct_phase_rules_free(struct ct_phase_rules *r);
// The rows of the program.
const struct ct_phase_rule *ct_phase_rules_list(size_t *count);
// Whether a text is one of a pattern with `*`.
int ct_phase_rules_match(const char *pattern, const char *text, size_t length);

const char *ct_framework_name(enum ct_framework f);
const char *ct_framework_title(enum ct_framework f);
const char *ct_phase_name(enum ct_phase p);
const char *ct_phase_title(enum ct_phase p);
const char *ct_component_name(enum ct_component c);
const char *ct_component_title(enum ct_component c);

#endif
