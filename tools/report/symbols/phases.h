// SPDX-License-Identifier: Apache-2.0
// Which phase of a run a stack is of, and what its memory is for, by the frames of the stack. The
// rules are phase_rules.def and those of the user (phase_rules.h).
//
// The outermost frame that a rule names decides the phase, and frames below it the part of it
// (the sampler warm-up in a warm-up). The innermost frame that a rule names decides the component;
// without one, the phase does.
#ifndef CT_PHASES_H
#define CT_PHASES_H

#include "read/definitions.h"
#include "symbols/phase_rules.h"

struct ct_phase_at {
    enum ct_phase phase;
    enum ct_framework framework;
    uint32_t node;          // of the call tree: its frame decided; 0: none did
    int inferred;           // not by frames of the stack (analyze/phase_follow.h)
    int by_range;           // the ranges of its thread decided: it is in one, or left one
    struct ct_string range; // the outermost range that the event is in; of RANGE its name; or empty
};

// What the frames up to a node of the call tree, from the outermost one, say.
struct ct_phase_of_node {
    uint32_t node; // that decided the phase
    uint8_t phase, framework, component;
    uint8_t has_python : 1; // a frame is one of Python
    uint8_t is_cut : 1;     // there were more frames than CUTRACE_STACK_DEPTH
};

struct ct_phases {
    const struct ct_definitions *definitions;
    const struct ct_phase_rules *rules; // the user's; may be NULL
    struct ct_phase_of_node *nodes;     // by node; 0 is that of no frame
    size_t node_count;
    // Lists of the rows that fit a path, or a frame, one after the other; each ends with NULL.
    const struct ct_phase_rule **fits;
    size_t fits_count, fits_room;
    uint32_t *of_path, *of_frame; // by string, by frame: where its list begins; 0: not known yet
    size_t of_path_count, of_frame_count;
};

void ct_phases_init(struct ct_phases *p, const struct ct_definitions *definitions,
                    const struct ct_phase_rules *rules);
void ct_phases_free(struct ct_phases *p);

// What the frames of a stack say. Each node of the call tree is looked at once, whatever is asked.
// Valid until the definitions grow.
const struct ct_phase_of_node *ct_phases_get_node(struct ct_phases *p, uint32_t stack);
// The phase of a stack.
struct ct_phase_at ct_phases_find(struct ct_phases *p, uint32_t stack);
// What the memory that a stack allocated is for.
enum ct_component ct_phases_find_component(struct ct_phases *p, uint32_t stack);
// Whether a stack has frames of Python: then no phase means that no rule knows them.
int ct_phases_has_python(struct ct_phases *p, uint32_t stack);
// Whether a stack lacks its outermost frames: then no phase says nothing.
int ct_phases_is_cut(struct ct_phases *p, uint32_t stack);
// Whether there is a stack whose phase is known.
int ct_phases_has_any(struct ct_phases *p);

// "vLLM sampler warm-up", "serving", "-" for an unknown one.
struct ct_phase_title {
    char text[192];
};
struct ct_phase_title ct_phases_title(const struct ct_phase_at *at);
// The same of an event, which is also in a range: `vLLM serving, in range "step"`.
struct ct_phase_title ct_phases_title_of_event(const struct ct_phase_at *at);
// Whether both are one phase.
int ct_phases_equal(const struct ct_phase_at *a, const struct ct_phase_at *b);

#endif
