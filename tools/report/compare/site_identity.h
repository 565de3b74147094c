// SPDX-License-Identifier: Apache-2.0
// What of one trace is the same code as what of another: two versions of a program have other line
// numbers, two machines other paths, two builds other libraries.
//
// A file is the same one if the paths are equal, or are equal after site-packages and the like, or
// if each is the one with the longest common end of all that have this name. A function is the same
// if its name and its file are. Its line counts only if one trace has every line of the function
// that the other has: if each has lines that the other lacks, the function was changed, and a line
// of it says nothing any more. Of native code without source lines, the function and the name of
// the library without its version stand for the file.
#ifndef CT_SITE_IDENTITY_H
#define CT_SITE_IDENTITY_H

#include "sites/site_groups.h"

enum { CT_SIDES = 2 }; // A and B

// Two files that are taken for one although their paths differ in more than where Python's packages
// are installed.
struct ct_moved_file {
    uint32_t file[CT_SIDES]; // strings
};

struct ct_site_identity {
    struct ct_call_sites *sites[CT_SIDES];
    struct ct_map files[CT_SIDES]; // string -> the same number for the same file on both sides
    struct ct_map changed;         // function in a file -> 1: its lines say nothing
    struct ct_moved_file *moved;
    size_t moved_count, moved_room;
};

// What a call site is in both traces.
struct ct_site_key {
    uint64_t exact;     // with the library of native functions
    uint64_t functions; // without it
    uint64_t line;      // of its innermost frame, 0: not known or none
    uint64_t lines;     // of all its frames
    int has_library;    // the two differ
};

void ct_site_identity_init(struct ct_site_identity *d, struct ct_call_sites *a,
                           struct ct_call_sites *b);
// Lets the labels of both sides show as many callers: as many as the side with more of them shows
// for a call site. To be called after ct_site_groups_refine of both.
void ct_site_identity_unify_depths(struct ct_site_identity *d,
                                   const struct ct_live_totals *totals[CT_SIDES]);
struct ct_site_key ct_site_identity_key(struct ct_site_identity *d, int side,
                                        enum ct_holding_kind kind, uint32_t stack);
void ct_site_identity_free(struct ct_site_identity *d);

#endif
