// SPDX-License-Identifier: Apache-2.0
// Finds moments and what is held there by the same way as the view top, so that both agree.
#include "export/export.h"

#include "base/utf8.h"
#include "question/question.h"
#include "sites/site_groups.h"

static struct ct_scan_request request_for(const struct ct_export *x, int device) {
    return (struct ct_scan_request){.from_ns = x->from_ns,
                                    .to_ns = x->to_ns,
                                    .device = device,
                                    .blocks = 1,
                                    .phases = x->phases};
}

void ct_export_prepare(struct ct_export *x) {
    const struct ct_scan_request request = request_for(x, x->device);
    ct_question_scan(&x->scan, x->trace, &request, NULL);
    ct_clocks_read(&x->clocks, &x->trace->definitions);
}

static void free_held(struct ct_export_held *held, size_t count) {
    for (size_t i = 0; i < count; i++) {
        free(held[i].allocated);
        ct_live_at_free(&held[i].totals);
    }
    free(held);
}

void ct_export_release(struct ct_export *x) {
    ct_scan_free(&x->scan);
    for (unsigned kind = 0; kind <= CT_MOMENT_TIME; kind++)
        free_held(x->held[kind].list, x->held[kind].count);
    for (size_t i = 0; i < x->label_count; i++)
        free(x->labels[i]);
    free(x->labels);
}

// ---- moments ------------------------------------------------------------------------------------

int ct_export_has_moment(const struct ct_export *x, enum ct_moment_kind kind) {
    return kind != CT_MOMENT_OOM || ct_scan_find_crossing(&x->scan);
}

const char *ct_export_moment_title(enum ct_moment_kind kind) {
    static const char *const titles[] = {"live at the OOM", "live at the peak", "live at the end",
                                         "live then"};
    return titles[kind];
}

// `scan` is of the device alone.
static void read_held(struct ct_export *x, const struct ct_scan *scan, struct ct_export_held *h) {
    struct ct_site_totals totals;
    struct ct_replay replay = {0};
    if (h->moment.kind == CT_MOMENT_PEAK)
        h->moment = ct_moment_find(scan, x->trace, CT_MOMENT_PEAK, h->device, NULL);
    ct_site_totals_build(&totals, x->sites, scan,
                         ct_question_state(&h->moment, scan, x->trace, &replay), h->device,
                         CT_ROWS_BY_BLOCK);
    h->totals = totals.now;
    h->allocated = totals.stacks;
    h->allocated_count = totals.stack_count;
    totals.now = (struct ct_live_totals){0};
    totals.stacks = NULL;
    ct_site_totals_free(&totals);
    ct_replay_free(&replay);
}

// Lists what a device holds at each kind of moment of a set.
static void list_held_of(struct ct_export *x, unsigned kinds, int device) {
    const struct ct_scan_request request = request_for(x, device);
    const int is_alone = ct_scan_is_of_one_device(&x->scan, device);
    struct ct_scan own;
    if (!is_alone)
        ct_question_scan(&own, x->trace, &request, NULL);
    for (unsigned kind = 0; kind <= CT_MOMENT_TIME; kind++) {
        if (!(kinds >> kind & 1))
            continue;
        struct ct_export_held *h = &x->held[kind].list[x->held[kind].count++];
        h->device = device;
        // (of all devices; of a peak the device's own is found later)
        h->moment = ct_moment_find(&x->scan, x->trace, (enum ct_moment_kind)kind,
                                   ct_scan_find_fullest(&x->scan), &x->at);
        read_held(x, is_alone ? &x->scan : &own, h);
    }
    if (!is_alone)
        ct_scan_free(&own);
}

static void list_held(struct ct_export *x, unsigned kinds) {
    for (unsigned kind = 0; kind <= CT_MOMENT_TIME; kind++)
        if (x->held[kind].list)
            kinds &= ~(1U << kind);
        else if (kinds >> kind & 1)
            x->held[kind].list = ct_heap_alloc_zeroed(CT_DEVICES, sizeof *x->held[kind].list);
    for (int d = 0; d < CT_DEVICES; d++)
        if (x->scan.device[d].seen && x->scan.device[d].peak_known)
            list_held_of(x, kinds, d);
}

const struct ct_export_held *ct_export_get_held(struct ct_export *x, enum ct_moment_kind kind,
                                                size_t *count) {
    if (!x->held[kind].list)
        list_held(x, 1U << kind);
    *count = x->held[kind].count;
    return x->held[kind].list;
}

void ct_export_refine_sites(struct ct_export *x) {
    unsigned kinds = 0;
    for (unsigned kind = CT_MOMENT_OOM; kind <= CT_MOMENT_END; kind++)
        if (ct_export_has_moment(x, (enum ct_moment_kind)kind))
            kinds |= 1U << kind;
    list_held(x, kinds);
}

// ---- names --------------------------------------------------------------------------------------

void ct_export_device_title(int device, char *to, size_t size) {
    if (device >= 0 && device < CT_MAX_DEVICES)
        (void)snprintf(to, size, "GPU %d", device);
    else
        (void)snprintf(to, size, "GPU unknown");
}

size_t ct_export_text(char *to, const char *bytes, size_t length) {
    return ct_utf8_sanitize(to, CT_EXPORT_NAME, bytes, length);
}

size_t ct_export_string(const struct ct_export *x, uint32_t string, char *to) {
    const struct ct_string *s = &x->trace->definitions.strings[string];
    return ct_export_text(to, s->at, s->length);
}

int ct_export_driver(const struct ct_export *x, char *to) {
    const struct ct_string *release =
        ct_definitions_info(&x->trace->definitions, "nvidia.driver_version");
    if (!release)
        return 0;
    const int n = snprintf(to, CT_EXPORT_NAME, "NVIDIA driver ");
    (void)ct_utf8_sanitize(to + n, CT_EXPORT_NAME - (size_t)n, release->at, release->length);
    return 1;
}

const char *ct_export_site(struct ct_export *x, uint32_t stack) {
    char text[CT_EXPORT_NAME];
    if (!stack)
        return NULL;
    if (stack >= x->label_count) {
        const size_t n = x->trace->definitions.stack_count;
        x->labels = ct_heap_resize(x->labels, n, sizeof *x->labels);
        memset(x->labels + x->label_count, 0, (n - x->label_count) * sizeof *x->labels);
        x->label_count = n;
    }
    if (!x->labels[stack]) {
        ct_call_sites_label(x->sites, stack, text, sizeof text);
        x->labels[stack] = ct_heap_copy_text(text);
    }
    return x->labels[stack];
}

// ---- formats.def and tables.def as data ---------------------------------------------------------

const struct ct_export_format_row ct_export_formats[CT_EXPORT_FORMATS] = {
#define CT_EXPORT_FORMAT(name, ending, output, options, help) \
    {#name, ending, help, CT_OUTPUT_##output, options},
#include "export/formats.def"
};

const char ct_export_format_names[] =
#define CT_EXPORT_FORMAT(name, ending, output, options, help) "|" #name
#include "export/formats.def"
    ;

const char ct_export_table_names[] =
#define CT_EXPORT_TABLE(name, help) "|" #name
#include "export/tables.def"
    ;
