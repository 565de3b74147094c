// SPDX-License-Identifier: Apache-2.0
// speedscope's own file format: a profile for each device and moment, weighted by bytes, and for
// each device what its stacks have allocated in all. The schema is file-format-schema.json of the
// npm package speedscope.
#include "base/version.h"
#include "export/frame_table.h"

struct sample {
    uint32_t first, depth; // in `frames`, outermost first
    uint64_t bytes;
};

struct profile {
    char title[80];
    size_t first, count; // of its samples
    uint64_t bytes;
};

struct document {
    struct ct_frame_table table;
    uint32_t *frames;
    size_t frame_count, frame_room;
    struct sample *samples;
    size_t sample_count, sample_room;
    struct profile *profiles;
    size_t profile_count, profile_room;
};

static void begin_profile(struct document *d, int device, const char *what) {
    char gpu[40];
    CT_HEAP_GROW(d->profiles, d->profile_count, d->profile_room);
    struct profile *p = &d->profiles[d->profile_count++];
    *p = (struct profile){.first = d->sample_count};
    ct_export_device_title(device, gpu, sizeof gpu);
    (void)snprintf(p->title, sizeof p->title, "%s: %s", gpu, what);
}

static void add_sample(struct document *d, enum ct_holding_kind kind, uint32_t stack,
                       uint64_t bytes) {
    struct profile *p = &d->profiles[d->profile_count - 1];
    if (!bytes)
        return;
    ct_frame_table_read(&d->table, kind, stack);
    CT_HEAP_GROW(d->samples, d->sample_count, d->sample_room);
    d->samples[d->sample_count++] =
        (struct sample){(uint32_t)d->frame_count, (uint32_t)d->table.depth, bytes};
    for (size_t i = d->table.depth; i-- > 0;) {
        CT_HEAP_GROW(d->frames, d->frame_count, d->frame_room);
        d->frames[d->frame_count++] = d->table.stack[i];
    }
    p->count++;
    p->bytes += bytes;
}

static void add_profile(struct document *d, int device, const char *what,
                        const struct ct_holding *list, size_t count) {
    begin_profile(d, device, what);
    for (size_t i = 0; i < count; i++)
        add_sample(d, list[i].kind, list[i].stack, list[i].bytes);
}

static void add_moment(struct document *d, struct ct_export *x, enum ct_moment_kind kind) {
    size_t n;
    if (!ct_export_has_moment(x, kind))
        return;
    const struct ct_export_held *held = ct_export_get_held(x, kind, &n);
    for (size_t i = 0; i < n; i++)
        add_profile(d, held[i].device, ct_export_moment_title(kind), held[i].totals.holdings,
                    held[i].totals.holding_count);
    for (size_t i = 0; i < n && kind == CT_MOMENT_END; i++)
        add_profile(d, held[i].device, "allocated in all, freed or not", held[i].allocated,
                    held[i].allocated_count);
}

static void write_frames(struct ct_json *j, const struct document *d) {
    ct_json_open(j, "shared", '{');
    ct_json_open(j, "frames", '[');
    for (size_t i = 0; i < d->table.count; i++) {
        const struct ct_export_frame *f = &d->table.list[i];
        ct_json_open(j, NULL, '{');
        ct_json_text(j, "name", f->name);
        if (f->file)
            ct_json_text(j, "file", f->file);
        if (f->line)
            ct_json_number(j, "line", f->line);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
    ct_json_close(j, '}');
}

static void write_profile(struct ct_json *j, const struct document *d, const struct profile *p) {
    ct_json_open(j, NULL, '{');
    ct_json_text(j, "type", "sampled");
    ct_json_text(j, "name", p->title);
    ct_json_text(j, "unit", "bytes");
    ct_json_number(j, "startValue", 0);
    ct_json_number(j, "endValue", p->bytes);
    ct_json_open(j, "samples", '[');
    for (size_t i = p->first; i < p->first + p->count; i++) {
        ct_json_open(j, NULL, '[');
        for (uint32_t k = 0; k < d->samples[i].depth; k++)
            ct_json_number(j, NULL, d->frames[d->samples[i].first + k]);
        ct_json_close(j, ']');
    }
    ct_json_close(j, ']');
    ct_json_open(j, "weights", '[');
    for (size_t i = p->first; i < p->first + p->count; i++)
        ct_json_number(j, NULL, d->samples[i].bytes);
    ct_json_close(j, ']');
    ct_json_close(j, '}');
}

// speedscope's importer refuses a file without a profile.
static void write_document(struct ct_export *x, struct document *d) {
    struct ct_json json = {.out = x->out}, *j = &json;
    if (!d->profile_count)
        begin_profile(d, 0, "no GPU memory was allocated");
    ct_json_open(j, NULL, '{');
    ct_json_text(j, "$schema", "https://www.speedscope.app/file-format-schema.json");
    ct_json_text(j, "exporter", "cutrace " CT_VERSION);
    ct_json_text(j, "name", x->trace->source.name);
    ct_json_number(j, "activeProfileIndex", 0);
    write_frames(j, d);
    ct_json_open(j, "profiles", '[');
    for (size_t i = 0; i < d->profile_count; i++)
        write_profile(j, d, &d->profiles[i]);
    ct_json_close(j, ']');
    ct_json_close(j, '}');
    ct_json_end_line(j);
}

int ct_export_write_speedscope(struct ct_export *x, struct ct_error *error) {
    static const enum ct_moment_kind moments[] = {CT_MOMENT_OOM, CT_MOMENT_PEAK, CT_MOMENT_END};
    struct document d = {0};
    (void)error;
    ct_frame_table_init(&d.table, x);
    for (size_t i = 0; i < sizeof moments / sizeof *moments; i++)
        add_moment(&d, x, moments[i]);
    write_document(x, &d);
    x->entries = d.sample_count;
    ct_frame_table_free(&d.table);
    free(d.frames);
    free(d.samples);
    free(d.profiles);
    return 0;
}
