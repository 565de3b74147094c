// SPDX-License-Identifier: Apache-2.0
// From the values of a pickle to segments, blocks and entries. Sources of the format:
// torch/csrc/cuda/memory_snapshot.cpp and torch/cuda/memory.py (_snapshot) of PyTorch.
#include "snapshot/snapshot.h"

#include <string.h>

#include "base/heap.h"

// ---- stacks -------------------------------------------------------------------------------------
// The frames of a snapshot as stacks, which have call sites and phases as those of a trace.

static struct ct_string text_of(const struct ct_pickle_value *v) {
    return v && v->type == CT_PICKLE_IS_TEXT ? (struct ct_string){v->text, v->length}
                                             : (struct ct_string){"", 0};
}

static int ends_with(struct ct_string s, const char *end) {
    const size_t n = strlen(end);
    return s.length >= n && memcmp(s.at + s.length - n, end, n) == 0;
}

// Code without a file has one in angle brackets: "<stdin>".
static int is_python(struct ct_string file) {
    return ends_with(file, ".py") || (file.length && *file.at == '<');
}

static struct ct_string find_text(const struct ct_snapshot *s, const struct ct_pickle_value *dict,
                                  const char *key) {
    return text_of(ct_pickle_find(&s->document, dict, key));
}

// What `cutrace-report export` puts into names that PyTorch's viewer would leave out.
static struct ct_string without_breaks(struct ct_string s, char *to, size_t size) {
    static const char space[] = "\xE2\x80\x8B";
    size_t n = 0;
    if (s.length >= size || !memmem(s.at, s.length, space, sizeof space - 1))
        return s;
    for (uint32_t i = 0; i < s.length; i++) {
        if (s.length - i >= sizeof space - 1 && memcmp(s.at + i, space, sizeof space - 1) == 0)
            i += sizeof space - 2;
        else
            to[n++] = s.at[i];
    }
    return (struct ct_string){to, (uint32_t)n};
}

static uint32_t make_frame(struct ct_snapshot *s, const struct ct_pickle_value *dict) {
    char name[512];
    const struct ct_string file = find_text(s, dict, "filename"),
                           function = without_breaks(find_text(s, dict, "name"), name, sizeof name),
                           none = {"", 0};
    const struct ct_pickle_value *line = ct_pickle_find(&s->document, dict, "line");
    const uint64_t number =
        line && line->type == CT_PICKLE_IS_NUMBER && line->number > 0 ? (uint64_t)line->number : 0;
    if (is_python(file))
        return ct_definitions_add_python_frame(&s->definitions, function, file, number);
    const int is_library = memmem(file.at, file.length, ".so", 3) != NULL;
    return ct_definitions_add_native_frame(&s->definitions, dict->container + 1u, function,
                                           is_library ? file : none);
}

static uint32_t get_frame(struct ct_snapshot *s, const struct ct_pickle_value *dict) {
    if (dict->type != CT_PICKLE_IS_DICT)
        return 0;
    uint64_t *known = ct_map_add(&s->frame_of_dict, dict->container);
    if (!*known)
        *known = make_frame(s, dict) + UINT64_C(1);
    return (uint32_t)(*known - 1);
}

static int is_python_frame(const struct ct_snapshot *s, uint32_t frame) {
    return s->definitions.frames[frame].kind == CT_FRAME_PYTHON;
}

// The stack of frames, innermost first.
static uint32_t make_stack(struct ct_snapshot *s, const uint32_t *frames, size_t count) {
    int has_python = 0;
    uint32_t node = 0;
    for (size_t i = 0; i < count; i++)
        has_python |= is_python_frame(s, frames[i]);
    for (size_t i = count; i-- > 0;)
        if (!has_python || is_python_frame(s, frames[i]))
            node = ct_definitions_add_node(&s->definitions, node, frames[i]);
    return node ? ct_definitions_add_stack(&s->definitions, node) : 0;
}

// Of longer lists the frames in the middle are left out: the innermost ones name the call site, the
// outermost ones the phase.
static uint32_t read_list(struct ct_snapshot *s, const struct ct_pickle_value *list) {
    static uint32_t frames[CT_MAX_STACK];
    const uint64_t all = ct_pickle_count(&s->document, list);
    const uint64_t skipped = all > CT_MAX_STACK ? all - CT_MAX_STACK : 0;
    struct ct_pickle_walk w = ct_pickle_walk(&s->document, list);
    const struct ct_pickle_value *v;
    size_t n = 0;
    for (uint64_t i = 0; (v = ct_pickle_next(&w)); i++) {
        if (i >= CT_MAX_STACK / 2 && i < CT_MAX_STACK / 2 + skipped)
            continue;
        const uint32_t frame = get_frame(s, v);
        if (frame)
            frames[n++] = frame;
    }
    return make_stack(s, frames, n);
}

// The stack of a list of frames, innermost first; 0: it has none. Native frames are left out where
// there are frames of Python: PyTorch's history names neither their libraries nor their files in a
// way that tells whose they are. A list is read once, however often it is named.
static uint32_t add_stack(struct ct_snapshot *s, const struct ct_pickle_value *frames) {
    if (!frames || frames->type != CT_PICKLE_IS_LIST)
        return 0;
    uint64_t *known = ct_map_add(&s->stack_of_list, frames->container);
    if (!*known)
        *known = read_list(s, frames) + UINT64_C(1);
    return (uint32_t)(*known - 1);
}

// ---- the snapshot -------------------------------------------------------------------------------

typedef const struct ct_pickle_value *value;

static int fail(const char *name, const char *what, struct ct_error *error) {
    return ct_error_set(error, CT_EXIT_BAD_TRACE,
                        "%.400s: is a pickle, but no memory snapshot of PyTorch: %s", name, what);
}

// A list can name the same element again and again. So much is looked at as there are elements, and
// no more.
static int spend(struct ct_snapshot *s, uint64_t elements) {
    if (s->budget < elements + 1)
        return -1;
    s->budget -= elements + 1;
    return 0;
}

// ---- values of a dictionary ---------------------------------------------------------------------

// Sets *to[i] to the value of the key names[i], NULL if there is none, in one pass.
static void find_all(const struct ct_snapshot *s, value dict, const char *const *names, size_t n,
                     value *to) {
    struct ct_pickle_walk w = ct_pickle_walk(&s->document, dict);
    value key;
    memset(to, 0, n * sizeof *to);
    while ((key = ct_pickle_next(&w))) {
        value v = ct_pickle_next(&w);
        for (size_t i = 0; i < n; i++)
            if (ct_pickle_is_text(key, names[i]))
                to[i] = v;
    }
}

static uint64_t number_of(value v) {
    const int is_number = v && (v->type == CT_PICKLE_IS_NUMBER || v->type == CT_PICKLE_IS_BOOL);
    return is_number && v->number > 0 ? (uint64_t)v->number : 0;
}

static int64_t signed_of(value v) {
    return v && v->type == CT_PICKLE_IS_NUMBER ? v->number : 0;
}

// Frames of a block of torch before 2.1 are those of the first element of its history.
static value find_frames(const struct ct_snapshot *s, value frames, value history) {
    struct ct_pickle_walk w = ct_pickle_walk(&s->document, history);
    if (frames || !history || history->type != CT_PICKLE_IS_LIST)
        return frames;
    return ct_pickle_find(&s->document, ct_pickle_next(&w), "frames");
}

// ---- segments -----------------------------------------------------------------------------------

static enum ct_snapshot_state read_state(value v) {
    if (ct_pickle_is_text(v, "active_allocated"))
        return CT_SNAPSHOT_ALLOCATED;
    if (ct_pickle_is_text(v, "active_pending_free") || ct_pickle_is_text(v, "active_awaiting_free"))
        return CT_SNAPSHOT_PENDING;
    return CT_SNAPSHOT_INACTIVE;
}

// Blocks lie one after the other; torch before 2.1 does not say where.
static uint64_t read_block(struct ct_snapshot *s, value dict, uint64_t address) {
    enum { ADDRESS, SIZE, REQUESTED, STATE, FRAMES, HISTORY, KEYS };
    static const char *const names[KEYS] = {"address", "size",   "requested_size",
                                            "state",   "frames", "history"};
    value v[KEYS];
    find_all(s, dict, names, KEYS, v);
    CT_HEAP_GROW(s->blocks, s->block_count, s->block_room);
    struct ct_snapshot_block *b = &s->blocks[s->block_count++];
    *b = (struct ct_snapshot_block){.address = v[ADDRESS] ? number_of(v[ADDRESS]) : address,
                                    .bytes = number_of(v[SIZE]),
                                    .requested = number_of(v[REQUESTED]),
                                    .state = read_state(v[STATE])};
    b->stack = add_stack(s, find_frames(s, v[FRAMES], v[HISTORY]));
    return b->address + b->bytes;
}

static int read_blocks(struct ct_snapshot *s, struct ct_snapshot_segment *g, value list) {
    struct ct_pickle_walk w = ct_pickle_walk(&s->document, list);
    uint64_t address = g->address;
    value dict;
    g->first_block = s->block_count;
    while ((dict = ct_pickle_next(&w))) {
        if (spend(s, ct_pickle_count(&s->document, dict)))
            return -1;
        address = read_block(s, dict, address);
    }
    g->block_count = s->block_count - g->first_block;
    return 0;
}

static void read_pool(const struct ct_snapshot *s, value tuple, int64_t *pool) {
    struct ct_pickle_walk w = ct_pickle_walk(&s->document, tuple);
    for (int i = 0; i < 2; i++)
        pool[i] = signed_of(ct_pickle_next(&w));
}

static int read_segment(struct ct_snapshot *s, value dict) {
    enum { DEVICE, ADDRESS, SIZE, STREAM, TYPE, POOL, EXPANDABLE, BLOCKS, KEYS };
    static const char *const names[KEYS] = {"device",        "address",      "total_size",
                                            "stream",        "segment_type", "segment_pool_id",
                                            "is_expandable", "blocks"};
    value v[KEYS];
    if (spend(s, ct_pickle_count(&s->document, dict)))
        return -1;
    find_all(s, dict, names, KEYS, v);
    struct ct_snapshot_segment g = {.address = number_of(v[ADDRESS]),
                                    .bytes = number_of(v[SIZE]),
                                    .key = {.stream = s->by_cutrace ? 0 : number_of(v[STREAM]),
                                            .is_small = ct_pickle_is_text(v[TYPE], "small")},
                                    .is_expandable = number_of(v[EXPANDABLE]) != 0};
    const uint64_t device = number_of(v[DEVICE]);
    g.device = device < CT_SNAPSHOT_DEVICES ? (int)device : -1;
    read_pool(s, v[POOL], g.key.pool);
    if (read_blocks(s, &g, v[BLOCKS]))
        return -1;
    CT_HEAP_GROW(s->segments, s->segment_count, s->segment_room);
    s->segments[s->segment_count++] = g;
    return 0;
}

static int read_segments(struct ct_snapshot *s, value list) {
    struct ct_pickle_walk w = ct_pickle_walk(&s->document, list);
    value dict;
    while ((dict = ct_pickle_next(&w)))
        if (read_segment(s, dict))
            return -1;
    return 0;
}

// ---- history ------------------------------------------------------------------------------------

static enum ct_snapshot_action read_action(value v) {
    static const struct {
        const char *name;
        enum ct_snapshot_action action;
    } actions[] = {{"alloc", CT_SNAPSHOT_ALLOC},
                   {"free_requested", CT_SNAPSHOT_FREE_REQUESTED},
                   {"free_completed", CT_SNAPSHOT_FREE_COMPLETED},
                   {"segment_alloc", CT_SNAPSHOT_SEGMENT_ALLOC},
                   {"segment_free", CT_SNAPSHOT_SEGMENT_FREE},
                   {"segment_map", CT_SNAPSHOT_SEGMENT_MAP},
                   {"segment_unmap", CT_SNAPSHOT_SEGMENT_UNMAP},
                   {"oom", CT_SNAPSHOT_OOM}};
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
        if (ct_pickle_is_text(v, actions[i].name))
            return actions[i].action;
    return CT_SNAPSHOT_OTHER;
}

static int read_entry(struct ct_snapshot *s, struct ct_snapshot_history *h, value dict) {
    enum { ACTION, ADDRESS, SIZE, STREAM, TIME, FREE, FRAMES, POOL, SEGMENT_POOL, KEYS };
    static const char *const names[KEYS] = {"action", "addr",    "size",
                                            "stream", "time_us", "device_free",
                                            "frames", "pool_id", "segment_pool_id"};
    value v[KEYS];
    if (spend(s, ct_pickle_count(&s->document, dict)))
        return -1;
    find_all(s, dict, names, KEYS, v);
    struct ct_snapshot_entry e = {.action = read_action(v[ACTION]),
                                  .address = number_of(v[ADDRESS]),
                                  .bytes = number_of(v[SIZE]),
                                  .stream = number_of(v[STREAM]),
                                  .time_us = number_of(v[TIME])};
    if (e.action == CT_SNAPSHOT_OOM) {
        h->ooms++;
        e.free_known = v[FREE] != NULL;
        e.address = number_of(v[FREE]);
    }
    read_pool(s, v[POOL] ? v[POOL] : v[SEGMENT_POOL], e.pool);
    e.stack = add_stack(s, v[FRAMES]);
    CT_HEAP_GROW(h->list, h->count, h->room);
    h->list[h->count++] = e;
    return 0;
}

// Lists of further devices than there can be are not looked at.
static int read_history(struct ct_snapshot *s, value traces) {
    struct ct_pickle_walk devices = ct_pickle_walk(&s->document, traces);
    value list, dict;
    for (int d = 0; d < CT_SNAPSHOT_DEVICES && (list = ct_pickle_next(&devices)); d++) {
        struct ct_pickle_walk w = ct_pickle_walk(&s->document, list);
        while ((dict = ct_pickle_next(&w)))
            if (read_entry(s, &s->history[d], dict))
                return -1;
    }
    return 0;
}

// ---- the whole ----------------------------------------------------------------------------------

static int is_dict(value v) {
    return v && v->type == CT_PICKLE_IS_DICT;
}

static int is_list(value v) {
    return v && v->type == CT_PICKLE_IS_LIST;
}

static int read_parts(struct ct_snapshot *s, const char *name, struct ct_error *error) {
    const struct ct_pickle_document *d = &s->document;
    if (!is_dict(&d->root))
        return fail(name, "it holds no dictionary", error);
    value segments = ct_pickle_find(d, &d->root, "segments"),
          traces = ct_pickle_find(d, &d->root, "device_traces"),
          settings = ct_pickle_find(d, &d->root, "allocator_settings");
    if (!is_list(segments) || (traces && !is_list(traces)))
        return fail(name, "it has no list of segments", error);
    s->settings = is_dict(settings) ? settings : NULL;
    s->by_cutrace = s->settings && ct_pickle_find(d, s->settings, "cutrace") != NULL;
    s->budget = 2 * (uint64_t)d->item_count + 2 * (uint64_t)d->container_count + 1024;
    if (read_segments(s, segments) || read_history(s, traces))
        return fail(name, "it names the same parts again and again", error);
    return 0;
}

int ct_snapshot_read(struct ct_snapshot *s, const char *name, uint8_t *bytes, size_t size,
                     struct ct_error *error) {
    *s = (struct ct_snapshot){.bytes = bytes, .size = size};
    ct_definitions_init(&s->definitions);
    const int status =
        ct_pickle_parse(&s->document, name, bytes, size, error) || read_parts(s, name, error);
    ct_definitions_finish(&s->definitions);
    ct_map_free(&s->stack_of_list);
    ct_map_free(&s->frame_of_dict);
    return status ? -1 : 0;
}

void ct_snapshot_free(struct ct_snapshot *s) {
    for (int d = 0; d < CT_SNAPSHOT_DEVICES; d++)
        free(s->history[d].list);
    free(s->segments);
    free(s->blocks);
    free(s->bytes);
    ct_pickle_document_free(&s->document);
    ct_definitions_free(&s->definitions);
    *s = (struct ct_snapshot){0};
}

int ct_snapshot_find_oom(const struct ct_snapshot *s, size_t *entry) {
    uint64_t latest = 0;
    int device = -1;
    for (int d = 0; d < CT_SNAPSHOT_DEVICES; d++)
        for (size_t i = 0; i < s->history[d].count; i++) {
            const struct ct_snapshot_entry *e = &s->history[d].list[i];
            if (e->action != CT_SNAPSHOT_OOM || e->time_us < latest)
                continue;
            latest = e->time_us;
            device = d;
            *entry = i;
        }
    return device;
}
