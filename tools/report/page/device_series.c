// SPDX-License-Identifier: Apache-2.0
#include "page/device_series.h"

#include <cutrace/format/assert.h>

#include "base/search.h"

// ---- rows --------------------------------------------------------------------------------------

struct ct_series_row ct_device_series_row(unsigned row) {
    static const char *const groups[CT_ACCOUNT_ROWS] = {
        [CT_ACCOUNT_SEGMENTS] = "torch",       [CT_ACCOUNT_POOL_IDLE] = "idle",
        [CT_ACCOUNT_MEMPOOL_IDLE] = "driver",  [CT_ACCOUNT_IN_FLIGHT] = "driver",
        [CT_ACCOUNT_GRAPHS] = "untracked",     [CT_ACCOUNT_CONTEXTS] = "untracked",
        [CT_ACCOUNT_MODULES] = "untracked",    [CT_ACCOUNT_LIMITS] = "untracked",
        [CT_ACCOUNT_UNMEASURED] = "untracked", [CT_ACCOUNT_HOST] = "others",
        [CT_ACCOUNT_SIBLINGS] = "others",      [CT_ACCOUNT_OTHERS] = "others",
        [CT_ACCOUNT_UNATTRIBUTED] = "others",  [CT_ACCOUNT_FREE] = "free"};
    enum ct_account_row_kind kind;
    const char *group = NULL;
    if (row < CT_SERIES_DRIVER) { // components, then SEGMENTS and POOL_IDLE
        kind = (enum ct_account_row_kind)row;
        group = row < CT_COMPONENTS ? "torch" : groups[kind];
    } else if (row < CT_SERIES_REST) {
        kind = (enum ct_account_row_kind)(row - CT_SERIES_DRIVER);
        group = "driver";
    } else {
        kind = (enum ct_account_row_kind)(row - CT_SERIES_REST + CT_ACCOUNT_MEMPOOL_IDLE);
        group = groups[kind];
    }
    return (struct ct_series_row){ct_account_row_name(kind), ct_account_row_title(kind), group};
}

static void read_rows(struct ct_device_series *d, struct ct_series_moment *m,
                      const struct ct_breakdown *split) {
    struct ct_account a;
    uint64_t blocks[CT_COMPONENTS];
    ct_held_now_account(&d->held, &a, blocks, split);
    m->is_read = a.known;
    for (unsigned i = 0; i < CT_SERIES_ROWS; i++) {
        if (i < CT_COMPONENTS)
            m->bytes[i] = blocks[i];
        else if (i < CT_SERIES_DRIVER)
            m->bytes[i] = a.row[i].bytes;
        else if (i < CT_SERIES_REST)
            m->bytes[i] = a.row[i - CT_SERIES_DRIVER].bytes - blocks[i - CT_SERIES_DRIVER];
        else
            m->bytes[i] = a.row[i - CT_SERIES_REST + CT_ACCOUNT_MEMPOOL_IDLE].bytes;
    }
}

// ---- what call sites hold ----------------------------------------------------------------------

struct held {
    uint64_t bytes, count;
};

struct ct_series_pass {
    struct ct_device_series *series;
    const struct ct_scan *scan;
    size_t next; // of the notable moments
    struct ct_address_picture picture;
    struct held *last; // by site: what the moment before had
    size_t last_count;
    uint8_t *marked;  // by notable moment: flags, below
    unsigned columns; // evenly over the time
};

// Rows that do not overlap: blocks and idle memory in place of segments, or segments.
static struct held held_by(const struct ct_site_group *g, enum ct_holding_rows rows) {
    const int is_part = g->kind == CT_HOLDING_BLOCK || g->kind == CT_HOLDING_IDLE;
    if (rows == CT_ROWS_BY_BLOCK ? g->kind == CT_HOLDING_SEGMENT : is_part)
        return (struct held){0, 0};
    return (struct held){g->bytes, g->count};
}

static void set_idle(struct ct_held_now *h) {
    const struct ct_holding idle = ct_live_at_find_idle(h->replay, h->device);
    if (!idle.bytes && !ct_site_groups_find(&h->groups, h->sites, CT_HOLDING_IDLE, 0))
        return;
    struct ct_site_group *g = ct_site_groups_get(&h->groups, h->sites, CT_HOLDING_IDLE, 0);
    g->bytes = idle.bytes;
    g->count = idle.count;
}

static void add_change(struct ct_device_series *d, size_t site, struct held now) {
    CT_HEAP_GROW(d->changes, d->change_count, d->change_room);
    d->changes[d->change_count++] = (struct ct_series_change){(uint32_t)site, now.bytes, now.count};
}

static void read_live(struct ct_series_pass *p, size_t moment) {
    struct ct_device_series *d = p->series;
    const size_t first = d->change_count;
    set_idle(&d->held);
    const struct ct_site_groups *g = &d->held.groups;
    const enum ct_holding_rows rows = ct_held_now_rows(&d->held);
    if (g->count > p->last_count) {
        p->last = ct_heap_resize(p->last, g->count, sizeof *p->last);
        memset(p->last + p->last_count, 0, (g->count - p->last_count) * sizeof *p->last);
        p->last_count = g->count;
    }
    for (size_t i = 0; i < g->count; i++) {
        const struct held now = held_by(&g->list[i], rows);
        if (now.bytes != p->last[i].bytes || now.count != p->last[i].count)
            add_change(d, i, now);
        p->last[i] = now;
    }
    CT_HEAP_GROW(d->live, d->live_count, d->live_room);
    d->live[d->live_count++] = (struct ct_series_live){moment, first, d->change_count};
}

static void read_column(struct ct_series_pass *p, size_t moment) {
    struct ct_device_series *d = p->series;
    uint32_t *owners = ct_heap_alloc_zeroed(CT_ADDRESS_ROWS, sizeof *owners);
    ct_address_picture_read(&p->picture, &d->held, owners);
    CT_HEAP_GROW(d->columns, d->column_count, d->column_room);
    d->columns[d->column_count++] = (struct ct_series_column){moment, owners};
}

static void read_blocks(struct ct_series_pass *p, size_t moment) {
    struct ct_device_series *d = p->series;
    struct ct_series_blocks b = {.moment = moment};
    b.count = ct_address_picture_list(&d->held, CT_SERIES_BLOCKS, &b.list, &b.all);
    CT_HEAP_GROW(d->blocks, d->block_count, d->block_room);
    d->blocks[d->block_count++] = b;
}

// ---- the pass ----------------------------------------------------------------------------------

enum { NAMED = 1, EVEN_LIVE = 2, EVEN_COLUMN = 4, WITH_BLOCKS = 8 };

static void mark(struct ct_series_pass *p, uint64_t event, uint8_t flag) {
    const struct ct_notable_moments *n = &p->series->notable;
    const size_t at = ct_search_below(n->events, n->count, sizeof *n->events, 0, event);
    if (at < n->count && n->events[at] == event)
        p->marked[at] |= flag;
}

// Marks the last state of each of `count` equal parts of the time. What is drawn of a quiet time is
// then never older than a part of it.
static void mark_evenly(struct ct_series_pass *p, unsigned count, uint8_t flag) {
    const uint64_t *last = p->series->notable.last;
    for (unsigned i = 0; i < count; i++) {
        unsigned at = CT_NOTABLE_PARTS * (i + 1) / count;
        while (at > CT_NOTABLE_PARTS * i / count && last[at - 1] == UINT64_MAX)
            at--;
        if (at > CT_NOTABLE_PARTS * i / count)
            mark(p, last[at - 1], flag);
    }
}

// Each column looks at all that is live.
static unsigned count_columns(const struct ct_notable_moments *n) {
    enum { LEAST = 10, MOST_LOOKS = 1 << 24 };
    const unsigned columns = n->slots ? MOST_LOOKS / n->slots : CT_SERIES_COLUMNS;
    if (columns < LEAST)
        return LEAST;
    return columns < CT_SERIES_COLUMNS ? columns : CT_SERIES_COLUMNS;
}

// Marks the moments that views name: failed allocations, the peak, marks of the program, the end.
static void mark_all(struct ct_series_pass *p, const struct ct_scan *s) {
    const struct ct_device_series *d = p->series;
    const struct ct_oom_event *crossing = ct_scan_find_crossing(s);
    p->marked = ct_heap_alloc_zeroed(d->notable.count + 1, 1);
    for (size_t i = 0; i < d->notable.failure_count; i++)
        mark(p, ct_incidents_head(&s->incidents, d->notable.failures[i])->event, NAMED);
    if (crossing && crossing->device == d->device)
        mark(p, ct_incidents_head(&s->incidents, crossing->incident)->event, WITH_BLOCKS);
    if (s->device[d->device].peak_known)
        mark(p, s->device[d->device].peak_event, NAMED | WITH_BLOCKS);
    for (unsigned i = 0; i < CT_PROGRAM_MARKS; i++)
        if (d->notable.marks.part[i].count)
            mark(p, d->notable.marks.part[i].event, NAMED);
    if (d->notable.count)
        p->marked[d->notable.count - 1] |= NAMED | WITH_BLOCKS;
    mark_evenly(p, CT_SERIES_LIVE / 2, EVEN_LIVE);
    mark_evenly(p, p->columns, EVEN_COLUMN);
}

// The other moments lie where more happens: near failed allocations above all.
static int is_one_of(size_t i, size_t count, size_t most) {
    const size_t step = (count + most - 1) / most;
    return i % step == 0;
}

// `i`: of the notable moments.
static void read_moment(struct ct_series_pass *p, size_t i, const struct ct_event *e) {
    struct ct_device_series *d = p->series;
    const size_t all = d->notable.count, at = d->count++;
    struct ct_series_moment *m = &d->moments[at];
    m->t_ns = e->t_ns;
    m->event = d->notable.events[i];
    read_rows(d, m, ct_incidents_find_split(&p->scan->incidents, m->event, d->device));
    if (p->marked[i] & (NAMED | EVEN_LIVE) || is_one_of(i, all, CT_SERIES_LIVE / 2))
        read_live(p, at);
    if (d->notable.axis.rows &&
        (p->marked[i] & (NAMED | EVEN_COLUMN) || is_one_of(i, all, p->columns / 5)))
        read_column(p, at);
    if (d->notable.axis.rows && p->marked[i] & WITH_BLOCKS)
        read_blocks(p, at);
}

void ct_device_series_join_first(struct ct_listeners *to, struct ct_device_series *d,
                                 const struct ct_view *v, const struct ct_scan *s, int device) {
    *d = (struct ct_device_series){.device = device};
    ct_notable_moments_join(to, &d->notable, v->trace, s, device);
}

static int before_event(void *self, const struct ct_replay *r, const struct ct_event *e,
                        uint64_t number) {
    const struct ct_series_pass *p = self;
    (void)r;
    (void)e;
    (void)number;
    return p->next < p->series->notable.count;
}

static void after_event(void *self, const struct ct_replay *r, const struct ct_event *e,
                        uint64_t number) {
    struct ct_series_pass *p = self;
    const struct ct_notable_moments *n = &p->series->notable;
    (void)r;
    while (p->next < n->count && n->events[p->next] < number)
        p->next++;
    if (p->next < n->count && n->events[p->next] == number)
        read_moment(p, p->next, e);
}

static void end_pass(void *self, const struct ct_replay *r) {
    struct ct_series_pass *p = self;
    (void)r;
    ct_address_picture_free(&p->picture);
    free(p->last);
    free(p->marked);
    free(p);
}

void ct_device_series_join_second(struct ct_listeners *to, struct ct_device_series *d,
                                  const struct ct_view *v, const struct ct_scan *s) {
    struct ct_series_pass *p = ct_heap_alloc_zeroed(1, sizeof *p);
    struct ct_listener a = {
        .self = p, .before = before_event, .after = after_event, .end = end_pass};
    p->series = d;
    p->scan = s;
    d->moments = ct_heap_alloc_zeroed(d->notable.count + 1, sizeof *d->moments);
    ct_address_picture_init(&p->picture, &d->notable.axis);
    ct_held_now_init(&d->held, v->sites, v->phases, d->device, to->replay);
    ct_held_now_follow(&d->held, &a);
    p->columns = count_columns(&d->notable);
    mark_all(p, s);
    ct_listeners_add(to, &a);
}

void ct_device_series_free(struct ct_device_series *d) {
    for (size_t i = 0; i < d->column_count; i++)
        free(d->columns[i].owners);
    free(d->columns);
    for (size_t i = 0; i < d->block_count; i++)
        free(d->blocks[i].list);
    free(d->blocks);
    free(d->changes);
    free(d->live);
    free(d->moments);
    ct_held_now_free(&d->held);
    ct_notable_moments_free(&d->notable);
}
