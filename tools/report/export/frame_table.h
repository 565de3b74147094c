// SPDX-License-Identifier: Apache-2.0
// The frames of stacks as formats with functions, files and lines have them, each once.
#ifndef CT_FRAME_TABLE_H
#define CT_FRAME_TABLE_H

#include "base/names.h"
#include "export/export.h"

struct ct_export_frame {
    char *name;       // of the function, or of what stands for a missing one; never empty
    char *file;       // NULL: not known
    uint64_t line;    // 0: not known
    uint64_t address; // of native code, in its module's file; 0: not known
};

struct ct_frame_table {
    struct ct_export *x;
    struct ct_export_frame *list; // 0 and up
    size_t count, room;
    struct ct_map known;     // frame of the trace and location -> position + 1
    struct ct_names made_up; // names that are no frames of the trace
    struct ct_map of_name;   // number of such a name -> position + 1
    // Of the last stack: positions in the list, innermost first.
    uint32_t *stack;
    size_t depth, depth_room;
};

void ct_frame_table_init(struct ct_frame_table *t, struct ct_export *x);
void ct_frame_table_free(struct ct_frame_table *t);
// Reads the frames that views show of a holding's stack, innermost first, into `stack`. Where it
// has no stack, a single frame says what it is.
void ct_frame_table_read(struct ct_frame_table *t, enum ct_holding_kind kind, uint32_t stack);

// What a frame that views show is named, as the trace has it: bytes, not terminated. `label`: room
// for names that are made up, at least 1200 bytes.
struct ct_frame_names {
    struct ct_string function;
    uint32_t file; // a string of the definitions
    uint64_t line, address;
};
struct ct_frame_names ct_frame_names_get(const struct ct_shown_frames *a, char *label, size_t size);

#endif
