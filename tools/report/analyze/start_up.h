// SPDX-License-Identifier: Apache-2.0
// Where the start-up of a program ends and when it worked, by the phases of its stacks: loading,
// warm-up and capture are start-up, and so is the first pass of a model, which makes gradients,
// states and workspaces that stay. Further passes are work.
#ifndef CT_START_UP_H
#define CT_START_UP_H

#include "replay/replay.h"
#include "symbols/phases.h"

enum { CT_START_UP_WORK_TIMES = 1 << 16 };

struct ct_start_up {
    struct ct_phases *phases;              // NULL: nothing is found
    uint64_t last_start_ns, first_step_ns; // 0: there was none
    uint64_t passes, second_pass_ns;
    int is_forward; // the last allocation is of a forward pass
    // Times of work, at least `spacing_ns` apart.
    uint64_t *work;
    size_t work_count;
    uint64_t spacing_ns;
};

// Whether a phase is of the start-up: what it allocates stays for good, and is no leak.
int ct_start_up_has_phase(enum ct_phase phase);
// For each event, in their order.
void ct_start_up_note_event(struct ct_start_up *u, const struct ct_event *e);
// For what is live after events were overwritten: allocations of these tell of the start-up, too.
void ct_start_up_note_live(struct ct_start_up *u, const struct ct_live *l);
// The end of the start-up: of its last phase, or of the first pass if that is later; where there is
// neither, the first step of a server, which has started. 0: not known.
uint64_t ct_start_up_end(const struct ct_start_up *u);
// The position of the first time of work after a time.
size_t ct_start_up_find_work(const struct ct_start_up *u, uint64_t t_ns);
void ct_start_up_free(struct ct_start_up *u);

#endif
