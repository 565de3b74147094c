// SPDX-License-Identifier: Apache-2.0
// cutrace watch: what traced processes use of their GPUs, while they run.
#ifndef CT_WATCH_H
#define CT_WATCH_H

#include "watch/keeper.h"

enum ct_watch_exit {
    CT_WATCH_DONE = 0,
    CT_WATCH_WRONG_USAGE = 2,
    CT_WATCH_NOTHING = 3,       // no traced process was found
    CT_WATCH_CANNOT_LISTEN = 4, // at the address of --serve
    CT_WATCH_CANNOT_WRITE = 5,
};

enum ct_watch_log { CT_WATCH_LOG_NONE, CT_WATCH_LOG_TEXT, CT_WATCH_LOG_JSON };

struct ct_watch_options {
    const char *target; // DIR, PID or PATTERN; NULL: all
    int once, json;
    unsigned interval_ms;
    int color;         // enum ct_choice of the report
    const char *serve; // where; NULL: nothing is served
    int may_be_public; // other machines may reach it
    enum ct_watch_log log;
    struct ct_keeper_options keeper;
};

// Returns an exit code.
int ct_watch(const struct ct_watch_options *options);

#endif
