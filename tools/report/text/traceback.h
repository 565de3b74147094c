// SPDX-License-Identifier: Apache-2.0
// What the frames of a traceback in a text say, by the rules for the stacks of a trace
// (symbols/phase_rules.h). A text may lack frames, at either end, and the paths of files.
#ifndef CT_TRACEBACK_H
#define CT_TRACEBACK_H

#include "symbols/phase_rules.h"

// Where an error happened, as far as it is known.
struct ct_text_where {
    enum ct_phase phase; // UNKNOWN: no rule fits
    enum ct_component component;
    enum ct_framework framework;
    int is_loop;   // in the loop that serves requests, whatever else is known
    int is_ipc;    // it receives what lies in another process on the same device
    int is_pinned; // it locks memory of the host
};

// Frames that a rule knows; of more the outermost ones are forgotten.
enum { CT_TRACEBACK_FRAMES = 64, CT_TRACEBACK_RULES = 6 };
struct ct_traceback {
    struct ct_traceback_frame {
        uint16_t rules[CT_TRACEBACK_RULES];
        uint16_t count, by_file; // the first so many fit its file, too
        uint8_t is_loop, is_ipc, is_pinned, is_capture;
    } frames[CT_TRACEBACK_FRAMES];
    size_t count; // of all frames that a rule knows
    size_t seen;  // of all frames
};

// Adds a frame, the outermost one first. `path` may be "": not known. Of the function `length`
// letters are its name, which may begin with its class.
void ct_traceback_add(struct ct_traceback *t, const char *path, const char *function,
                      size_t length);
// What the frames say together. `is_reversed`: the innermost one was added first.
struct ct_text_where ct_traceback_read(const struct ct_traceback *t, int is_reversed);
int ct_text_where_is_known(const struct ct_text_where *w);

#endif
