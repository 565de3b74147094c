// SPDX-License-Identifier: Apache-2.0
// Rows are nested at most CT_SITE_TREE_LEVELS deep, and so are the functions here.
#include "views/top_tree.h"

#include "base/utf8.h"
#include "print/print.h"
#include "sites/site_tree.h"

// Columns of figures, with the number of allocations and without.
enum { ROWS = 20, INDENT = 3, WIDE = 33, NARROW = 23, FIT_WIDE = 100 };

struct tree_view {
    struct ct_view *v;
    struct ct_site_tree tree;
    struct ct_json *j;
    int counts; // there is room for the number of allocations
    // The lines to the left of a row: INDENT columns a level, up to 3 bytes each.
    char lines[CT_SITE_TREE_LEVELS * INDENT * 3 + 1];
    size_t length;
};

// What a row does not show: children that are too small or too deep.
struct more {
    uint64_t nodes, bytes, count;
};

static const struct ct_site_tree_node *get_child(const struct ct_site_tree *t,
                                                 const struct ct_site_tree_node *n, uint32_t i) {
    return &t->nodes[t->order[n->first_child + i]];
}

static struct more find_more(const struct ct_site_tree *t, const struct ct_site_tree_node *n) {
    struct more m = {0};
    for (uint32_t i = 0; i < n->children; i++) {
        const struct ct_site_tree_node *child = get_child(t, n, i);
        if (child->shown)
            continue;
        m.nodes++;
        m.bytes += child->bytes;
        m.count += child->count;
    }
    return m;
}

// ---- text ---------------------------------------------------------------------------------------

static const char *draw(const struct ct_view *v, int last, int branch) {
    static const char *const utf8[2][2] = {{"│  ", "   "}, {"├─ ", "└─ "}};
    static const char *const ascii[2][2] = {{"|  ", "   "}, {"|- ", "`- "}};
    return (v->terminal->utf8 ? utf8 : ascii)[branch][last];
}

// Which frames of a row are written; those left out are counted.
enum { ALL_FRAMES, ENDS, LAST };

static size_t write_some(const struct ct_site_tree *t, uint32_t head, int which, char *to,
                         size_t size) {
    const uint32_t end = ct_site_tree_row_end(t, head);
    size_t frames = 1, i = 0, at = 0;
    for (uint32_t n = head; n != end; n = t->order[t->nodes[n].first_child])
        frames++;
    const size_t first = which == LAST ? 0 : 1; // the first one that is left out
    for (uint32_t n = head; at < size; n = t->order[t->nodes[n].first_child], i++) {
        if (which == ALL_FRAMES || n == end || i < first)
            at += (size_t)snprintf(to + at, size - at, "%s%s", i ? " > " : "", t->nodes[n].label);
        else if (i == first)
            at += (size_t)snprintf(to + at, size - at, "%s(%zu more)", i ? " > " : "",
                                   frames - 1 - first);
        if (n == end)
            break;
    }
    return frames;
}

// The frames of a row, outermost first: all of a short one, else its ends, or where the terminal is
// too narrow for these the last one, which says the most.
static void write_frames(const struct tree_view *p, uint32_t head, size_t column, char *to,
                         size_t size) {
    const struct ct_terminal *terminal = p->v->terminal;
    for (int which = ALL_FRAMES; which <= LAST; which++) {
        const size_t frames = write_some(&p->tree, head, which, to, size);
        ct_utf8_sanitize(to, size, to, strlen(to)); // it may be cut inside a character
        if (frames == 1)
            return;
        if ((which == ENDS || frames <= 3) &&
            (!terminal->is_terminal || column + ct_utf8_columns(to) <= terminal->width))
            return;
    }
}

// The column in which the text of a row begins.
static size_t find_column(const struct tree_view *p) {
    return (p->counts ? WIDE : NARROW) + ct_utf8_columns(p->lines) + INDENT;
}

static void print_row(struct tree_view *p, struct ct_human_text size, uint64_t bytes,
                      uint64_t count, const char *text, int last) {
    struct ct_view *v = p->v;
    fprintf(v->out, "%12s %8s ", size.text, ct_human_percent(bytes, p->tree.nodes[0].bytes).text);
    if (p->counts)
        fprintf(v->out, "%9s ", ct_human_count(count).text);
    fprintf(v->out, " %s%s", p->lines, draw(v, last, 1));
    ct_print_label(v, text, find_column(p));
    putc('\n', v->out);
}

static void print_children(struct tree_view *p, uint32_t node);

// Whether rows below a node are shown.
static int has_rows(const struct ct_site_tree *t, uint32_t node) {
    const struct ct_site_tree_node *n = &t->nodes[node];
    return n->own_count || n->own_bytes || (n->children && get_child(t, n, 0)->shown);
}

static void print_child(struct tree_view *p, uint32_t child, struct ct_human_text size, int last) {
    char text[1000];
    const struct ct_site_tree_node *n = &p->tree.nodes[child];
    const uint32_t end = ct_site_tree_row_end(&p->tree, child);
    const size_t length = p->length;
    write_frames(p, child, find_column(p), text, sizeof text);
    if (!has_rows(&p->tree, end)) // its callees are too small
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), " > ...");
    print_row(p, size, n->bytes, n->count, text, last);
    if (!has_rows(&p->tree, end))
        return;
    p->length +=
        (size_t)snprintf(p->lines + length, sizeof p->lines - length, "%s", draw(p->v, last, 0));
    print_children(p, end);
    p->length = length;
    p->lines[length] = 0;
}

// Prints the rows below a node: its children, what it holds itself, and the rest, which add up to
// what is shown of the node.
static void print_children(struct tree_view *p, uint32_t node) {
    const struct ct_site_tree_node *n = &p->tree.nodes[node];
    const struct more more = find_more(&p->tree, n);
    const size_t shown = n->children - more.nodes,
                 own = (n->own_count || n->own_bytes) && n->children;
    const size_t rows = shown + own + (more.nodes != 0);
    uint64_t *bytes = ct_heap_alloc_zeroed(rows, sizeof *bytes);
    struct ct_human_text *sizes = ct_heap_resize(NULL, rows, sizeof *sizes);
    char text[80];
    for (size_t i = 0; i < shown; i++) // the largest, so they come first
        bytes[i] = get_child(&p->tree, n, (uint32_t)i)->bytes;
    if (own)
        bytes[shown] = n->own_bytes;
    if (more.nodes)
        bytes[rows - 1] = more.bytes;
    ct_human_bytes_of_parts(sizes, bytes, rows, n->bytes, p->v->options->units,
                            more.nodes ? rows - 1 : rows);
    for (size_t i = 0; i < shown; i++)
        print_child(p, p->tree.order[n->first_child + i], sizes[i], i + 1 == rows);
    if (own)
        print_row(p, sizes[shown], n->own_bytes, n->own_count, "(itself)", shown + 1 == rows);
    (void)snprintf(text, sizeof text, "%s more%s", ct_human_count(more.nodes).text,
                   more.nodes && n->level >= CT_SITE_TREE_LEVELS ? ", deeper" : "");
    if (more.nodes)
        print_row(p, sizes[rows - 1], more.bytes, more.count, text, 1);
    free(bytes);
    free(sizes);
}

void ct_top_tree_print(struct ct_view *v, const struct ct_live_totals *held) {
    struct tree_view p = {.v = v};
    size_t rows = 0, shown = 0;
    p.counts = !v->terminal->is_terminal || v->terminal->width >= FIT_WIDE;
    ct_site_tree_build(&p.tree, v->sites, held->holdings, held->holding_count,
                       v->options->top ? v->options->top : ROWS);
    fprintf(v->out, "%s%12s %8s %s callers, outermost first%s\n", v->terminal->dim, "bytes",
            "share", p.counts ? "    count " : "", v->terminal->reset);
    print_children(&p, 0);
    for (size_t i = 1; i < p.tree.count; i++) {
        rows += p.tree.nodes[i].is_head;
        shown += p.tree.nodes[i].shown;
    }
    if (rows > shown)
        fprintf(v->out, "%zu of %zu rows, the largest; --top %zu shows all\n", shown, rows, rows);
    ct_site_tree_free(&p.tree);
}

// ---- JSON ---------------------------------------------------------------------------------------

static void add_frames(struct tree_view *p, uint32_t head, uint32_t end) {
    const struct ct_site_tree *t = &p->tree;
    ct_json_open(p->j, "frames", '[');
    for (uint32_t n = head; n; n = t->order[t->nodes[n].first_child]) {
        ct_json_text(p->j, NULL, t->nodes[n].label);
        if (n == end)
            break;
    }
    ct_json_close(p->j, ']');
}

static void add_row(struct tree_view *p, const char *key, uint32_t head) {
    const uint32_t end = ct_site_tree_row_end(&p->tree, head);
    const struct ct_site_tree_node *n = &p->tree.nodes[end];
    const struct more more = find_more(&p->tree, n);
    ct_json_open(p->j, key, '{');
    add_frames(p, head, end);
    ct_json_number(p->j, "bytes", n->bytes);
    ct_json_number(p->j, "count", n->count);
    ct_json_number(p->j, "own_bytes", n->own_bytes);
    ct_json_number(p->j, "own_count", n->own_count);
    ct_json_number(p->j, "more_children", more.nodes);
    ct_json_number(p->j, "more_bytes", more.bytes);
    ct_json_number(p->j, "more_count", more.count);
    ct_json_open(p->j, "children", '[');
    for (uint32_t i = 0; i < n->children; i++)
        if (get_child(&p->tree, n, i)->shown)
            add_row(p, NULL, p->tree.order[n->first_child + i]);
    ct_json_close(p->j, ']');
    ct_json_close(p->j, '}');
}

void ct_top_tree_add(struct ct_view *v, struct ct_json *j, const struct ct_live_totals *held) {
    struct tree_view p = {.v = v, .j = j};
    ct_site_tree_build(&p.tree, v->sites, held->holdings, held->holding_count, v->options->top);
    add_row(&p, "tree", 0);
    ct_site_tree_free(&p.tree);
}
