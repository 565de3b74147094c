// SPDX-License-Identifier: Apache-2.0
#include "watch/watch.h"

#include <inttypes.h>
#include <string.h>

#include "base/utf8.h"
#include "base/wrap.h"

#define LEAST_RATE_NS UINT64_C(5000000000)
#define STALE_NS UINT64_C(2000000000)

static struct ct_human_text signed_bytes(int64_t bytes) {
    const uint64_t size = bytes < 0 ? 0 - (uint64_t)bytes : (uint64_t)bytes;
    return ct_human_format("%s%s", bytes < 0 ? "-" : "+", ct_human_bytes(size, CT_UNITS_IEC).text);
}

static struct ct_human_text bytes_of(uint64_t bytes) {
    return ct_human_bytes(bytes, CT_UNITS_IEC);
}

static struct ct_human_text ago(const struct ct_watch_style *style, uint64_t t_ns) {
    return ct_human_seconds(style->now_ns > t_ns ? style->now_ns - t_ns : 0);
}

// ---- trends -------------------------------------------------------------------------------------

struct ct_human_text ct_watch_text_growth(const struct ct_trend *t) {
    static const char *const words[CT_TREND_KINDS] = {
        "-", "known after 60 s", "starting up", "no clear trend", "steady", "", ""};
    if (*words[t->kind] || t->kind == CT_TREND_UNKNOWN)
        return ct_human_format("%s", words[t->kind]);
    return ct_human_format("%s/min", signed_bytes(ct_trend_per_minute(t->slope)).text);
}

struct ct_human_text ct_watch_text_device(int ordinal) {
    return ordinal >= 0 && ordinal < CT_MAX_DEVICES ? ct_human_format("GPU %d", ordinal)
                                                    : ct_human_format("GPU not known");
}

static void print_trend(FILE *out, const char *what, const struct ct_trend *t) {
    const double low = t->slope - t->error, high = t->slope + t->error;
    if (t->kind == CT_TREND_UNKNOWN)
        return;
    fprintf(out, "  %s " CT_WRAP_HANG "%s", what, ct_watch_text_growth(t).text);
    if (t->kind == CT_TREND_RISING || t->kind == CT_TREND_FALLING)
        fprintf(out, " (95 %%: %s to %s) in the last %s",
                signed_bytes(ct_trend_per_minute(low)).text,
                signed_bytes(ct_trend_per_minute(high)).text, ct_human_seconds(t->span_ns).text);
    else if (t->span_ns && t->kind != CT_TREND_TOO_SHORT)
        fprintf(out, " in the last %s", ct_human_seconds(t->span_ns).text);
    putc('\n', out);
}

static void print_trends(FILE *out, const struct ct_watch_device *d) {
    print_trend(out, "growth of its allocations: ", &d->own);
    print_trend(out, "growth of what is used by all:", &d->whole);
    if (d->has_full)
        fprintf(out, "  full in %s" CT_WRAP_HANG "%s (95 %%: %s to %s), if it goes on like this\n",
                "", ct_human_seconds(d->full.ns).text, ct_human_seconds(d->full.earliest_ns).text,
                ct_human_seconds(d->full.latest_ns).text);
}

// ---- devices ------------------------------------------------------------------------------------

// The part that has the middle of a cell of the bar.
static enum ct_watch_part find_part(const struct ct_watch_device *d, size_t cell, size_t cells) {
    const double middle = ((double)cell + 0.5) / (double)cells * (double)d->total;
    double end = 0;
    for (unsigned i = 0; i < CT_WATCH_PARTS; i++) {
        end += (double)d->part[i];
        if (middle < end)
            return (enum ct_watch_part)i;
    }
    return CT_WATCH_FREE;
}

static void print_bar(FILE *out, const struct ct_watch_device *d,
                      const struct ct_watch_style *style) {
    const size_t cells = style->width > 8 ? style->width - 5 : 3;
    unsigned before = CT_WATCH_PARTS;
    fputs(CT_WRAP_ROW "  [", out);
    for (size_t i = 0; i < cells; i++) {
        const enum ct_watch_part part = find_part(d, i, cells);
        if (style->color && part != before)
            fprintf(out, "\033[0m\033[%sm", ct_watch_parts[part].color);
        putc(ct_watch_parts[part].letter, out);
        before = part;
    }
    fprintf(out, "%s]\n", style->color ? "\033[0m" : "");
}

static void print_parts(FILE *out, const struct ct_watch_device *d) {
    struct ct_human_text size[CT_WATCH_PARTS], share[CT_WATCH_PARTS];
    const size_t n = d->is_read ? CT_WATCH_PARTS : CT_WATCH_MEMPOOL_IDLE + 1;
    const uint64_t whole = d->is_read ? d->total : d->tracked;
    const size_t residual = d->is_read ? CT_WATCH_FREE : CT_WATCH_ALLOCATIONS;
    ct_human_bytes_of_parts(size, d->part, n, whole, CT_UNITS_IEC, residual);
    ct_human_percent_of_parts(share, d->part, n, whole, residual);
    for (unsigned i = 0; i < n; i++)
        if (d->part[i] || i == CT_WATCH_FREE)
            fprintf(out, CT_WRAP_ROW "  %12s %8s  %c %s\n", size[i].text, share[i].text,
                    ct_watch_parts[i].letter, ct_watch_parts[i].title);
    if (!d->is_read)
        fprintf(out, CT_WRAP_ROW "  %12s %8s  . free: the device's memory was not read\n", "-",
                "-");
}

static void print_device(FILE *out, const struct ct_watch_process *p,
                         const struct ct_watch_device *d, const struct ct_watch_style *style) {
    fputs(ct_watch_text_device(d->ordinal).text, out);
    if (*d->name)
        fprintf(out, " (%s)", d->name);
    if (d->capacity)
        fprintf(out, ": %s", bytes_of(d->capacity).text);
    fprintf(out, "%s\n", ct_watch_is_alive(p) ? "" : ", as the process left it");
    if (d->is_read)
        print_bar(out, d, style);
    print_parts(out, d);
    if (ct_watch_is_alive(p))
        print_trends(out, d);
}

// ---- call sites ---------------------------------------------------------------------------------

static void print_sites(FILE *out, const struct ct_watch_process *p,
                        const struct ct_watch_style *style) {
    const struct ct_watch_details *d = &p->details;
    char since[60] = "the start";
    if (!d->site_count || !style->sites)
        return;
    if (!d->since_start && ct_watch_is_alive(p))
        (void)snprintf(since, sizeof since, "%s ago", ago(style, d->since_ns).text);
    else if (!d->since_start)
        (void)snprintf(since, sizeof since, "%s before the end",
                       ct_human_seconds(d->t_ns > d->since_ns ? d->t_ns - d->since_ns : 0).text);
    fprintf(out, CT_WRAP_ROW "%14s %12s %9s  call site (gained since %s)\n", "holds", "gained",
            "count", since);
    for (size_t i = 0; i < d->site_count && i < style->sites; i++) {
        const struct ct_watch_site *s = &d->sites[i];
        fprintf(out,
                CT_WRAP_ROW "%14s %12s %9s  " CT_WRAP_HANG CT_WRAP_NAME "%s" CT_WRAP_NAME_END "\n",
                bytes_of(s->bytes).text, s->gained ? signed_bytes(s->gained).text : "-",
                ct_human_count(s->count).text, s->label);
    }
    if (d->all_sites > style->sites)
        fprintf(out, CT_WRAP_ROW "%14s and %zu more\n", "", d->all_sites - style->sites);
}

// ---- incidents ----------------------------------------------------------------------------------

static void print_incident(FILE *out, const struct ct_watch_incident *i,
                           const struct ct_watch_details *d) {
    static const char *const outcomes[] = {"failed", "succeeded when it was repeated later",
                                           "PyTorch's repeated call got it"};
    fprintf(out, "  %s #%" PRIu64 " " CT_WRAP_HANG,
            ct_human_elapsed(i->head.t_ns > d->start_ns ? i->head.t_ns - d->start_ns : 0).text,
            i->head.event);
    if (i->head.device < CT_MAX_DEVICES)
        fprintf(out, "%s, ", ct_watch_text_device(i->head.device).text);
    fprintf(out, "%s: %s\n",
            i->head.bytes_known ? bytes_of(i->head.bytes).text : "a request of unknown size",
            outcomes[i->outcome]);
}

static void print_incidents(FILE *out, const struct ct_watch_details *d,
                            const struct ct_watch_style *style) {
    if (!d->all_incidents)
        return;
    fprintf(out, "out of memory: %s request%s, of which %s failed\n",
            ct_human_count(d->all_incidents).text, ct_human_plural(d->all_incidents),
            ct_human_count(d->failed).text);
    for (size_t i = 0; i < d->incident_count && i < style->incidents; i++)
        print_incident(out, &d->incidents[i], d);
    const struct ct_watch_verdict *v = &d->verdict;
    if (v->summary)
        fprintf(out, "verdict: " CT_WRAP_HANG "%s (%s%s%s): %s\n", ct_scenario_title(v->scenario),
                ct_scenario_name(v->scenario), v->sureness ? ", " : "",
                v->sureness ? v->sureness : "", v->summary);
}

// ---- the process --------------------------------------------------------------------------------

static void print_rates(FILE *out, const struct ct_watch_process *p) {
    const struct ct_watch_details *d = &p->details;
    if (!ct_watch_is_alive(p) || d->recent_ns < LEAST_RATE_NS)
        return;
    const double seconds = (double)d->recent_ns / 1e9;
    fprintf(out, "rate: %.1f events/s, of these %.1f allocations/s in the last %s\n",
            (double)d->recent_events / seconds, (double)d->recent_allocations / seconds,
            ct_human_seconds(d->recent_ns).text);
}

// Whether the reader has to know how old the details are: because of their age, or because the head
// has another figure of the same thing.
static int is_of_another_moment(const struct ct_watch_process *p,
                                const struct ct_watch_style *style) {
    return p->has_details && p->is_stale &&
           (style->now_ns > p->details_ns + STALE_NS ||
            ct_watch_tracked(p) != ct_watch_details_tracked(p));
}

static void print_head(FILE *out, const struct ct_watch_process *p,
                       const struct ct_watch_style *style) {
    const struct ct_watch_details *d = &p->details;
    const char *bold = style->color ? "\033[1m" : "", *reset = style->color ? "\033[0m" : "";
    fprintf(out, "%s%s (pid %u)%s, %s", bold, p->program, p->pid, reset,
            ct_watch_state_name(p->state));
    if (ct_watch_is_alive(p))
        fprintf(out, ", %s allocated now", bytes_of(ct_watch_tracked(p)).text);
    if (d->phase)
        fprintf(out, "; phase: %s", d->phase);
    if (is_of_another_moment(p, style))
        fprintf(out, "; below: of %s ago", ago(style, p->details_ns).text);
    fputs("\ntrace: " CT_WRAP_HANG CT_WRAP_NAME, out);
    ct_utf8_print_sanitized(out, p->trace, strlen(p->trace));
    fputs(CT_WRAP_NAME_END "\n", out);
    if (p->has_details && d->lost)
        fprintf(out, "%s event%s lost: what follows may be wrong by them\n",
                ct_human_count(d->lost).text, ct_human_plural(d->lost));
    if (p->problem)
        fprintf(out, "not read%s: " CT_WRAP_HANG "%s\n", p->has_details ? " anew" : "", p->problem);
}

void ct_watch_text_process(FILE *out, const struct ct_watch_process *p,
                           const struct ct_watch_style *style) {
    print_head(out, p, style);
    if (!p->has_details)
        return;
    for (size_t i = 0; i < p->details.device_count; i++)
        print_device(out, p, &p->details.devices[i], style);
    if (!p->details.device_count)
        fputs("no GPU memory so far\n", out);
    print_rates(out, p);
    print_incidents(out, &p->details, style);
    print_sites(out, p, style);
}

void ct_watch_text_skipped(FILE *out, const struct ct_watch_list *l) {
    const size_t n = l->skips < CT_WATCH_SKIPS ? l->skips : CT_WATCH_SKIPS;
    for (size_t i = 0; i < n; i++)
        fprintf(out, "skipped: " CT_WRAP_HANG "%s\n", l->skipped[i]);
    if (l->skips > n)
        fprintf(out, "skipped: %zu more\n", l->skips - n);
}

void ct_watch_text_all(FILE *out, const struct ct_watch_list *l,
                       const struct ct_watch_style *style) {
    for (size_t i = 0; i < l->count; i++) {
        if (i)
            putc('\n', out);
        ct_watch_text_process(out, &l->entries[i].process, style);
    }
    if (!l->count)
        fputs("no traced process\n", out);
    ct_watch_text_skipped(out, l);
}
