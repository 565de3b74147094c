// SPDX-License-Identifier: Apache-2.0
// Where a text's error happened: of the functions in its traceback the outermost phase counts, as
// phases contain one another (a profile run executes the model). Without a traceback the lines
// before the error say how far the program had come.
#ifndef CT_TEXT_PLACE_H
#define CT_TEXT_PLACE_H

#include "diagnose/verdicts.h"
#include "text/facts.h"

struct ct_text_phase {
    enum ct_scenario scenario; // of memory that runs out there; CT_SCENARIO_UNKNOWN: not known
    const char *during;        // "the capture of CUDA graphs"; NULL: not known
    int by_traceback;          // else by the lines before the error
};

struct ct_text_phase ct_text_place_find(const struct ct_text_fact *error);

#endif
