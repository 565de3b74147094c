// SPDX-License-Identifier: Apache-2.0
// The live view: a list of processes above the details of one, on the terminal's other screen.
#ifndef CT_WATCH_SCREEN_H
#define CT_WATCH_SCREEN_H

#include "watch/list.h"
#include "watch/watch.h"

// Returns an exit code when the user ends it.
int ct_screen_run(struct ct_watch_list *list, const struct ct_watch_options *options);

#endif
