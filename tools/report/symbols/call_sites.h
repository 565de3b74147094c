// SPDX-License-Identifier: Apache-2.0
// Names of frames, and the call site of an allocation: which frames of its stack name the code that
// asked for the memory.
#ifndef CT_CALL_SITES_H
#define CT_CALL_SITES_H

#include <cutrace/model/noise.h>

#include "base/json.h"
#include "read/definitions.h"
#include "symbols/demangle.h"
#include "symbols/file_names.h"

// Answers are computed once. Each array is indexed by an id and holds 0 (or NULL) for an answer
// that was not computed yet.
struct ct_call_sites {
    const struct ct_definitions *definitions;
    int all_frames;   // --all-frames: no frame is noise
    int omits_stacks; // in JSON, a stack is null: the page has its own table of them
    enum ct_demangling in_text, in_json;
    struct {
        char **text; // by string
        size_t count;
    } written[CT_DEMANGLE_NO + 1]; // by enum ct_demangling
    struct ct_file_names files;
    uint8_t *depth; // by stack: frames in the label of its call site, 0 = one; see site_groups.h
    size_t depth_count;
    uint8_t *rank; // by frame: enum ct_frame_rank
    size_t rank_count;
    struct {
        struct ct_frame_json {
            char *text; // not terminated
            size_t length;
        } * list; // by frame
        size_t count, bytes;
    } json;
    struct {
        uint32_t *node; // by node of the call tree: the nearest of that rank or better, + 1
        size_t count;
    } nearest[CT_RANKS];
};

void ct_call_sites_init(struct ct_call_sites *s, const struct ct_definitions *definitions);
void ct_call_sites_free(struct ct_call_sites *s);

// The name of a symbol: NUL-terminated, any bytes.
const char *ct_call_sites_symbol(struct ct_call_sites *s, uint32_t string, enum ct_demangling how);
// The base name of a file or module, sanitized.
void ct_call_sites_base_name(const struct ct_definitions *n, uint32_t path, char *to, size_t size);
// "file:line function" where the line is known, else "function (module)" or "module+0x12ab",
// sanitized. The file has its short name (file_names.h); a very long part lacks its middle.
// `location` counts the locations of the frame from the innermost one; location_count means the
// frame's symbol.
void ct_call_sites_frame_label(struct ct_call_sites *s, const struct ct_frame *frame,
                               uint32_t location, char *to, size_t size);
// Whether views leave a frame out.
int ct_call_sites_hides_frame(struct ct_call_sites *s, uint32_t frame);

// Walks the frames of a stack that views show, innermost first: those that are not noise; if there
// are none, those of installed packages; else those without a name; else lines of Python that are
// noise; else the innermost one that is not cutrace's. A frame with inlined functions counts once
// for each of its locations that is not noise.
struct ct_shown_frames {
    struct ct_call_sites *sites;
    uint32_t stack;
    uint32_t node;     // of the current frame, 0 after the last one
    uint32_t location; // in that frame
    enum ct_frame_rank rank;
};
struct ct_shown_frames ct_call_sites_shown_frames(struct ct_call_sites *s, uint32_t stack);
void ct_call_sites_next_frame(struct ct_shown_frames *a);
void ct_call_sites_shown_label(const struct ct_shown_frames *a, char *to, size_t size);
// How many frames of the stack are not shown.
uint32_t ct_call_sites_count_hidden(const struct ct_shown_frames *a);
// Why a stack ends before the first function of its thread, or NULL if it does not.
const char *ct_call_sites_end_text(const struct ct_definitions *n, uint32_t stack);

// The label of a stack's call site: its first shown frame, and callers of that as far as `depth`
// says.
void ct_call_sites_label(struct ct_call_sites *s, uint32_t stack, char *to, size_t size);
// The frames of a stack as JSON.md specifies, or null.
void ct_call_sites_json_stack(struct ct_json *j, struct ct_call_sites *s, const char *key,
                              uint32_t stack);

#endif
