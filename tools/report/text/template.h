// SPDX-License-Identifier: Apache-2.0
// Templates: sentences with named fields, and the search for them in a text.
//
// The text is one that text/clean.c made: printable ASCII, a blank where there were blanks,
// and a mark where a line ended. Templates match across all of these, so that a sentence is found
// however it was wrapped, quoted or prefixed. Matching takes no step back further than the begin of
// an optional part: its time is linear in the length of what it reads, whatever the text.
#ifndef CT_TEMPLATE_H
#define CT_TEMPLATE_H

#include <stddef.h>
#include <stdint.h>

#include "text/traceback.h"

// Ends of lines in a cleaned text. A line that is long may have been wrapped within a word or
// number.
#define CT_TEXT_WRAP '\n'
#define CT_TEXT_BREAK '\v'

enum ct_text_field {
#define CT_TEXT_FIELD(ID, name) CT_TEXT_##ID,
#include "text/fields.def"
    CT_TEXT_FIELDS
};

enum ct_text_role {
    CT_TEXT_ROLE_OOM,
    CT_TEXT_ROLE_ERROR,
    CT_TEXT_ROLE_WRAPPER,
    CT_TEXT_ROLE_CLAUSE,
    CT_TEXT_ROLE_INFO,
    CT_TEXT_ROLE_PROGRESS,
    CT_TEXT_ROLE_STATS,
    CT_TEXT_ROLE_TRACEBACK,
    CT_TEXT_ROLE_FRAME,
    CT_TEXT_ROLE_METHOD,
    CT_TEXT_ROLE_WHERE,
    CT_TEXT_ROLE_FLAG,
    CT_TEXT_ROLE_STEP,
    CT_TEXT_ROLE_PROGRAM,
    CT_TEXT_ROLE_WORD,
};

enum ct_text_flag {
#define CT_TEXT_FLAG(ID, name, dashed, source) CT_TEXT_FLAG_##ID,
#include "text/flags.def"
    CT_TEXT_FLAGS
};

enum ct_text_kind {
#define CT_TEXT_KIND(ID, ROLE) CT_TEXT_KIND_##ID,
#include "text/kinds.def"
    CT_TEXT_KINDS
};

// A value is known to `step`: a size of 1.74 GiB to a hundredth of a GiB. Larger ones than
// CT_TEXT_MOST ("17179869184.00 GiB") are CT_TEXT_MOST, so that a few of them can be added up
// without an overflow.
#define CT_TEXT_MOST (INT64_C(1) << 60)

struct ct_text_value {
    int known;
    int64_t value, step;
};

enum { CT_TEXT_WORD_SIZE = 300 };

struct ct_template_match {
    enum ct_text_kind kind;
    enum ct_text_flag flag; // of kind FLAG: which one; its value stands after the match
    const char *source;     // who says it, as the table has it: "vLLM 0.1 and later"
    struct ct_text_value values[CT_TEXT_FIELDS];
    char word[CT_TEXT_WORD_SIZE]; // of a field of letters, the last one
    size_t end;                   // after the match
};

enum ct_text_role ct_template_role(enum ct_text_kind kind);
// The phase that begins after a line of this kind, or that it names; UNKNOWN: none.
struct ct_text_where ct_template_where(enum ct_text_kind kind);
// Finds the template that matches at `at`, the first of the table. Returns 0 if none does.
int ct_template_match(const char *text, size_t length, size_t at, struct ct_template_match *m);
// Reads a number with its unit, if it has one, as a template's field of type `gib` or `dec` does.
int ct_template_read_number(const char *text, size_t length, size_t *at, struct ct_text_value *v);
// Calls `found` for each match that begins in [from, to), in order; text up to `length` may belong
// to it.
typedef void (*ct_template_found)(void *cookie, size_t at, const struct ct_template_match *m);
void ct_template_find_all(const char *text, size_t length, size_t from, size_t to,
                          ct_template_found found, void *cookie);

#endif
