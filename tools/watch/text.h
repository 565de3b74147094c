// SPDX-License-Identifier: Apache-2.0
// A process as text: for --once, and below the list of the live view.
#ifndef CT_WATCH_TEXT_H
#define CT_WATCH_TEXT_H

#include <stdio.h>

#include "base/human.h"
#include "watch/list.h"

struct ct_watch_style {
    size_t width;
    int color;
    unsigned sites, incidents; // rows at most
    uint64_t now_ns;
};

// Prints who it is and all that is known of it, in lines for ct_wrap.
void ct_watch_text_process(FILE *out, const struct ct_watch_process *p,
                           const struct ct_watch_style *style);
void ct_watch_text_skipped(FILE *out, const struct ct_watch_list *l);
// Prints all processes of a list.
void ct_watch_text_all(FILE *out, const struct ct_watch_list *l,
                       const struct ct_watch_style *style);
// "+1.2 MiB/min", "steady", "no clear trend", or "-".
struct ct_human_text ct_watch_text_growth(const struct ct_trend *t);
// "2:10:00", or "-".
struct ct_human_text ct_watch_text_full(const struct ct_watch_device *d);

#endif
