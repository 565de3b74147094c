// SPDX-License-Identifier: Apache-2.0
// The rules by which frames of stacks name phases and components: a table, phase_rules.def, and
// rows of the user's in front of it.
#ifndef CT_PHASE_RULES_H
#define CT_PHASE_RULES_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum ct_framework {
#define CT_FRAMEWORK(ID, ALLOCATOR, name, title) CT_FRAMEWORK_##ID,
#include "symbols/phases.def"
    CT_FRAMEWORKS
};

enum ct_phase {
#define CT_PHASE(ID, COMPONENT, name, title) CT_PHASE_##ID,
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
    // The last parts of a path ("vllm/v1/worker/gpu_worker.py"): of a file of Python, or of the
    // module of a native frame. `*` stands for any text, also for the empty one.
    const char *file;
    const char *function; // without its class, or as the linker knows it; `*` as above
    // Of a phase: UNKNOWN is outside of all phases; of a component: ANY is in all of them.
    enum ct_phase below;
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
// Whether the path of a file or module is one of the row's.
int ct_phase_rule_fits_file(const struct ct_phase_rule *rule, const char *path, size_t length);
// Whether a function's name, without its class, is one of the row's.
int ct_phase_rule_fits_function(const struct ct_phase_rule *rule, const char *name, size_t length);
// Whether a row leads on from a phase.
int ct_phase_rule_leads_from(const struct ct_phase_rule *rule, enum ct_phase phase);

const char *ct_framework_name(enum ct_framework f);
const char *ct_framework_title(enum ct_framework f);
// Whether its memory is PyTorch's allocator's, as far as is known.
int ct_framework_has_torch(enum ct_framework f);
const char *ct_phase_name(enum ct_phase p);
const char *ct_phase_title(enum ct_phase p);
// Whether a phase leaves open what the process was doing: it may be a pass through a model.
int ct_phase_is_inner(enum ct_phase p);
const char *ct_component_name(enum ct_component c);
// The component of memory for which no rule says more than the phase.
enum ct_component ct_phase_component(enum ct_phase p);

#endif
