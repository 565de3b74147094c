// SPDX-License-Identifier: Apache-2.0
// Lines of a text without what stands around their sentences: escape sequences of colours, quotes,
// the tags and stamps that servers, containers and loggers put before a line.
#ifndef CT_CLEAN_H
#define CT_CLEAN_H

#include <stddef.h>

// Where the sentence of a line begins, after what was put before it.
size_t ct_clean_skip_prefix(const char *line, size_t length);
// The letters of a line without what rich puts at its right end, "  batch_handler.py:574", and the
// blanks before that.
size_t ct_clean_skip_suffix(const char *line, size_t length);
// The time in what was put before a sentence, `prefix` letters: a time of day, with the date if one
// stands before it: "11-23 20:25:27", "2026-02-24T20:21:58". Returns its length, 0 if there is
// none, and sets where it begins.
size_t ct_clean_find_stamp(const char *line, size_t prefix, size_t *at);
// Whether what was put before a sentence names a process of vLLM's: "(EngineCore_DP0 pid=1)".
int ct_clean_has_vllm_tag(const char *line, size_t prefix);
// Writes the letters of a line to `to`, which has room for `length` of them, as template.h wants
// them. Returns their number. What is left are printable ASCII letters without quotes and
// backslashes (those of a path of Windows become slashes), blanks and marks of line ends that are
// written out ("\n" in an escaped text).
size_t ct_clean_letters(const char *line, size_t length, char *to);

#endif
