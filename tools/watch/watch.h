// SPDX-License-Identifier: Apache-2.0
// cutrace watch: what traced processes use of their GPUs, while they run.
#ifndef CT_WATCH_H
#define CT_WATCH_H

#include <stdio.h>

#include "base/human.h"
#include "watch/keeper.h"
#include "watch/list.h"

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

// The views: what shows, serves or prints the list of processes.

// ---- text.c -------------------------------------------------------------------------------------

// A process as text: for --once, and below the list of the live view.
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
// "GPU 0", or "GPU not known".
struct ct_human_text ct_watch_text_device(int ordinal);

// ---- rows.c -------------------------------------------------------------------------------------

// The list of processes as a table: which columns fit, in which order the rows are.
enum ct_row_column {
    CT_ROW_PID,
    CT_ROW_PROGRAM,
    CT_ROW_STATE,
    CT_ROW_ALLOCATED,
    CT_ROW_GROWTH,
    CT_ROW_FULL,
    CT_ROW_OOM,
    CT_ROW_FREE,
    CT_ROW_LOST,
    CT_ROW_PHASE,
    CT_ROW_COLUMNS,
};

struct ct_rows {
    size_t order[CT_WATCH_MOST]; // positions in the list
    size_t count;
    enum ct_row_column sorted_by;
};

void ct_rows_sort(struct ct_rows *r, const struct ct_watch_list *l);
// The last column that fits, + 1.
enum ct_row_column ct_rows_fit(size_t width);
void ct_rows_print_head(FILE *out, const struct ct_rows *r, size_t width);
void ct_rows_print(FILE *out, const struct ct_watch_process *p, size_t width);

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
