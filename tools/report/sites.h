// SPDX-License-Identifier: Apache-2.0
// Names of frames, and which frame of a stack says who asked for the memory.
#ifndef CT_SITES_H
#define CT_SITES_H

#include "json.h"
#include "names.h"

struct ct_sites {
    const struct ct_names *names;
    char **demangled; // by string id; NULL = not asked for yet
    size_t demangled_count;
    uint8_t *depth; // by stack id: frames that the label of its site shows, 0 = one; see groups.h
    size_t depth_count;
    uint32_t *asker; // by stack id: place of the frame + 1, 0 = not asked for yet
    size_t asker_count;
};

void ct_sites_init(struct ct_sites *s, const struct ct_names *names);
void ct_sites_free(struct ct_sites *s);

// Full name of a native or Python frame's function, NUL-terminated raw bytes; NULL if unknown.
const char *ct_frame_function(struct ct_sites *s, const struct ct_frame *frame);
// Base name of a file or module, cleaned for a terminal.
void ct_base_name(const struct ct_names *n, uint32_t path, char *to, size_t size);
// "function (module)" or "function file:line" or "module+0x12ab", short and cleaned.
void ct_frame_label(struct ct_sites *s, const struct ct_frame *frame, char *to, size_t size);
// Place in the stack of the first frame that is neither ours, nor CUDA's, nor an allocator's.
uint32_t ct_stack_asker(struct ct_sites *s, uint32_t stack);
// Frames from that one on which are not passed over at the end, like _start: at least one.
uint32_t ct_stack_callers(struct ct_sites *s, uint32_t stack);
const struct ct_frame *ct_stack_frame(const struct ct_names *n, uint32_t stack, uint32_t place);
// Label of that frame, followed by its callers where ct_sites.depth asks for them.
void ct_site_label(struct ct_sites *s, uint32_t stack, char *to, size_t size);
// The contract's list of {name,file,line,module,offset}, or null.
void ct_json_stack(struct ct_json *j, struct ct_sites *s, const char *key, uint32_t stack);

#endif
