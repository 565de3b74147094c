// SPDX-License-Identifier: Apache-2.0
// What a text says: errors, figures of a start, settings, a server's periodic figures, each with
// the line it stands in. Memory is bounded, however long the text is.
#ifndef CT_TEXT_FACTS_H
#define CT_TEXT_FACTS_H

#include "text/template.h"

enum { CT_TEXT_PROCESSES = 64, CT_TEXT_NOTE_SIZE = 120, CT_TEXT_PLACE_SIZE = 80 };

struct ct_text_fact {
    enum ct_text_kind kind;
    uint64_t line, offset; // where it begins: line from 1, byte of the begin of that line
    // Of an error: where it happened, by its traceback and by lines beside it; whether there is a
    // traceback; a name of the place, or ""; the last line before it after which a phase begins,
    // or CT_TEXT_KINDS.
    struct ct_text_where where;
    int has_traceback;
    char place[CT_TEXT_PLACE_SIZE];
    enum ct_text_kind progress;
    struct ct_text_value values[CT_TEXT_FIELDS];
    unsigned process_count; // processes that the message names by number, its own or others
    struct ct_text_process {
        int64_t pid;
        struct ct_text_value bytes;
    } processes[CT_TEXT_PROCESSES];
    char note[CT_TEXT_NOTE_SIZE]; // of a field of letters; harmless for a terminal
    uint64_t repeats;             // how often it stands there, in all
};

struct ct_text_setting {
    char value[32]; // as written; "": not named
    uint64_t line;
    struct ct_text_value number; // in millionths, if it is a number
};

// A server's periodic lines.
struct ct_text_load {
    uint64_t lines, full_lines, shrinking_lines; // all; with 90 % of the cache in use and requests
                                                 // waiting; and fewer running than the line before
    int64_t max_usage, max_waiting, max_running; // usage in millionths of a per cent
    int64_t first_hits, last_hits;               // of the prefix cache, the same; -1: none
    uint64_t first_line, worst_line;
    int64_t last_running, preemptions; // preemptions: the largest count that a line says
    uint64_t preempted_lines, preempted_line;
};

// The peak that a training prints from time to time, in bytes, since it last stayed the
// same.
struct ct_text_peak {
    int64_t first, last;
    uint64_t first_line, last_line, rises;
};

enum { CT_TEXT_STAMP_SIZE = 24 };

// When a line was written, as it says itself.
struct ct_text_stamp {
    uint64_t line;
    char text[CT_TEXT_STAMP_SIZE];
};

// The scheduler's output of the step that failed.
enum { CT_TEXT_STEP_LENGTHS = 1024 };
struct ct_text_step {
    uint64_t line, requests;
    uint64_t length_count, lengths[CT_TEXT_STEP_LENGTHS]; // of the prompts of new requests
    struct ct_text_value tokens;
};

struct ct_text_facts {
    struct ct_text_fact *list;
    size_t count, room;
    uint64_t found, lines, bytes; // found: matches of any kind
    struct ct_text_setting settings[CT_TEXT_FLAGS];
    struct ct_text_load load;
    struct ct_text_peak peak;
    int has_no_expandable; // PyTorch said that it cannot enlarge segments
    int says_failure;      // a word of failures stands in a sentence that is not known
    uint64_t says_oom;     // the first line with words for memory that ran out; 0: none
    struct ct_text_step step;
    char version[32];  // of vLLM
    uint32_t programs; // a bit for each enum ct_framework that the text is of
    int64_t capacity;  // of the device, by a trace beside the text, in bytes; 0: not known
    struct ct_text_stamp *stamps; // of the lines that facts stand in, as far as these have one
    size_t stamp_count, stamp_room;
    // while it is read:
    const char *stamp; // of the line, "" if it has none
    size_t open;       // the OOM that clauses belong to, + 1
    uint64_t open_line;
    uint64_t said_line;            // the last one in which a sentence is known
    uint64_t words_line[2];        // the last one with words of a failure, of memory that ran out
    size_t waiting;                // as `open`: it may be that of the traceback behind it
    int has_frames;                // there is a traceback somewhere
    struct ct_traceback traceback; // so far
    struct ct_text_where where;    // that a line has named
    char place[CT_TEXT_PLACE_SIZE];
    enum ct_text_kind progress;
    uint64_t kept[CT_TEXT_KINDS];
};

void ct_text_facts_init(struct ct_text_facts *f);
void ct_text_facts_free(struct ct_text_facts *f);
// After the last match: frames may stand after their error.
void ct_text_facts_end(struct ct_text_facts *f);
// Adds what a match says. `text` is the cleaned text that it was found in.
void ct_text_facts_add(struct ct_text_facts *f, const char *text, size_t length, size_t at,
                       const struct ct_template_match *m, uint64_t line, uint64_t offset);
// The program that a text is of, by what only it writes; NONE: not known.
enum ct_framework ct_text_facts_program(const struct ct_text_facts *f);
// The same, or where only PyTorch is known, the one whose frames called it there.
enum ct_framework ct_text_facts_program_at(const struct ct_text_facts *f,
                                           const struct ct_text_where *where);
// When a line that a fact stands in was written, or NULL.
const char *ct_text_facts_find_stamp(const struct ct_text_facts *f, uint64_t line);
// The first fact of a kind or role, or NULL.
const struct ct_text_fact *ct_text_facts_find(const struct ct_text_facts *f,
                                              enum ct_text_kind kind);
const struct ct_text_fact *ct_text_facts_find_role(const struct ct_text_facts *f,
                                                   enum ct_text_role role);

#endif
