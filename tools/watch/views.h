// SPDX-License-Identifier: Apache-2.0
// The views of cutrace watch: what shows, serves or prints the list of processes.
#ifndef CT_WATCH_VIEWS_H
#define CT_WATCH_VIEWS_H

#include <stdio.h>

#include "watch/list.h"
#include "watch/watch.h"

// ---- screen.c -----------------------------------------------------------------------------------

// The live view: a list of processes above the details of one, on the terminal's other screen.
// Returns an exit code when the user ends it.
int ct_screen_run(struct ct_watch_list *list, const struct ct_watch_options *options);

// ---- service.c ----------------------------------------------------------------------------------

// cutrace watch without a terminal: serves what it sees by HTTP (--serve), says what is new
// (--log). One thread looks at the processes, and makes each answer of one look; another one serves
// clients. So neither a client nor a large trace keeps the other thread waiting.

// Whether it has something to serve or to say.
int ct_service_is_wanted(const struct ct_watch_options *options);
// Until a signal ends it; without both it only ticks, for a keeper. Returns an exit code.
int ct_service_run(struct ct_watch_list *list, const struct ct_watch_options *options);

// ---- event_log.c --------------------------------------------------------------------------------

// --log: a line on stdout for each request that ran out of memory, and for growth that begins to
// fill a device, each once. Returns 0, or -1: it cannot be written.
int ct_event_log_print(struct ct_watch_list *l, enum ct_watch_log format);

// ---- metrics_page.c -----------------------------------------------------------------------------

// A process that has ended is told for so long, so that its last counts are scraped.
#define CT_WATCH_TOLD_NS UINT64_C(300000000000)

// The answer to GET /metrics: all metrics of metrics.def, of one look. `is_prometheus`: the text
// format 0.0.4; else OpenMetrics 1.0.
void ct_metrics_page_print(FILE *out, const struct ct_watch_list *l, int is_prometheus);

// ---- watch_json.c -------------------------------------------------------------------------------

struct ct_json;

// The document of cutrace watch --once --json. WATCH.md is the contract.
void ct_watch_json_print(FILE *out, const struct ct_watch_list *l);
// The keys `growth` and `full` of a device.
void ct_watch_json_add_growth(struct ct_json *j, const struct ct_watch_device *d);

#endif
