// SPDX-License-Identifier: Apache-2.0
// Words, frames, entries and segments. Sources of the format: torch/csrc/cuda/memory_snapshot.cpp,
// torch/cuda/memory.py (_snapshot) and torch/utils/viz/MemoryViz.js of PyTorch.
#include "export/torch_snapshot.h"

#include <cutrace/model/failures.h>

#include "base/human.h"
#include "export/frame_table.h"
#include "sites/site_groups.h"

// ---- words --------------------------------------------------------------------------------------
// Each is written once, and then recalled by its number.

static void put_word(struct ct_torch_snapshot *s, enum ct_word w) {
    static const char *const words[] = {
#define CT_WORD(text) #text,
#include "export/torch_snapshot.def"
    };
    if (s->words >> w & 1) {
        ct_pickle_recall(s->out, w);
        return;
    }
    ct_pickle_text(s->out, words[w]);
    ct_pickle_memoize(s->out, w);
    s->words |= UINT64_C(1) << w;
}

static void put_key_number(struct ct_torch_snapshot *s, enum ct_word key, uint64_t value) {
    put_word(s, key);
    ct_pickle_number(s->out, value);
}

static void put_key_word(struct ct_torch_snapshot *s, enum ct_word key, enum ct_word value) {
    put_word(s, key);
    put_word(s, value);
}

// Gives the value that was just written a number, and sets *memo to it.
static void memoize(struct ct_torch_snapshot *s, uint64_t *memo) {
    *memo = s->memos++;
    ct_pickle_memoize(s->out, (uint32_t)*memo);
}

// Writes a value again if it was written before. Returns whether it was.
static int recall(struct ct_torch_snapshot *s, uint64_t memo) {
    if (memo)
        ct_pickle_recall(s->out, (uint32_t)memo);
    return memo != 0;
}

// Begins the next element of a list; every CT_PICKLE_BATCH elements, appends them and sets a new
// mark.
static void next_element(struct ct_torch_snapshot *s, unsigned *batch) {
    if ((*batch)++ != CT_PICKLE_BATCH)
        return;
    ct_pickle_op(s->out, CT_PICKLE_APPENDS);
    ct_pickle_op(s->out, CT_PICKLE_MARK);
    *batch = 1;
}

// ---- frames -------------------------------------------------------------------------------------

// The viewer and torch.cuda._memory_viz leave out frames whose name contains one of these anywhere
// ("on_train_start"). The frames here are already selected, so such a name gets a zero-width
// character.
static const char *const hidden_patterns[] = {
    "unwind::unwind",
    "CapturedTraceback::gather",
    "gather_with_cpp",
    "_start",
    "__libc_start_main",
    "PyEval_",
    "PyObject_",
    "PyFunction_",
    "core/boxing",
    "/Register",
    "/Redispatch",
    "pythonrun.c",
    "Modules/main.c",
    "Objects/call.c",
    "Objects/methodobject.c",
    "pycore_ceval.h",
    "ceval.c",
    "cpython/abstract.h",
};

static void put_visible(struct ct_torch_snapshot *s, const char *text, size_t length) {
    char *copy =
        ct_heap_resize(NULL, length * 4 + 1, 1); // (each pattern has more than one character)
    size_t n = length;
    memcpy(copy, text, length);
    copy[n] = 0;
    for (size_t i = 0; i < sizeof hidden_patterns / sizeof *hidden_patterns; i++)
        for (char *at; (at = memmem(copy, n, hidden_patterns[i], strlen(hidden_patterns[i])));) {
            memmove(at + 4, at + 1, n - (size_t)(at + 1 - copy) + 1);
            at[1] = '\xE2'; // U+200B
            at[2] = '\x80';
            at[3] = '\x8B';
            n += 3;
        }
    ct_pickle_bytes(s->out, copy, n);
    free(copy);
}

static void put_file(struct ct_torch_snapshot *s, uint32_t string) {
    const struct ct_string *file = &s->sites->definitions->strings[string];
    uint64_t *memo = ct_map_add(&s->file, string);
    if (recall(s, *memo))
        return;
    put_visible(s, file->at, file->length);
    memoize(s, memo);
}

static void put_frame(struct ct_torch_snapshot *s, const struct ct_shown_frames *a) {
    const uint32_t id = s->sites->definitions->nodes[a->node].frame;
    char label[1200];
    uint64_t *memo = ct_map_add(&s->frame, (uint64_t)a->location << 32 | id);
    if (recall(s, *memo))
        return;
    const struct ct_frame_names names = ct_frame_names_get(a, label, sizeof label);
    ct_pickle_op(s->out, CT_PICKLE_EMPTY_DICT);
    memoize(s, memo);
    ct_pickle_op(s->out, CT_PICKLE_MARK);
    put_word(s, W_filename);
    put_file(s, names.file);
    put_key_number(s, W_line, names.line);
    put_word(s, W_name);
    put_visible(s, names.function.at, names.function.length);
    ct_pickle_op(s->out, CT_PICKLE_SETITEMS);
}

// Writes the frames of a stack that are not hidden, innermost first.
static void put_frames(struct ct_torch_snapshot *s, uint32_t stack) {
    unsigned batch = 0;
    if (!stack) {
        ct_pickle_op(s->out, CT_PICKLE_EMPTY_LIST);
        return;
    }
    uint64_t *memo = ct_map_add(&s->frames, stack);
    if (recall(s, *memo))
        return;
    ct_pickle_op(s->out, CT_PICKLE_EMPTY_LIST);
    memoize(s, memo);
    ct_pickle_op(s->out, CT_PICKLE_MARK);
    for (struct ct_shown_frames a = ct_call_sites_shown_frames(s->sites, stack); a.node;
         ct_call_sites_next_frame(&a)) {
        next_element(s, &batch);
        put_frame(s, &a);
    }
    ct_pickle_op(s->out, CT_PICKLE_APPENDS);
}

// ---- categories ---------------------------------------------------------------------------------
// The viewer gives each category a colour of its own and a place in its legend.

static void get_module(const struct ct_torch_snapshot *s, uint32_t stack, char *to, size_t size) {
    const struct ct_definitions *n = s->sites->definitions;
    const struct ct_shown_frames a = ct_call_sites_shown_frames(s->sites, stack);
    const struct ct_frame *f = a.node ? ct_definitions_node_frame(n, a.node) : NULL;
    *to = 0;
    if (f && f->kind == CT_FRAME_NATIVE && f->module)
        ct_call_sites_base_name(n, n->modules[f->module].path, to, size);
}

static void get_category(const struct ct_torch_snapshot *s, uint32_t stack, int outside, char *to,
                         size_t size) {
    char label[1200];
    if (outside && s->has_blocks) {
        get_module(s, stack, label, sizeof label);
        (void)snprintf(to, size, "outside the pool%s%s", *label ? ": " : "", label);
        return;
    }
    ct_call_sites_label(s->sites, stack, label, sizeof label);
    for (unsigned i = 0; i < CT_OWN_CATEGORIES && s->own[i]; i++)
        if (strcmp(label, s->own[i]) == 0) {
            (void)snprintf(to, size, "%s", label);
            return;
        }
    (void)snprintf(to, size, "unknown");
}

static void put_category(struct ct_torch_snapshot *s, uint32_t stack, int outside) {
    char text[1300];
    uint64_t *memo = ct_map_add(&s->category, (uint64_t)outside << 32 | stack);
    if (recall(s, *memo))
        return;
    get_category(s, stack, outside, text, sizeof text);
    uint64_t *same = ct_map_add(&s->labels, ct_hash_bytes(text, strlen(text)));
    if (!recall(s, *same)) {
        ct_pickle_text(s->out, text);
        memoize(s, same);
    }
    *memo = *same;
}

// ---- entries of a trace -------------------------------------------------------------------------
// The lists of all devices grow at the same time, so that no entry waits in memory: the list of the
// device in turn is set once more as the value of a key, and appended to. At the end, the list of
// all lists becomes the value.

static void close_list(struct ct_torch_snapshot *s) {
    if (s->open) {
        ct_pickle_op(s->out, CT_PICKLE_APPENDS);
        ct_pickle_op(s->out, CT_PICKLE_SETITEM);
    }
    s->open = 0;
}

static void open_list(struct ct_torch_snapshot *s, int index) {
    close_list(s);
    put_word(s, W_device_traces);
    if (!recall(s, s->list[index])) {
        uint64_t memo;
        ct_pickle_op(s->out, CT_PICKLE_EMPTY_LIST);
        memoize(s, &memo);
        s->list[index] = (uint32_t)memo;
    }
    ct_pickle_op(s->out, CT_PICKLE_MARK);
    s->open = index + 1;
    s->batch = 0;
}

static void begin_entry(struct ct_torch_snapshot *s, int index, enum ct_word action, uint64_t t_ns,
                        uint32_t stack) {
    uint64_t utc_ns;
    if (s->open != index + 1 || s->batch == CT_PICKLE_BATCH)
        open_list(s, index);
    s->batch++;
    s->entries++;
    ct_pickle_op(s->out, CT_PICKLE_EMPTY_DICT);
    ct_pickle_op(s->out, CT_PICKLE_MARK);
    put_key_word(s, W_action, action);
    if (!ct_clocks_utc(&s->clocks, t_ns, &utc_ns))
        utc_ns = t_ns;
    put_key_number(s, W_time_us, utc_ns / 1000);
    put_word(s, W_frames);
    put_frames(s, stack);
}

static void end_entry(struct ct_torch_snapshot *s) {
    ct_pickle_op(s->out, CT_PICKLE_SETITEMS);
}

// Carries the category "unknown", which the viewer requires as soon as there are other categories.
void ct_torch_snapshot_write_marker(struct ct_torch_snapshot *s, int index, uint64_t t_ns) {
    begin_entry(s, index, W_snapshot, t_ns, 0);
    put_key_number(s, W_addr, 0);
    put_key_number(s, W_size, 0);
    put_key_number(s, W_stream, 0);
    put_key_word(s, W_category, W_unknown);
    put_word(s, W_user_metadata);
    ct_pickle_text(s->out, "before this entry: what was live already; after it: what happened");
    end_entry(s);
}

static void begin_event(struct ct_torch_snapshot *s, int index, enum ct_word action, uint64_t t_ns,
                        uint32_t stack) {
    if (s->began && !s->list[index])
        ct_torch_snapshot_write_marker(s, index, t_ns);
    begin_entry(s, index, action, t_ns, stack);
}

// Returns the stream of a segment: 0, because the replay does not keep those of blocks. A mapping
// gets 1 where it lies next to other memory, because the viewer would join neighbours of one stream
// and then not find the other memory.
static unsigned stream_of(const struct ct_torch_snapshot *s, const struct ct_listed_range *region) {
    return s->separate_mappings && (region->what & (CT_REGION_POOL | CT_REGION_MAPPED)) ==
                                       (CT_REGION_POOL | CT_REGION_MAPPED);
}

static void put_range(struct ct_torch_snapshot *s, const struct ct_listed_range *span,
                      unsigned stream) {
    put_key_number(s, W_addr, span->start);
    put_key_number(s, W_size, span->bytes);
    put_key_number(s, W_stream, stream);
}

void ct_torch_snapshot_write_alloc(struct ct_torch_snapshot *s, const struct ct_listed_range *span,
                                   enum ct_word action) {
    if (!s->out)
        return;
    begin_event(s, ct_device_to_index(span->device), action, span->t_ns, span->stack);
    put_range(s, span, action == W_alloc ? 0 : stream_of(s, span));
    if (action == W_alloc) {
        put_word(s, W_category);
        put_category(s, span->stack, (span->what & CT_REGION_POOL) == 0);
    }
    end_entry(s);
}

void ct_torch_snapshot_write_free(struct ct_torch_snapshot *s, const struct ct_listed_range *span,
                                  enum ct_word action) {
    if (!s->out)
        return;
    const struct ct_event *e = s->event;
    const int by_free =
        e && (e->op == CT_OP_FREE || e->op == CT_OP_UNMAP || e->op == CT_OP_BLOCK_FREE);
    begin_event(s, ct_device_to_index(span->device), action, e ? e->t_ns : span->t_ns,
                by_free && CT_HAS(e, stack) ? e->stack : 0);
    put_range(s, span,
              action == W_segment_free || action == W_segment_unmap ? stream_of(s, span) : 0);
    end_entry(s);
}

void ct_torch_snapshot_write_oom(struct ct_torch_snapshot *s, const struct ct_event *e,
                                 uint64_t free, const char *text) {
    begin_event(s, ct_event_device_index(e), W_oom, e->t_ns, CT_GET(e, stack));
    put_key_number(s, W_device_free, free);
    put_key_number(s, W_size, ct_event_has_requested_bytes(e) ? e->bytes : 0);
    put_key_number(s, W_stream, 0);
    put_word(s, W_user_metadata);
    ct_pickle_text(s->out, text);
    end_entry(s);
}

// ---- the state at the end -----------------------------------------------------------------------

static void put_block(struct ct_torch_snapshot *s, uint64_t start, uint64_t bytes,
                      const struct ct_listed_range *active) {
    ct_pickle_op(s->out, CT_PICKLE_EMPTY_DICT);
    ct_pickle_op(s->out, CT_PICKLE_MARK);
    put_key_number(s, W_address, start);
    put_key_number(s, W_size, bytes);
    put_key_number(s, W_requested_size, active ? bytes : 0);
    put_key_word(s, W_state, active ? W_active_allocated : W_inactive);
    put_word(s, W_frames);
    put_frames(s, active ? active->stack : 0);
    ct_pickle_op(s->out, CT_PICKLE_SETITEMS);
}

// Writes the blocks of a region and the free ranges between them. Returns the bytes of the blocks.
static uint64_t put_blocks(struct ct_torch_snapshot *s, const struct ct_listed_range *region,
                           uint64_t end) {
    const struct ct_range_list *from = region->what & CT_REGION_POOL ? &s->blocks : &s->regions;
    uint64_t up_to = region->start, bytes = 0;
    unsigned batch = 0;
    put_word(s, W_blocks);
    ct_pickle_op(s->out, CT_PICKLE_EMPTY_LIST);
    ct_pickle_op(s->out, CT_PICKLE_MARK);
    for (const struct ct_listed_range *b = ct_range_list_find(from, up_to); b && b->start < end;
         b = ct_range_list_next(from, b)) {
        if (b->start > up_to) {
            next_element(s, &batch);
            put_block(s, up_to, b->start - up_to, NULL);
        }
        next_element(s, &batch);
        put_block(s, b->start, b->bytes, b);
        up_to = ct_listed_range_end(b);
        bytes += b->bytes;
    }
    if (up_to < end) {
        next_element(s, &batch);
        put_block(s, up_to, end - up_to, NULL);
    }
    ct_pickle_op(s->out, CT_PICKLE_APPENDS);
    return bytes;
}

static unsigned count_ordinals(const struct ct_torch_snapshot *s) {
    unsigned n = 0;
    for (unsigned d = 0; d < CT_MAX_DEVICES; d++)
        n = s->list[d] ? d + 1 : n;
    return n;
}

// The unknown device comes after all others.
static unsigned ordinal_of(const struct ct_torch_snapshot *s, int index) {
    return index == CT_MAX_DEVICES ? count_ordinals(s) : (unsigned)index;
}

static void put_segment(struct ct_torch_snapshot *s, const struct ct_listed_range *region,
                        uint64_t end) {
    const int mapped =
        (region->what & (CT_REGION_POOL | CT_REGION_MAPPED)) == (CT_REGION_POOL | CT_REGION_MAPPED);
    ct_pickle_op(s->out, CT_PICKLE_EMPTY_DICT);
    ct_pickle_op(s->out, CT_PICKLE_MARK);
    put_key_number(s, W_device, ordinal_of(s, ct_device_to_index(region->device)));
    put_key_number(s, W_address, region->start);
    put_key_number(s, W_total_size, end - region->start);
    put_key_number(s, W_stream, stream_of(s, region));
    // A small segment of PyTorch's has 2 MiB (kSmallBuffer), a large one more.
    put_key_word(s, W_segment_type, region->bytes > UINT64_C(2) << 20 ? W_large : W_small);
    put_word(s, W_segment_pool_id);
    ct_pickle_number(s->out, 0);
    ct_pickle_number(s->out, 0);
    ct_pickle_op(s->out, CT_PICKLE_TUPLE2);
    put_word(s, W_is_expandable);
    ct_pickle_op(s->out, mapped ? CT_PICKLE_TRUE : CT_PICKLE_FALSE);
    put_word(s, W_frames);
    put_frames(s, region->stack);
    const uint64_t bytes = put_blocks(s, region, end);
    put_key_number(s, W_allocated_size, bytes);
    put_key_number(s, W_active_size, bytes);
    put_key_number(s, W_requested_size, bytes);
    ct_pickle_op(s->out, CT_PICKLE_SETITEMS);
    s->shown[ct_device_to_index(region->device)].segments++;
}

// Adjacent mappings are one segment.
static void put_segments(struct ct_torch_snapshot *s) {
    const struct ct_range_list *from = &s->regions;
    const struct ct_listed_range *region = ct_range_list_find(from, 0), *next;
    unsigned batch = 0;
    put_word(s, W_segments);
    ct_pickle_op(s->out, CT_PICKLE_EMPTY_LIST);
    ct_pickle_op(s->out, CT_PICKLE_MARK);
    for (; region; region = next) {
        uint64_t end = ct_listed_range_end(region);
        for (next = ct_range_list_next(from, region);
             next && region->what == (CT_REGION_POOL | CT_REGION_MAPPED) &&
             next->what == region->what && next->start == end && next->device == region->device;
             next = ct_range_list_next(from, next))
            end = ct_listed_range_end(next);
        next_element(s, &batch);
        put_segment(s, region, end);
    }
    ct_pickle_op(s->out, CT_PICKLE_APPENDS);
    ct_pickle_op(s->out, CT_PICKLE_SETITEM);
}

static void put_traces(struct ct_torch_snapshot *s) {
    close_list(s);
    put_word(s, W_device_traces);
    ct_pickle_op(s->out, CT_PICKLE_EMPTY_LIST);
    ct_pickle_op(s->out, CT_PICKLE_MARK);
    for (unsigned d = 0; d < count_ordinals(s); d++)
        if (!recall(s, s->list[d]))
            ct_pickle_op(s->out, CT_PICKLE_EMPTY_LIST);
    (void)recall(s, s->list[CT_MAX_DEVICES]);
    ct_pickle_op(s->out, CT_PICKLE_APPENDS);
    ct_pickle_op(s->out, CT_PICKLE_SETITEM);
}

// ---- settings -----------------------------------------------------------------------------------

static void put_named_number(struct ct_torch_snapshot *s, const char *key, uint64_t value) {
    ct_pickle_text(s->out, key);
    ct_pickle_number(s->out, value);
}

// Writes the recorded facts about PyTorch: its version and the variables that configure its
// allocator.
static void put_facts(struct ct_torch_snapshot *s) {
    static const char environment[] = "process.env.", *const prefixes[] = {"torch.",
                                                                           "process.env.PYTORCH_"};
    const struct ct_definitions *n = s->sites->definitions;
    for (size_t i = 0; i < n->info_count; i++) {
        const struct ct_string *key = &n->strings[n->info[i].key],
                               *value = &n->strings[n->info[i].value];
        for (size_t p = 0; p < sizeof prefixes / sizeof *prefixes; p++) {
            const size_t length = strlen(prefixes[p]), skip = p ? sizeof environment - 1 : 0;
            if (key->length <= length || memcmp(key->at, prefixes[p], length) != 0)
                continue;
            ct_pickle_bytes(s->out, key->at + skip, key->length - skip);
            ct_pickle_bytes(s->out, value->at, value->length);
        }
    }
}

static void put_devices(struct ct_torch_snapshot *s) {
    for (int d = 0; d < CT_DEVICES; d++) {
        const struct ct_export_shown *shown = &s->shown[d];
        char key[40];
        if (!s->list[d])
            continue;
        (void)snprintf(key, sizeof key, d < CT_MAX_DEVICES ? "device %d" : "device unknown", d);
        ct_pickle_text(s->out, key);
        ct_pickle_op(s->out, CT_PICKLE_EMPTY_DICT);
        ct_pickle_op(s->out, CT_PICKLE_MARK);
        put_named_number(s, "driver_bytes", shown->live_bytes);
        put_named_number(s, "shown_bytes", shown->segment_bytes);
        put_named_number(s, "outside_the_pool_bytes",
                         shown->segment_bytes - shown->torch_segment_bytes);
        ct_pickle_op(s->out, CT_PICKLE_SETITEMS);
    }
}

static void put_driver(struct ct_torch_snapshot *s, const struct ct_trace *t) {
    const struct ct_string *driver = ct_definitions_info(&t->definitions, "nvidia.driver_version");
    char release[CT_EXPORT_NAME];
    if (!driver)
        return;
    (void)ct_export_text(release, driver->at, driver->length);
    ct_pickle_text(s->out, "nvidia_driver");
    ct_pickle_text(s->out, release);
}

static void put_settings(struct ct_torch_snapshot *s, const struct ct_trace *t) {
    put_word(s, W_allocator_settings);
    ct_pickle_op(s->out, CT_PICKLE_EMPTY_DICT);
    ct_pickle_op(s->out, CT_PICKLE_MARK);
    put_facts(s);
    ct_pickle_text(s->out, "cutrace");
    ct_pickle_op(s->out, CT_PICKLE_EMPTY_DICT);
    ct_pickle_op(s->out, CT_PICKLE_MARK);
    ct_pickle_text(s->out, "trace");
    ct_pickle_text(s->out, t->source.name);
    put_driver(s, t);
    if (s->window.first != UINT64_MAX) {
        put_named_number(s, "from_event", s->window.first);
        put_named_number(s, "to_event", s->window.last);
    }
    ct_pickle_text(s->out, "sizes");
    ct_pickle_text(s->out, "as PyTorch has rounded them; streams and pools are not exported");
    if (s->note) {
        ct_pickle_text(s->out, "note");
        ct_pickle_text(s->out, s->note);
    }
    put_devices(s);
    ct_pickle_op(s->out, CT_PICKLE_SETITEMS);
    ct_pickle_op(s->out, CT_PICKLE_SETITEMS);
    ct_pickle_op(s->out, CT_PICKLE_SETITEM);
}

void ct_torch_snapshot_write_state(struct ct_torch_snapshot *s, const struct ct_trace *t) {
    put_traces(s);
    put_segments(s);
    put_settings(s, t);
    put_word(s, W_external_annotations);
    ct_pickle_op(s->out, CT_PICKLE_EMPTY_LIST);
    ct_pickle_op(s->out, CT_PICKLE_SETITEM);
}
