// SPDX-License-Identifier: Apache-2.0
// A profile for pprof, with the sample types of a heap profile: what each stack has allocated in
// all, and what it holds at a moment. The messages are those of profile.proto, compressed by gzip.
#include "export/frame_table.h"
#include "export/protobuf.h"

#ifndef CT_HAS_ZLIB

int ct_export_write_pprof(struct ct_export *x, struct ct_error *error) {
    (void)x;
    return ct_error_set(error, CT_EXIT_OUTPUT,
                        "export --format=pprof: this cutrace-report was built without zlib "
                        "(zlib1g-dev)");
}

#else

#include <zlib.h>

enum {
    PROFILE_SAMPLE_TYPE = 1,
    PROFILE_SAMPLE = 2,
    PROFILE_LOCATION = 4,
    PROFILE_FUNCTION = 5,
    PROFILE_STRING = 6,
    PROFILE_TIME = 9,
    PROFILE_DURATION = 10,
    PROFILE_COMMENT = 13,
    PROFILE_DEFAULT_TYPE = 14,
    TYPE_NAME = 1,
    TYPE_UNIT = 2,
    SAMPLE_LOCATIONS = 1,
    SAMPLE_VALUES = 2,
    SAMPLE_LABEL = 3,
    LABEL_KEY = 1,
    LABEL_TEXT = 2,
    LOCATION_ID = 1,
    LOCATION_LINE = 4,
    LINE_FUNCTION = 1,
    LINE_NUMBER = 2,
    FUNCTION_ID = 1,
    FUNCTION_NAME = 2,
    FUNCTION_SYSTEM_NAME = 3,
    FUNCTION_FILE = 4,
};

enum { ALLOC_OBJECTS, ALLOC_SPACE, INUSE_OBJECTS, INUSE_SPACE, VALUES };
static const char *const types[VALUES][2] = {{"alloc_objects", "count"},
                                             {"alloc_space", "bytes"},
                                             {"inuse_objects", "count"},
                                             {"inuse_space", "bytes"}};

// ---- gzip ---------------------------------------------------------------------------------------

struct gzip {
    z_stream z;
    FILE *to;
};

static void deflate_all(struct gzip *g, int flush) {
    uint8_t packed[1 << 14];
    do {
        g->z.next_out = packed;
        g->z.avail_out = sizeof packed;
        (void)deflate(&g->z, flush);
        fwrite(packed, 1, sizeof packed - g->z.avail_out, g->to);
    } while (!g->z.avail_out);
}

static ssize_t write_gzip(void *cookie, const char *bytes, size_t n) {
    struct gzip *g = cookie;
    uint8_t block[1 << 12]; // zlib's input is not const
    for (size_t at = 0; at < n;) {
        const size_t part = n - at < sizeof block ? n - at : sizeof block;
        memcpy(block, bytes + at, part);
        g->z.next_in = block;
        g->z.avail_in = (uInt)part;
        deflate_all(g, Z_NO_FLUSH);
        at += part;
    }
    return (ssize_t)n;
}

static int close_gzip(void *cookie) {
    struct gzip *g = cookie;
    g->z.avail_in = 0;
    deflate_all(g, Z_FINISH);
    return deflateEnd(&g->z);
}

static FILE *open_gzip(struct gzip *g, FILE *to) {
    enum { WINDOW_OF_GZIP = 15 + 16, MEMORY = 8 };
    *g = (struct gzip){.to = to};
    if (deflateInit2(&g->z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, WINDOW_OF_GZIP, MEMORY,
                     Z_DEFAULT_STRATEGY) != Z_OK)
        ct_heap_exhausted();
    FILE *out =
        fopencookie(g, "w", (cookie_io_functions_t){.write = write_gzip, .close = close_gzip});
    if (!out)
        ct_heap_exhausted();
    return out;
}

// ---- the profile --------------------------------------------------------------------------------

struct profile {
    struct ct_export *x;
    FILE *out;
    struct ct_frame_table table;
    struct ct_names strings; // number i + 1 has index i: the first one is ""
    struct ct_message message, part;
};

static uint64_t get_string(struct profile *p, const char *text) {
    return ct_names_add(&p->strings, text) - UINT64_C(1);
}

static void put_label(struct profile *p, const char *key, const char *text) {
    ct_message_clear(&p->part);
    ct_message_number(&p->part, LABEL_KEY, get_string(p, key));
    ct_message_number(&p->part, LABEL_TEXT, get_string(p, text));
    ct_message_put(&p->message, SAMPLE_LABEL, &p->part);
}

static void write_sample(struct profile *p, int device, enum ct_holding_kind kind, uint32_t stack,
                         const uint64_t *values) {
    char gpu[40];
    ct_frame_table_read(&p->table, kind, stack);
    ct_message_clear(&p->message);
    ct_message_clear(&p->part);
    for (size_t i = 0; i < p->table.depth; i++)
        ct_message_varint(&p->part, p->table.stack[i] + UINT64_C(1));
    ct_message_put(&p->message, SAMPLE_LOCATIONS, &p->part);
    ct_message_clear(&p->part);
    for (unsigned i = 0; i < VALUES; i++)
        ct_message_varint(&p->part, values[i] <= INT64_MAX ? values[i] : INT64_MAX);
    ct_message_put(&p->message, SAMPLE_VALUES, &p->part);
    ct_export_device_title(device, gpu, sizeof gpu);
    put_label(p, "device", gpu);
    put_label(p, "kind", ct_holding_kind_name(kind));
    ct_message_write(p->out, PROFILE_SAMPLE, &p->message);
    p->x->entries++;
}

// A sample for each stack and kind that has allocated something, or holds something.
static void write_held(struct profile *p, const struct ct_export_held *held) {
    struct ct_map holding = {0}; // stack and kind -> position of what it holds + 1
    for (size_t i = 0; i < held->totals.holding_count; i++) {
        const struct ct_holding *h = &held->totals.holdings[i];
        *ct_map_add(&holding, (uint64_t)h->kind << 32 | h->stack) = i + 1;
    }
    for (size_t i = 0; i < held->allocated_count; i++) {
        const struct ct_holding *h = &held->allocated[i];
        const uint64_t *at = ct_map_find(&holding, (uint64_t)h->kind << 32 | h->stack);
        const struct ct_holding *now = at ? &held->totals.holdings[*at - 1] : NULL;
        const uint64_t values[VALUES] = {h->count, h->bytes, now ? now->count : 0,
                                         now ? now->bytes : 0};
        if (h->count || now)
            write_sample(p, held->device, h->kind, h->stack, values);
    }
    ct_map_free(&holding);
}

static void write_locations(struct profile *p) {
    for (size_t i = 0; i < p->table.count; i++) {
        const struct ct_export_frame *f = &p->table.list[i];
        const uint64_t name = get_string(p, f->name);
        ct_message_clear(&p->message);
        ct_message_number(&p->message, FUNCTION_ID, i + 1);
        ct_message_number(&p->message, FUNCTION_NAME, name);
        ct_message_number(&p->message, FUNCTION_SYSTEM_NAME, name);
        ct_message_number(&p->message, FUNCTION_FILE, get_string(p, f->file ? f->file : ""));
        ct_message_write(p->out, PROFILE_FUNCTION, &p->message);
        ct_message_clear(&p->part);
        ct_message_number(&p->part, LINE_FUNCTION, i + 1);
        ct_message_number(&p->part, LINE_NUMBER, f->line <= INT64_MAX ? f->line : 0);
        ct_message_clear(&p->message);
        ct_message_number(&p->message, LOCATION_ID, i + 1);
        ct_message_put(&p->message, LOCATION_LINE, &p->part);
        ct_message_write(p->out, PROFILE_LOCATION, &p->message);
    }
}

static void write_types(struct profile *p) {
    for (unsigned i = 0; i < VALUES; i++) {
        ct_message_clear(&p->message);
        ct_message_number(&p->message, TYPE_NAME, get_string(p, types[i][0]));
        ct_message_number(&p->message, TYPE_UNIT, get_string(p, types[i][1]));
        ct_message_write(p->out, PROFILE_SAMPLE_TYPE, &p->message);
    }
}

// The fields of the profile itself, and the strings, of which all are known now.
static void write_rest(struct profile *p, enum ct_moment_kind kind) {
    const struct ct_trace *t = p->x->trace;
    char comment[200], driver[CT_EXPORT_NAME];
    uint64_t utc_ns;
    (void)snprintf(comment, sizeof comment, "cutrace: inuse is what is %s",
                   ct_export_moment_title(kind));
    ct_message_clear(&p->message);
    if (ct_clocks_utc(&p->x->clocks, t->t_first_ns, &utc_ns))
        ct_message_number(&p->message, PROFILE_TIME, utc_ns);
    ct_message_number(&p->message, PROFILE_DURATION, t->t_last_ns - t->t_first_ns);
    ct_message_number(&p->message, PROFILE_COMMENT, get_string(p, comment));
    if (ct_export_driver(p->x, driver))
        ct_message_number(&p->message, PROFILE_COMMENT, get_string(p, driver));
    ct_message_number(&p->message, PROFILE_DEFAULT_TYPE, get_string(p, types[INUSE_SPACE][0]));
    fwrite(p->message.bytes, 1, p->message.size, p->out);
    for (size_t i = 0; i < p->strings.count; i++) {
        ct_message_clear(&p->message);
        ct_message_text(&p->message, PROFILE_STRING, p->strings.list[i]);
        fwrite(p->message.bytes, 1, p->message.size, p->out);
    }
}

int ct_export_write_pprof(struct ct_export *x, struct ct_error *error) {
    struct gzip gzip;
    struct profile p = {.x = x, .out = open_gzip(&gzip, x->out)};
    size_t n;
    const struct ct_export_held *held = ct_export_get_held(x, x->wanted, &n);
    enum ct_moment_kind kind = n ? held[0].moment.kind : x->wanted;
    (void)error;
    ct_frame_table_init(&p.table, x);
    (void)get_string(&p, "");
    write_types(&p);
    for (size_t i = 0; i < n; i++)
        write_held(&p, &held[i]);
    write_locations(&p);
    write_rest(&p, kind);
    (void)fclose(p.out);
    ct_frame_table_free(&p.table);
    ct_names_free(&p.strings);
    ct_message_free(&p.message);
    ct_message_free(&p.part);
    return 0;
}

#endif
