// SPDX-License-Identifier: Apache-2.0
// Names of frames, and which frame of a stack says who asked for the memory.
#ifndef CT_SITES_H
#define CT_SITES_H

#include "base/json.h"
#include "read/definitions.h"
#include "symbols/demangle.h"

struct ct_call_sites {
    const struct ct_definitions *names;
    int all_frames; // --all-frames: nothing is noise
    enum ct_demangling in_text, in_json;
    struct {
        char **text; // by string id; NULL = not asked for yet
        size_t count;
    } written[CT_DEMANGLE_NO + 1]; // by enum ct_demangling
    uint8_t *depth; // by stack id: frames that the label of its site shows, 0 = one; see groups.h
    size_t depth_count;
    uint8_t *worth; // by frame id: enum ct_frame_rank, 0 = not asked for yet
    size_t worth_count;
    struct {
        uint32_t *node; // by node: the nearest one that is worth as much + 1, 0 = not asked for yet
        size_t count;
    } nearest[4];
};

// What a frame tells of who asked for memory: the less the better.
enum ct_frame_rank {
    CT_FRAME_NAMED = 1, // a function of the program, or of a library that asks for itself
    CT_FRAME_NAMELESS,    // the same without a name
    CT_FRAME_NOISE,    // see noise.def
    CT_FRAME_OURS,  // ours; no frame at all
};

void ct_call_sites_init(struct ct_call_sites *s, const struct ct_definitions *names);
void ct_call_sites_free(struct ct_call_sites *s);

// A symbol's name, NUL-terminated raw bytes.
const char *ct_call_sites_symbol(struct ct_call_sites *s, uint32_t string, enum ct_demangling how);
// Base name of a file or module, cleaned for a terminal.
void ct_call_sites_base_name(const struct ct_definitions *n, uint32_t path, char *to, size_t size);
// "function (module)", "function at file:line", "file:line function" or "module+0x12ab", short and cleaned. Where it is one of the
// frame's places, its number there, from the innermost one on.
void ct_call_sites_frame_label(struct ct_call_sites *s, const struct ct_frame *frame, uint32_t place, char *to,
                    size_t size);
// Whether views leave a frame out.
int ct_call_sites_hides_frame(struct ct_call_sites *s, uint32_t frame);

// The frames of a stack that say who asked, innermost first: those that are not noise; where there are none, those without
// a name; else the innermost one that is not ours. `node` is 0 behind the last one. A frame into which functions were inlined counts
// as often as places of it are no noise.
struct ct_shown_frames {
    struct ct_call_sites *sites;
    uint32_t stack, node, place;
    enum ct_frame_rank worth;
};
struct ct_shown_frames ct_call_sites_shown_frames(struct ct_call_sites *s, uint32_t stack);
void ct_call_sites_next_frame(struct ct_shown_frames *a);
void ct_call_sites_shown_label(const struct ct_shown_frames *a, char *to, size_t size);
// How many frames they leave out; why the stack ends before its thread's first function, in words, or NULL.
uint32_t ct_call_sites_count_hidden(const struct ct_shown_frames *a);
const char *ct_call_sites_end_text(const struct ct_definitions *n, uint32_t stack);

// Label of the first of them, followed by its callers where ct_call_sites.depth asks for them.
void ct_call_sites_label(struct ct_call_sites *s, uint32_t stack, char *to, size_t size);
// The contract's list of frames, or null.
void ct_call_sites_json_stack(struct ct_json *j, struct ct_call_sites *s, const char *key, uint32_t stack);

#endif
