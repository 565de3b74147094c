// SPDX-License-Identifier: Apache-2.0
// --log: a line on stdout for each request that ran out of memory, and for growth that begins to
// fill a device, each once.
#ifndef CT_WATCH_EVENT_LOG_H
#define CT_WATCH_EVENT_LOG_H

#include "watch/list.h"
#include "watch/watch.h"

// Prints a line for each new incident and growth. Returns 0, or -1: it cannot be written.
int ct_event_log_print(struct ct_watch_list *l, enum ct_watch_log format);

#endif
