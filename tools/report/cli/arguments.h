// SPDX-License-Identifier: Apache-2.0
// The command line: a command, its options, and the traces.
#ifndef CT_ARGUMENTS_H
#define CT_ARGUMENTS_H

#include <stdint.h>

#include "allocator/settings.h"
#include "analyze/moment.h"
#include "base/error.h"
#include "base/human.h"
#include "base/parse.h"
#include "cli/argument_table.h"
#include "cli/fail_on.h"
#include "copy/scrub.h"
#include "export/formats.h"
#include "symbols/demangle.h"
#include "symbols/dwarf_lines.h"

enum ct_choice { CT_AUTO, CT_ALWAYS, CT_NEVER };
// What `help` is asked for: of the program or a command, or a page of its own.
enum ct_help_topic { CT_HELP_OF_COMMANDS, CT_HELP_OF_NOISE, CT_HELP_OF_LICENSES };

struct ct_arguments {
    enum ct_command command;
    int have_command; // one was named
    int json, strict, quick, no_journal, force, all_frames, help, version;
    enum ct_help_topic topic;
    int segments, tree;
    int seal, symbolize;       // of copy
    const char *output;        // NULL = not given
    const char *log[2];        // files beside the trace, a log and metrics; NULL = not given
    const char *rules;         // a file of rules for phases; NULL = not given
    const char *lengths;       // a list for ct_kv_waste_add_list; NULL = not given
    uint64_t capacity;         // 0 = not given
    int capacity_decimal;      // its unit was a power of 1000
    const char *capacity_text; // as typed
    const char *allocator;     // settings of PyTorch's allocator; NULL = not given
    struct ct_allocator_settings allocator_settings;
    char allocator_error[CT_ALLOCATOR_SETTINGS_ERROR]; // what is wrong with them
    int device;                                        // -1 = all
    struct ct_time from, to;                           // time_range.h makes times of events of them
    enum ct_scrub_level level;                         // of scrubbing
    const char *words, *salt;                          // for it; NULL = not given
    int while_running;  // bundle: of a process that may still record (cutrace watch)
    uint64_t max_bytes; // of a zip file
    unsigned top;       // rows; 0 = the default of the view
    uint64_t events;    // the same number, of events; UINT64_MAX = all
    enum ct_export_format format;
    unsigned table;    // of the format: enum ct_export_table
    int at_end;        // --at=end
    struct ct_time at; // the moment to describe
    // Of diff, where --at is given twice: that of A. Else the same as `at`.
    int at_end_before;
    struct ct_time at_before;
    unsigned at_count;         // how often it was given
    struct ct_fail_on fail_on; // of --fail-on; count 0: not given
    int have_demangling;
    enum ct_demangling demangling;
    enum ct_human_units units;
    enum ct_choice color;
    struct ct_debug_search lines;
    char **paths;
    int path_count;
};

// Returns 0, or -1 with the error set (exit code 2).
int ct_arguments_parse(struct ct_arguments *o, int argc, char **argv, struct ct_error *error);

#endif
