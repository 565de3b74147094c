// SPDX-License-Identifier: Apache-2.0
#include "allocator/stream_groups.h"

#include <string.h>

// How many free blocks are looked at for one request, before the one that it got and after it.
enum { MOST_BEFORE = 128, MOST_AFTER = 8, MOST_FOR_NEW = 512 };
enum { MOST_PAIRS = 1 << 20, MOST_SEGMENTS = 1 << 24, KEPT_MOST = INT32_MAX };

static struct ct_tree_nodes size_nodes(const struct ct_stream_groups *g) {
    return (struct ct_tree_nodes){(char *)g->ranges + offsetof(struct ct_free_range, by_size),
                                  sizeof *g->ranges};
}

static struct ct_tree_nodes address_nodes(const struct ct_stream_groups *g) {
    return (struct ct_tree_nodes){(char *)g->ranges + offsetof(struct ct_free_range, by_address),
                                  sizeof *g->ranges};
}

static struct ct_block_tree *size_tree(struct ct_stream_groups *g, uint32_t segment) {
    return &g->by_size[g->segments[segment].small];
}

void ct_stream_groups_init(struct ct_stream_groups *g, const struct ct_allocator_settings *s) {
    *g = (struct ct_stream_groups){.settings = *s,
                                   .spare = CT_NO_BLOCK,
                                   .by_size = {{CT_NO_BLOCK, 0}, {CT_NO_BLOCK, 0}},
                                   .by_address = {CT_NO_BLOCK, 1}};
}

// ---- free ranges --------------------------------------------------------------------------------

static int is_whole(const struct ct_stream_groups *g, const struct ct_free_range *r) {
    return r->by_size.size == g->segments[r->segment].bytes;
}

static void add_range(struct ct_stream_groups *g, uint32_t segment, uint64_t start, uint64_t end) {
    uint32_t at = g->spare;
    if (start >= end)
        return;
    if (at != CT_NO_BLOCK) {
        g->spare = g->ranges[at].by_size.left;
    } else {
        CT_HEAP_GROW(g->ranges, g->range_count, g->range_room);
        at = g->range_count++;
    }
    const struct ct_tree_block range = {.size = end - start, .address = start};
    g->ranges[at] = (struct ct_free_range){range, range, segment};
    g->cached += is_whole(g, &g->ranges[at]);
    const struct ct_tree_nodes sizes = size_nodes(g), addresses = address_nodes(g);
    ct_block_tree_insert(size_tree(g, segment), &sizes, at);
    ct_block_tree_insert(&g->by_address, &addresses, at);
}

static void remove_range(struct ct_stream_groups *g, uint32_t at) {
    const struct ct_tree_nodes sizes = size_nodes(g), addresses = address_nodes(g);
    g->cached -= is_whole(g, &g->ranges[at]);
    ct_block_tree_erase(size_tree(g, g->ranges[at].segment), &sizes, at);
    ct_block_tree_erase(&g->by_address, &addresses, at);
    g->ranges[at].by_size.left = g->spare;
    g->spare = at;
}

// The last range that begins before an address, or CT_NO_BLOCK.
static uint32_t range_before(const struct ct_stream_groups *g, uint64_t address) {
    const struct ct_tree_nodes addresses = address_nodes(g);
    return ct_block_tree_before(&g->by_address, &addresses, 0, address);
}

static uint64_t range_end(const struct ct_free_range *r) {
    return r->by_size.address + r->by_size.size;
}

// Removes [start, end) from the free ranges.
static void cut(struct ct_stream_groups *g, uint64_t start, uint64_t end) {
    uint32_t at;
    while ((at = range_before(g, end)) != CT_NO_BLOCK && range_end(&g->ranges[at]) > start) {
        const struct ct_free_range r = g->ranges[at];
        remove_range(g, at);
        if (range_end(&r) > end)
            add_range(g, r.segment, end, range_end(&r));
        if (r.by_size.address < start)
            add_range(g, r.segment, r.by_size.address, start);
    }
}

// ---- what a placement tells ---------------------------------------------------------------------

// The pair of two segments. NULL: there are too many pairs.
static struct ct_segment_pair *find_pair(struct ct_stream_groups *g, uint32_t a, uint32_t b) {
    const uint64_t key = a < b ? (uint64_t)a << 32 | b : (uint64_t)b << 32 | a;
    const uint64_t *known = ct_map_find(&g->pair_index, key);
    if (known)
        return &g->pairs[*known];
    if (g->pair_count == MOST_PAIRS) {
        g->pairs_left_out++;
        return NULL;
    }
    CT_HEAP_GROW(g->pairs, g->pair_count, g->pair_room);
    g->pairs[g->pair_count] = (struct ct_segment_pair){.segment = a, .other = b};
    *ct_map_add(&g->pair_index, key) = g->pair_count;
    return &g->pairs[g->pair_count++];
}

static void note_passed_over(struct ct_stream_groups *g, uint32_t a, uint32_t b) {
    struct ct_segment_pair *p = find_pair(g, a, b);
    if (p)
        p->passed_over++;
}

static void note_kept(struct ct_stream_groups *g, uint32_t a, uint32_t b) {
    struct ct_segment_pair *p = find_pair(g, a, b);
    if (p && p->kept < KEPT_MOST)
        p->kept++;
}

static void note_surely(struct ct_stream_groups *g, uint32_t a, uint32_t b) {
    struct ct_segment_pair *p = find_pair(g, a, b);
    if (p)
        p->surely = 1;
}

// Whether PyTorch would surely have given a request of its stream a free block. A block may be
// larger than its request: by the rounding of its segment, if it is not to be split.
static int is_eligible(const struct ct_stream_groups *g, uint64_t size, uint64_t bytes) {
    const uint64_t max_split = g->settings.max_split;
    if (bytes < max_split)
        return size < max_split;
    return bytes - max_split > CT_ALLOCATOR_SMALL &&
           size - bytes <= g->settings.max_rounding - CT_ALLOCATOR_ROUND_LARGE;
}

// Whether a free block has the size of the chosen one.
static int is_tie(const struct ct_stream_groups *g, uint32_t at, uint32_t chosen) {
    return chosen != CT_NO_BLOCK && g->ranges[at].by_size.size == g->ranges[chosen].by_size.size;
}

// Whether PyTorch surely takes the first of two such blocks, of different segments.
static int is_taken_first(const struct ct_stream_groups *g, uint32_t at, uint32_t other) {
    const struct ct_free_range *a = &g->ranges[at], *b = &g->ranges[other];
    if (!g->order_is_known)
        return 0;
    return g->by_creation ? a->segment < b->segment : a->by_size.address < b->by_size.address;
}

// A request got the free block `chosen`, or CT_NO_BLOCK: a new segment.
static void note_choice(struct ct_stream_groups *g, uint32_t segment, uint64_t bytes,
                        uint32_t chosen) {
    const struct ct_tree_nodes sizes = size_nodes(g);
    const struct ct_block_tree *tree = size_tree(g, segment);
    const int most = chosen == CT_NO_BLOCK ? MOST_FOR_NEW : MOST_BEFORE;
    uint32_t at = ct_block_tree_find(tree, &sizes, bytes, 0);
    for (int n = 0; n < most && at != CT_NO_BLOCK && at != chosen; n++) {
        const uint32_t other = g->ranges[at].segment;
        if (other == segment) {
            g->waited++;
        } else if (is_eligible(g, g->ranges[at].by_size.size, bytes) &&
                   (!is_tie(g, at, chosen) || is_taken_first(g, at, chosen))) {
            g->passed_over++;
            note_passed_over(g, segment, other);
        }
        at = ct_block_tree_next(tree, &sizes, at);
    }
    if (chosen == CT_NO_BLOCK)
        return;
    at = ct_block_tree_next(tree, &sizes, chosen);
    for (int n = 0; n < MOST_AFTER && at != CT_NO_BLOCK; n++) {
        const int passed_over = is_tie(g, at, chosen) && is_taken_first(g, at, chosen);
        if (g->ranges[at].segment != segment) {
            g->passed_over += passed_over;
            (passed_over ? note_passed_over : note_kept)(g, segment, g->ranges[at].segment);
        }
        at = ct_block_tree_next(tree, &sizes, at);
    }
}

// With max_split_size, PyTorch first frees unsplit blocks of the stream: the smallest that is large
// enough, else the largest ones. Returns whether what was freed is that, or all that was cached.
static int made_room(const struct ct_stream_groups *g, uint64_t wanted) {
    return g->refused.freed_count && g->refused.freed_count <= CT_FREED_SEGMENTS &&
           g->refused.freed_in_order && g->refused.freed_bytes >= wanted &&
           g->refused.freed_bytes - g->refused.last_bytes < wanted;
}

static int was_freed(const struct ct_stream_groups *g, uint32_t segment, uint32_t among) {
    for (uint32_t i = 0; i < g->refused.freed_count && i < among; i++)
        if (g->refused.freed[i] == segment)
            return 1;
    return 0;
}

// Whether PyTorch freed for the request alone: the driver refused a second time before all that was
// cached was freed, or whole segments are still cached.
static int made_room_alone(const struct ct_stream_groups *g, uint64_t wanted) {
    return made_room(g, wanted) && (g->refused.refusals > 1 || g->cached);
}

// Whether PyTorch freed all that was cached because its stream's unsplit blocks did not make room.
static int freed_all_at_once(const struct ct_stream_groups *g, uint64_t wanted) {
    return g->refused.refusals == 1 && g->refused.freed_count && !g->cached &&
           !made_room(g, wanted) && g->refused.may_be_available <= CT_FREED_SEGMENTS;
}

// What would have been freed instead, or as well, or alone if it were of the request's stream.
static int was_left_out(const struct ct_stream_groups *g, const struct ct_refused_range *r,
                        uint64_t wanted) {
    const uint64_t max_split = g->settings.max_split;
    if (max_split == UINT64_MAX || !g->refused.freed_count || g->refused.may_be_garbage ||
        r->size < max_split)
        return 0;
    if (freed_all_at_once(g, wanted))
        return r->size >= wanted || !was_freed(g, r->segment, g->refused.may_be_available);
    if (!made_room(g, wanted))
        return r->size >= wanted;
    if (was_freed(g, r->segment, CT_FREED_SEGMENTS))
        return 0;
    if (g->refused.freed_count == 1)
        return r->size >= wanted && r->size < g->refused.last_bytes;
    return r->size > g->refused.last_bytes;
}

// Whether empty_cache() may have freed a segment before the request looked for a free block: no
// call to the driver had failed, and nothing is left in the cache.
static int may_be_emptied(const struct ct_stream_groups *g, uint32_t segment) {
    return !g->refused.bytes && !g->cached &&
           (g->refused.freed_count > CT_FREED_SEGMENTS || was_freed(g, segment, CT_FREED_SEGMENTS));
}

// A request got a new segment after the driver had refused it one.
static void note_refused(struct ct_stream_groups *g, uint32_t segment, uint64_t bytes) {
    const uint64_t max_split = g->settings.max_split;
    const uint64_t wanted = bytes < max_split ? max_split : bytes;
    for (uint32_t i = 0; i < g->refused.count; i++) {
        const struct ct_refused_range *r = &g->refused.list[i];
        if (r->segment != segment && g->segments[r->segment].small == g->segments[segment].small &&
            !may_be_emptied(g, r->segment) &&
            ((r->size >= bytes && is_eligible(g, r->size, bytes)) || was_left_out(g, r, wanted))) {
            g->passed_over++;
            note_passed_over(g, segment, r->segment);
        }
    }
    // (A small request has no such blocks in its pool.)
    if (max_split == UINT64_MAX || g->segments[segment].small || g->refused.may_be_garbage ||
        !made_room_alone(g, wanted))
        return;
    for (uint32_t i = 0; i < g->refused.freed_count; i++)
        if (g->refused.freed[i] != segment && !g->segments[g->refused.freed[i]].small)
            note_surely(g, segment, g->refused.freed[i]);
}

// Lists the free ranges of a class, from the smallest that a request can have passed over.
static void list_ranges(struct ct_stream_groups *g, int small, uint64_t least, uint32_t most) {
    const struct ct_tree_nodes sizes = size_nodes(g);
    const struct ct_block_tree *tree = &g->by_size[small];
    for (uint32_t at = ct_block_tree_find(tree, &sizes, least, 0);
         at != CT_NO_BLOCK && g->refused.count < most; at = ct_block_tree_next(tree, &sizes, at))
        g->refused.list[g->refused.count++] =
            (struct ct_refused_range){g->ranges[at].by_size.size, g->ranges[at].segment};
}

void ct_stream_groups_note_freed(struct ct_stream_groups *g, uint32_t thread, uint64_t key,
                                 uint64_t bytes) {
    const uint64_t *known = ct_map_find(&g->by_key, key);
    if (!g->refused.open || g->refused.thread != thread || !known)
        return;
    if (g->refused.refusals > 1)
        return; // what a first release was not enough for
    if (g->refused.freed_count < CT_FREED_SEGMENTS)
        g->refused.freed[g->refused.freed_count] = (uint32_t)*known;
    g->refused.freed_in_order &= bytes >= g->settings.max_split &&
                                 (!g->refused.freed_count || bytes <= g->refused.last_bytes);
    g->refused.freed_count++;
    g->refused.freed_bytes += bytes;
    if (g->refused.freed_in_order && g->refused.freed_bytes < g->refused.bytes)
        g->refused.may_be_available = g->refused.freed_count;
    g->refused.last_bytes = bytes;
}

static int open_refused(struct ct_stream_groups *g, uint32_t thread) {
    if (g->refused.open && g->refused.thread == thread)
        return 0; // the repeated call: some was freed since
    g->refused.open = 1;
    g->refused.thread = thread;
    g->refused.count = g->refused.freed_count = 0;
    g->refused.freed_bytes = g->refused.last_bytes = 0;
    g->refused.freed_in_order = 1;
    g->refused.may_be_garbage = 0;
    g->refused.bytes = g->refused.refusals = g->refused.may_be_available = 0;
    return 1;
}

void ct_stream_groups_note_refusal(struct ct_stream_groups *g, uint32_t thread, uint64_t bytes) {
    uint64_t least = bytes > CT_ALLOCATOR_MIN_LARGE && bytes != g->settings.large_segment
                         ? bytes - CT_ALLOCATOR_ROUND_LARGE
                         : 0;
    if (least > g->settings.max_split)
        least = g->settings.max_split;
    const int is_first = open_refused(g, thread);
    if (is_first || g->refused.bytes) { // not after a limit of PyTorch's own
        g->refused.bytes = bytes;
        g->refused.refusals++;
    }
    if (is_first)
        list_ranges(g, bytes == CT_ALLOCATOR_SMALL_SEGMENT, least, CT_REFUSED_RANGES);
}

void ct_stream_groups_note_release(struct ct_stream_groups *g, uint32_t thread,
                                   int may_be_garbage) {
    if (!open_refused(g, thread))
        return;
    g->refused.may_be_garbage = may_be_garbage;
    list_ranges(g, 1, 0, CT_REFUSED_RANGES / 2);
    list_ranges(g, 0, 0, CT_REFUSED_RANGES);
}

void ct_stream_groups_note_oom(struct ct_stream_groups *g, uint32_t thread) {
    if (g->refused.thread == thread)
        g->refused.open = 0;
}

// The index of a segment, which is new if it was not known. CT_NO_BLOCK: there are too many.
static uint32_t find_segment(struct ct_stream_groups *g, const struct ct_block_segment *s,
                             int *is_new) {
    const uint64_t *known = ct_map_find(&g->by_key, s->key);
    *is_new = !known;
    if (known)
        return (uint32_t)*known;
    if (g->segment_count == MOST_SEGMENTS)
        return CT_NO_BLOCK;
    CT_HEAP_GROW(g->segments, g->segment_count, g->segment_room);
    g->segments[g->segment_count] = (struct ct_grouped_segment){
        .key = s->key, .bytes = s->bytes, .small = s->bytes == CT_ALLOCATOR_SMALL_SEGMENT};
    *ct_map_add(&g->by_key, s->key) = g->segment_count;
    return g->segment_count++;
}

void ct_stream_groups_note_alloc(struct ct_stream_groups *g, const struct ct_block_segment *s,
                                 uint32_t thread, uint64_t address, uint64_t bytes) {
    int is_new;
    const uint32_t segment = find_segment(g, s, &is_new);
    if (segment == CT_NO_BLOCK || address + bytes < address)
        return;
    if (is_new) {
        if (g->refused.open && g->refused.thread == thread) {
            note_refused(g, segment, bytes);
        }
        note_choice(g, segment, bytes, CT_NO_BLOCK);
        cut(g, s->start, s->start + s->bytes);
        add_range(g, segment, s->start, s->start + s->bytes);
    } else {
        const uint32_t at = range_before(g, address + 1);
        if (at != CT_NO_BLOCK && range_end(&g->ranges[at]) >= address + bytes &&
            g->ranges[at].segment == segment)
            note_choice(g, segment, bytes, at);
    }
    cut(g, address, address + bytes);
    ct_stream_groups_note_oom(g, thread);
}

void ct_stream_groups_note_free(struct ct_stream_groups *g, const struct ct_block_segment *s,
                                uint64_t address, uint64_t bytes) {
    const uint64_t *known = ct_map_find(&g->by_key, s->key);
    uint64_t start = address, end = address + bytes;
    if (!known || end < start)
        return;
    const uint32_t segment = (uint32_t)*known;
    cut(g, start, end);
    uint32_t at = range_before(g, start);
    if (at != CT_NO_BLOCK && range_end(&g->ranges[at]) == start &&
        g->ranges[at].segment == segment) {
        start = g->ranges[at].by_size.address;
        remove_range(g, at);
    }
    at = range_before(g, end + 1);
    if (at != CT_NO_BLOCK && g->ranges[at].by_size.address == end &&
        g->ranges[at].segment == segment) {
        end = range_end(&g->ranges[at]);
        remove_range(g, at);
    }
    add_range(g, segment, start, end);
}

void ct_stream_groups_note_end(struct ct_stream_groups *g, uint64_t start, uint64_t bytes) {
    if (start + bytes >= start)
        cut(g, start, start + bytes);
}

// ---- groups -------------------------------------------------------------------------------------

static int compare_links(const void *a, const void *b) {
    const struct ct_segment_pair *x = a, *y = b;
    if (x->segment != y->segment)
        return x->segment < y->segment ? -1 : 1;
    return (x->other > y->other) - (x->other < y->other);
}

// Segments and their links, each link from both sides, while groups are chosen.
struct choice {
    struct ct_stream_groups *g;
    struct ct_segment_pair *links;
    size_t count;
    size_t *first;   // the first link of each segment, and the end
    uint32_t *root;  // of each segment: one of those that are surely of the same stream
    uint32_t *begin; // of each root: its first segment
    uint32_t *next;  // of each segment: the next one of its root, or CT_NO_BLOCK
    double against;
    uint32_t stream[2][CT_STREAM_GROUPS_MOST]; // recorded of the first member of each group
    uint32_t members[2][CT_STREAM_GROUPS_MOST];
};

// Takes the pairs over.
static void list_links(struct choice *c) {
    struct ct_stream_groups *g = c->g;
    const size_t pairs = g->pair_count;
    ct_map_free(&g->pair_index);
    c->links = ct_heap_resize(g->pairs, pairs * 2, sizeof *c->links);
    c->count = pairs * 2;
    for (size_t i = 0; i < pairs; i++) {
        c->links[pairs + i] = c->links[i];
        c->links[pairs + i].segment = c->links[i].other;
        c->links[pairs + i].other = c->links[i].segment;
    }
    g->pairs = NULL;
    g->pair_count = g->pair_room = 0;
    qsort(c->links, c->count, sizeof *c->links, compare_links);
    c->first = ct_heap_alloc_zeroed((size_t)g->segment_count + 1, sizeof *c->first);
    size_t at = 0;
    for (uint32_t i = 0; i <= g->segment_count; i++) {
        while (at < c->count && c->links[at].segment < i)
            at++;
        c->first[i] = at;
    }
}

static uint32_t root_of(const struct choice *c, uint32_t segment) {
    while (c->root[segment] != segment)
        segment = c->root[segment] = c->root[c->root[segment]];
    return segment;
}

// Segments that are surely of one stream are placed together.
static void join_surely(struct choice *c) {
    const uint32_t count = c->g->segment_count;
    c->root = ct_heap_alloc_zeroed((size_t)count + 1, sizeof *c->root);
    c->begin = ct_heap_alloc_zeroed((size_t)count + 1, sizeof *c->begin);
    c->next = ct_heap_alloc_zeroed((size_t)count + 1, sizeof *c->next);
    for (uint32_t i = 0; i < count; i++) {
        c->root[i] = i;
        c->begin[i] = CT_NO_BLOCK;
    }
    for (const struct ct_segment_pair *l = c->links; l < c->links + c->count; l++)
        if (l->surely)
            c->root[root_of(c, l->segment)] = root_of(c, l->other);
    for (uint32_t i = count; i-- > 0;) {
        uint32_t *begin = &c->begin[root_of(c, i)];
        c->next[i] = *begin;
        *begin = i;
    }
}

// How much more likely it is that two segments are of one stream than of two, as a logarithm: in
// two streams, a free block is as likely to be better as to be worse. In one stream, a better one
// is passed over only while it waits for another stream. Where nothing shows that blocks wait, that
// counts as impossible.
#define FOR_KEPT 0.67
#define AGAINST_IF_WAITING 3.2
#define AGAINST 1e6

// The group that segments of one stream fit best, from the first of them, or a new one. Segments
// without a group do not count.
static uint32_t choose_group(const struct choice *c, uint32_t begin) {
    const struct ct_stream_groups *g = c->g;
    const int small = g->segments[begin].small;
    const uint32_t count = g->groups[small], *members = c->members[small];
    double sums[CT_STREAM_GROUPS_MOST] = {0};
    for (uint32_t i = begin; i != CT_NO_BLOCK; i = c->next[i]) {
        for (const struct ct_segment_pair *l = c->links + c->first[i];
             l < c->links + c->first[i + 1]; l++)
            if (g->segments[l->other].group < count)
                sums[g->segments[l->other].group] +=
                    FOR_KEPT * l->kept - c->against * l->passed_over;
        for (uint32_t k = 0; k < count; k++)
            sums[k] -=
                ct_recorded_streams_against(&g->recorded, g->segments[i].key, c->stream[small][k]);
    }
    uint32_t best = count;
    for (uint32_t i = 0; i < count; i++)
        if (members[i] && sums[i] >= 0 &&
            (best == count || sums[i] > sums[best] ||
             (sums[i] == sums[best] && members[i] > members[best])))
            best = i;
    return best;
}

enum { NO_GROUP = CT_STREAM_GROUPS_MOST };

static void move_to(struct choice *c, uint32_t segment, uint32_t group) {
    struct ct_grouped_segment *s = &c->g->segments[segment];
    if (s->group != NO_GROUP)
        c->members[s->small][s->group]--;
    s->group = (uint16_t)group;
    if (group != NO_GROUP && !c->members[s->small][group]++)
        c->stream[s->small][group] = ct_recorded_streams_find(&c->g->recorded, s->key);
}

static void move_all_to(struct choice *c, uint32_t begin, uint32_t group) {
    for (uint32_t i = begin; i != CT_NO_BLOCK; i = c->next[i])
        move_to(c, i, group);
}

// Puts each segment into the best group, in the order in which they were allocated. Returns -1 if
// there are too many groups.
static int place_all(struct choice *c) {
    for (uint32_t i = 0; i < c->g->segment_count; i++) {
        const int small = c->g->segments[i].small;
        if (c->begin[root_of(c, i)] != i)
            continue;
        move_all_to(c, i, NO_GROUP);
        const uint32_t group = choose_group(c, i);
        if (group == CT_STREAM_GROUPS_MOST - 1)
            return -1;
        if (group == c->g->groups[small])
            c->g->groups[small]++;
        move_all_to(c, i, group);
    }
    return 0;
}

// Numbers the groups that have members from 0 on.
static void renumber(struct choice *c) {
    uint32_t number[2][CT_STREAM_GROUPS_MOST];
    for (int small = 0; small < 2; small++) {
        uint32_t count = 0;
        for (uint32_t i = 0; i < c->g->groups[small]; i++) {
            number[small][i] = count;
            c->members[small][count] = c->members[small][i];
            count += c->members[small][i] != 0;
        }
        c->g->groups[small] = count;
    }
    for (uint32_t i = 0; i < c->g->segment_count; i++) {
        struct ct_grouped_segment *s = &c->g->segments[i];
        s->group = (uint16_t)number[s->small][s->group];
    }
}

// What makes a segment surely one of its group: as many cases in which it was not passed over.
#define SURE 4.0
enum { MOST_APART = 1 << 16 };

// Sets segments apart of which little shows that they are of their group. Where no block was ever
// passed over, nothing shows a second stream.
static void set_apart(const struct choice *c) {
    struct ct_stream_groups *g = c->g;
    uint32_t count[2] = {0};
    for (uint32_t i = 0; i < g->segment_count; i++) {
        struct ct_grouped_segment *s = &g->segments[i];
        double sum = 0;
        for (const struct ct_segment_pair *l = c->links + c->first[i];
             l < c->links + c->first[i + 1]; l++)
            if (g->segments[l->other].group == s->group)
                sum += l->surely ? SURE : FOR_KEPT * l->kept;
        s->apart = s->group;
        if (g->passed_over && sum < SURE && count[s->small] < MOST_APART)
            s->apart = g->groups[s->small] + count[s->small]++;
    }
}

static void count_contradictions(const struct choice *c) {
    struct ct_stream_groups *g = c->g;
    g->contradicted = 0;
    for (const struct ct_segment_pair *l = c->links; l < c->links + c->count; l++)
        if (l->segment < l->other && g->segments[l->segment].group == g->segments[l->other].group)
            g->contradicted += l->passed_over;
}

// The first placement knows only the segments before each one; the next ones know all.
enum { PLACEMENTS = 6 };

int ct_stream_groups_finish(struct ct_stream_groups *g) {
    struct choice c = {.g = g, .against = g->waited ? AGAINST_IF_WAITING : AGAINST};
    int status = 0;
    ct_recorded_streams_finish(&g->recorded, AGAINST);
    list_links(&c);
    join_surely(&c);
    for (uint32_t i = 0; i < g->segment_count; i++)
        g->segments[i].group = NO_GROUP;
    for (int n = 0; n < PLACEMENTS && !status; n++)
        status = place_all(&c);
    if (!status) {
        renumber(&c);
        set_apart(&c);
        count_contradictions(&c);
    }
    free(c.links);
    free(c.first);
    free(c.root);
    free(c.begin);
    free(c.next);
    return status;
}

const struct ct_grouped_segment *ct_stream_groups_find(const struct ct_stream_groups *g,
                                                       uint64_t key) {
    const uint64_t *known = ct_map_find(&g->by_key, key);
    return known ? &g->segments[*known] : NULL;
}

void ct_stream_groups_free(struct ct_stream_groups *g) {
    free(g->segments);
    free(g->ranges);
    ct_map_free(&g->by_key);
    free(g->pairs);
    ct_map_free(&g->pair_index);
    ct_recorded_streams_free(&g->recorded);
}
