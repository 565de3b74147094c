// SPDX-License-Identifier: Apache-2.0
// A time of day has no date: it is that of the day on which the trace has this time, or else of the
// day that is nearest to the trace.
#include "answer/time_range.h"

#include <inttypes.h>

#include "answer/view_scan.h"
#include "question/question.h"
#include "read/clocks.h"

#define DAY (UINT64_C(86400) * 1000000000)

int ct_time_range_utc(const struct ct_trace *t, uint64_t t_ns, uint64_t *utc_ns) {
    struct ct_clocks c;
    ct_clocks_read(&c, &t->definitions);
    return ct_clocks_utc(&c, t_ns, utc_ns);
}

static uint64_t add(uint64_t a, uint64_t b) {
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t distance(uint64_t utc, uint64_t first, uint64_t last) {
    if (utc < first)
        return first - utc;
    return utc > last ? utc - last : 0;
}

// Chooses the day of a time of day.
static int choose_day(const struct ct_trace *t, const char *option, uint64_t of_day, uint64_t *utc,
                      struct ct_error *error) {
    uint64_t first = 0, last = 0;
    (void)ct_time_range_utc(t, t->start_ns, &first);
    (void)ct_time_range_utc(t, t->t_last_ns > t->start_ns ? t->t_last_ns : t->start_ns, &last);
    unsigned inside = 0;
    *utc = first / DAY * DAY + of_day;
    for (uint64_t day = first / DAY; day <= last / DAY && inside < 2; day++) {
        const uint64_t candidate = day * DAY + of_day;
        inside += !distance(candidate, first, last);
        if (distance(candidate, first, last) < distance(*utc, first, last))
            *utc = candidate;
    }
    if (inside < 2)
        return 0;
    return ct_error_set(error, CT_EXIT_USAGE,
                        "%.200s: %s: the trace has this time on several days; add the date, as in "
                        "%s",
                        t->source.name, option, ct_human_date_and_time(*utc).text);
}

// A time of day, or UTC, becomes a time of the events.
static int resolve_utc(const struct ct_trace *t, const char *option, const struct ct_time *time,
                       uint64_t *to, struct ct_error *error) {
    uint64_t utc = time->ns;
    struct ct_clocks c;
    ct_clocks_read(&c, &t->definitions);
    if (!c.known)
        return ct_error_set(error, CT_EXIT_USAGE,
                            "%.200s: %s: the trace does not have the time of day; give the time "
                            "since its start",
                            t->source.name, option);
    if (time->kind == CT_TIME_OF_DAY && choose_day(t, option, time->ns, &utc, error))
        return -1;
    if (utc >= c.realtime_ns)
        *to = add(c.monotonic_ns, utc - c.realtime_ns);
    else
        *to = c.realtime_ns - utc > c.monotonic_ns ? 0 : c.monotonic_ns - (c.realtime_ns - utc);
    return 0;
}

void ct_time_range_read_key_times(struct ct_view *v, struct ct_key_times *times) {
    struct ct_scan s;
    const struct ct_scan_request request = ct_view_scan_request_pools(v);
    if (times->is_read)
        return;
    ct_question_scan(&s, v->trace, &request, NULL);
    const struct ct_oom_event *crossing = ct_scan_find_crossing(&s);
    const int device = ct_view_scan_main_device(v, &s);
    *times = (struct ct_key_times){.is_read = 1, .has_crossing = crossing != NULL};
    if (crossing)
        times->crossing_ns = crossing->t_ns;
    times->has_peak = device >= 0 && s.device[device].peak_known;
    if (times->has_peak)
        times->peak_ns = s.device[device].peak_t_ns;
    ct_scan_free(&s);
}

static int resolve_moment(struct ct_view *v, const char *option, enum ct_time_kind kind,
                          struct ct_key_times *times, uint64_t *to, struct ct_error *error) {
    ct_time_range_read_key_times(v, times);
    const int is_peak = kind == CT_TIME_OF_PEAK;
    *to = is_peak ? times->peak_ns : times->crossing_ns;
    if (is_peak ? times->has_peak : times->has_crossing)
        return 0;
    return ct_error_set(error, CT_EXIT_USAGE, "%.200s: %s: %s in this trace", v->trace->source.name,
                        option, is_peak ? "no GPU memory was allocated" : "no OOM occurred");
}

static int resolve_number(struct ct_trace *t, const char *option, uint64_t number, uint64_t *to,
                          struct ct_error *error) {
    if (ct_trace_find_event(t, number, to))
        return 0;
    return ct_error_set(error, CT_EXIT_USAGE, "%.200s: %s: event %" PRIu64 " is not in this trace",
                        t->source.name, option, number);
}

static int resolve_unshifted(struct ct_view *v, const char *option, const struct ct_time *time,
                             struct ct_key_times *times, uint64_t *to, struct ct_error *error) {
    switch (time->kind) {
    case CT_TIME_NONE:
        return 0;
    case CT_TIME_ELAPSED:
        *to = add(v->trace->start_ns, time->ns);
        return 0;
    case CT_TIME_OF_DAY:
    case CT_TIME_UTC:
        return resolve_utc(v->trace, option, time, to, error);
    case CT_TIME_OF_EVENT:
        return resolve_number(v->trace, option, time->ns, to, error);
    case CT_TIME_OF_CROSSING:
    case CT_TIME_OF_PEAK:
        return resolve_moment(v, option, time->kind, times, to, error);
    }
    return 0;
}

static int resolve(struct ct_view *v, const char *option, const struct ct_time *time,
                   struct ct_key_times *times, uint64_t *to, struct ct_error *error) {
    const uint64_t before = time->shift_ns < 0 ? (uint64_t)-time->shift_ns : 0;
    if (resolve_unshifted(v, option, time, times, to, error))
        return -1;
    if (before)
        *to = *to > before ? *to - before : 0;
    else
        *to = add(*to, (uint64_t)time->shift_ns);
    return 0;
}

static struct ct_human_text elapsed(const struct ct_trace *t, uint64_t t_ns) {
    return ct_human_elapsed(t_ns > t->start_ns ? t_ns - t->start_ns : 0);
}

enum bound { FROM = 1, TO = 2, AT = FROM | TO };

// Refuses a moment, or the begin of a range, behind the last event, and a moment, or the end of a
// range, before the first one: an empty answer would look like that of a healthy run. Where the end
// of the trace is missing, views say that what was later is not known.
static int check_inside(const struct ct_view *v, const char *option, const struct ct_time *time,
                        uint64_t t_ns, enum bound bound, struct ct_error *error) {
    const struct ct_trace *t = v->trace;
    // (times are printed to a millisecond, those of days to a second, and typed again)
    const uint64_t step = t->t_last_ns - t->start_ns < DAY ? 1000000 : 1000000000;
    // (a moment of what was overwritten is one of the run, of which views say that it is not known)
    const int is_early = add(t_ns, step) < t->t_first_ns && (bound == TO || !t->first_event);
    const int is_late = !t->incomplete && !t->running && t_ns > add(t->t_last_ns, step);
    if (time->kind == CT_TIME_NONE || !t->events ||
        !((bound & TO && is_early) || (bound & FROM && is_late)))
        return 0;
    return ct_error_set(error, CT_EXIT_USAGE,
                        "%.200s: %s: no event is of that time; the first is at %s, the last at %s",
                        t->source.name, option, elapsed(t, t->t_first_ns).text,
                        elapsed(t, t->t_last_ns).text);
}

// What is live in a gap is not known: goes back to the last event before it. Returns the time asked
// for if it lies in a gap or after one, else 0.
static uint64_t leave_gap(const struct ct_trace *t, const struct ct_time *time, uint64_t *t_ns) {
    const uint64_t asked_ns = *t_ns;
    struct ct_trace_gap gap;
    if (time->kind == CT_TIME_NONE || !ct_trace_find_gap(t, asked_ns, &gap))
        return 0;
    if (gap.from_ns && asked_ns < gap.next_ns)
        *t_ns = gap.from_ns;
    return asked_ns;
}

int ct_time_range_resolve(struct ct_view *v, struct ct_error *error) {
    struct ct_key_times times = {.is_read = 0};
    uint64_t from = 0, to = UINT64_MAX;
    v->from_ns = 0;
    v->to_ns = UINT64_MAX;
    const enum ct_time_kind at = ct_time_kind_of(&v->options->at);
    // (views find the moments "oom" and "peak" in their range themselves)
    const int is_found_later = at == CT_TIME_OF_CROSSING || at == CT_TIME_OF_PEAK;
    v->at = (struct ct_instant){.event = at == CT_TIME_OF_EVENT ? v->options->at.ns : UINT64_MAX};
    if (resolve(v, "--from", &v->options->from, &times, &from, error) ||
        resolve(v, "--to", &v->options->to, &times, &to, error))
        return -1;
    if (!is_found_later && resolve(v, "--at", &v->options->at, &times, &v->at.t_ns, error))
        return -1;
    if (from > to)
        return ct_error_set(error, CT_EXIT_USAGE, "--from is later than --to");
    if (check_inside(v, "--from", &v->options->from, from, FROM, error) ||
        check_inside(v, "--to", &v->options->to, to, TO, error) ||
        (!is_found_later && check_inside(v, "--at", &v->options->at, v->at.t_ns, AT, error)))
        return -1;
    v->from_ns = from;
    v->in_gap_ns = leave_gap(v->trace, &v->options->to, &to);
    v->to_ns = to > from ? to : from;
    if (!is_found_later) {
        const uint64_t in_gap_ns = leave_gap(v->trace, &v->options->at, &v->at.t_ns);
        v->in_gap_ns = in_gap_ns ? in_gap_ns : v->in_gap_ns;
    }
    return 0;
}
