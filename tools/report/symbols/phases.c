// SPDX-License-Identifier: Apache-2.0
// What a node of the call tree says depends on its caller's and on the rows that fit its frame.
// Callers have lower numbers, so that one pass over the nodes answers all questions.
#include "symbols/phases.h"

#include <cutrace/format/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "base/utf8.h"

// Rows of the user's come before those of the program.
static const struct ct_phase_rule *get_rule(const struct ct_phases *p, size_t i) {
    size_t count;
    const struct ct_phase_rule *own = ct_phase_rules_list(&count);
    const size_t users = p->rules ? p->rules->count : 0;
    if (i < users)
        return &p->rules->list[i];
    return i - users < count ? &own[i - users] : NULL;
}

void ct_phases_init(struct ct_phases *p, const struct ct_definitions *definitions,
                    const struct ct_phase_rules *rules) {
    *p = (struct ct_phases){.definitions = definitions, .rules = rules};
    CT_HEAP_GROW(p->fits, p->fits_count, p->fits_room);
    p->fits[p->fits_count++] = NULL; // the empty list
}

void ct_phases_free(struct ct_phases *p) {
    free(p->nodes);
    free(p->fits);
    free(p->of_path);
    free(p->of_frame);
    *p = (struct ct_phases){0};
}

// ---- which rows fit a frame ---------------------------------------------------------------------

static void add_fit(struct ct_phases *p, const struct ct_phase_rule *rule) {
    CT_HEAP_GROW(p->fits, p->fits_count, p->fits_room);
    p->fits[p->fits_count++] = rule;
}

// A list ends with NULL; an empty one is not stored.
#define CT_NO_FITS UINT32_MAX

static uint32_t end_list(struct ct_phases *p, size_t from) {
    if (p->fits_count == from)
        return CT_NO_FITS;
    add_fit(p, NULL);
    return (uint32_t)from;
}

// The rows whose file is that of a path (a string).
static uint32_t find_rules_of_path(struct ct_phases *p, uint32_t path) {
    CT_HEAP_EXTEND(p->of_path, p->of_path_count, p->definitions->string_count);
    if (p->of_path[path])
        return p->of_path[path];
    const struct ct_string *s = &p->definitions->strings[path];
    const size_t from = p->fits_count;
    const struct ct_phase_rule *rule;
    for (size_t i = 0; (rule = get_rule(p, i)); i++)
        if (ct_phase_rule_fits_file(rule, s->at, s->length))
            add_fit(p, rule);
    return p->of_path[path] = end_list(p, from);
}

// The name of a function of Python without its class: the part after the last dot.
static struct ct_string get_own_name(struct ct_string name) {
    const char *dot = name.length ? memrchr(name.at, '.', name.length) : NULL;
    if (dot) {
        name.length -= (uint32_t)(dot + 1 - name.at);
        name.at = dot + 1;
    }
    return name;
}

// Rows for threads that have no stack: their file is "thread".
static uint32_t find_rules_of_thread(struct ct_phases *p, struct ct_string name) {
    const size_t from = p->fits_count;
    const struct ct_phase_rule *rule;
    for (size_t i = 0; (rule = get_rule(p, i)); i++)
        if (strcmp(rule->file, "thread") == 0 &&
            ct_phase_rule_fits_function(rule, name.at, name.length))
            add_fit(p, rule);
    return end_list(p, from);
}

static uint32_t find_rules_by_file(struct ct_phases *p, const struct ct_frame *f) {
    const struct ct_definitions *n = p->definitions;
    const int python = f->kind == CT_FRAME_PYTHON;
    const uint32_t path = python ? f->file : n->modules[f->module].path;
    const struct ct_string own = n->strings[f->function];
    const struct ct_string name = python ? get_own_name(own) : own;
    uint32_t at = path ? find_rules_of_path(p, path) : CT_NO_FITS;
    const size_t from = p->fits_count;
    for (; at != CT_NO_FITS && p->fits[at]; at++)
        if (ct_phase_rule_fits_function(p->fits[at], name.at, name.length))
            add_fit(p, p->fits[at]);
    return end_list(p, from);
}

static uint32_t find_rules(struct ct_phases *p, uint32_t frame) {
    const struct ct_definitions *n = p->definitions;
    const struct ct_frame *f = &n->frames[frame];
    CT_HEAP_EXTEND(p->of_frame, p->of_frame_count, n->frame_count);
    if (p->of_frame[frame])
        return p->of_frame[frame];
    uint32_t found = CT_NO_FITS;
    if (f->kind == CT_FRAME_PYTHON || f->kind == CT_FRAME_NATIVE)
        found = find_rules_by_file(p, f);
    else if (f->kind == CT_FRAME_THREAD)
        found = find_rules_of_thread(p, n->strings[f->function]);
    return p->of_frame[frame] = found;
}

// ---- nodes --------------------------------------------------------------------------------------

// What a node says: what its caller says, changed by the first row for a phase, and then by the
// first row for a component, that fit its frame.
static struct ct_phase_of_node read_node(struct ct_phases *p, uint32_t node) {
    const struct ct_call_tree_node *of = &p->definitions->nodes[node];
    CT_ASSERT(of->parent < node);
    struct ct_phase_of_node m = p->nodes[of->parent];
    const struct ct_frame *frame = &p->definitions->frames[of->frame];
    m.has_python |= frame->kind == CT_FRAME_PYTHON;
    m.is_cut |= frame->kind == CT_FRAME_END && frame->line == CT_STACK_DEEPER;
    const uint32_t list = find_rules(p, of->frame);
    if (list == CT_NO_FITS)
        return m;
    for (uint32_t i = list; p->fits[i]; i++) {
        const struct ct_phase_rule *rule = p->fits[i];
        if (rule->is_component || !ct_phase_rule_leads_from(rule, (enum ct_phase)m.phase))
            continue;
        m.phase = (uint8_t)rule->phase;
        m.framework = rule->framework ? (uint8_t)rule->framework : m.framework;
        m.node = node;
        break;
    }
    for (uint32_t i = list; p->fits[i]; i++) {
        const struct ct_phase_rule *rule = p->fits[i];
        if (!rule->is_component || (rule->below != CT_PHASE_ANY && rule->below != m.phase))
            continue;
        m.component = (uint8_t)rule->component;
        break;
    }
    return m;
}

static void read_nodes(struct ct_phases *p) {
    const struct ct_definitions *n = p->definitions;
    if (p->node_count >= n->node_count)
        return;
    p->nodes = ct_heap_resize(p->nodes, n->node_count, sizeof *p->nodes);
    if (!p->node_count)
        p->nodes[p->node_count++] = (struct ct_phase_of_node){.component = CT_COMPONENT_BY_PHASE};
    for (; p->node_count < n->node_count; p->node_count++)
        p->nodes[p->node_count] = read_node(p, (uint32_t)p->node_count);
}

const struct ct_phase_of_node *ct_phases_get_node(struct ct_phases *p, uint32_t stack) {
    read_nodes(p);
    return &p->nodes[p->definitions->stacks[stack]];
}

struct ct_phase_at ct_phases_find(struct ct_phases *p, uint32_t stack) {
    const struct ct_phase_of_node *m = ct_phases_get_node(p, stack);
    return (struct ct_phase_at){.phase = (enum ct_phase)m->phase,
                                .framework = (enum ct_framework)m->framework,
                                .node = m->node};
}

enum ct_component ct_phases_find_component(struct ct_phases *p, uint32_t stack) {
    const struct ct_phase_of_node *m = ct_phases_get_node(p, stack);
    return m->component == CT_COMPONENT_BY_PHASE ? ct_phase_component((enum ct_phase)m->phase)
                                                 : (enum ct_component)m->component;
}

int ct_phases_has_python(struct ct_phases *p, uint32_t stack) {
    return ct_phases_get_node(p, stack)->has_python;
}

int ct_phases_is_cut(struct ct_phases *p, uint32_t stack) {
    return ct_phases_get_node(p, stack)->is_cut;
}

int ct_phases_has_any(struct ct_phases *p) {
    read_nodes(p);
    for (size_t i = 0; i < p->node_count; i++)
        if (p->nodes[i].phase != CT_PHASE_UNKNOWN)
            return 1;
    return 0;
}

struct ct_phase_title ct_phases_title(const struct ct_phase_at *at) {
    struct ct_phase_title t;
    char name[80];
    if (at->phase == CT_PHASE_UNKNOWN)
        (void)snprintf(t.text, sizeof t.text, "-");
    else if (at->phase == CT_PHASE_RANGE) {
        ct_utf8_sanitize(name, sizeof name, at->range.at, at->range.length);
        (void)snprintf(t.text, sizeof t.text, "range \"%s\"", name);
    } else
        (void)snprintf(t.text, sizeof t.text, "%s%s%s", ct_framework_title(at->framework),
                       at->framework ? " " : "", ct_phase_title(at->phase));
    return t;
}

struct ct_phase_title ct_phases_title_of_event(const struct ct_phase_at *at) {
    struct ct_phase_title t = ct_phases_title(at);
    char name[80];
    const size_t n = strlen(t.text);
    if (at->phase == CT_PHASE_UNKNOWN || at->phase == CT_PHASE_RANGE || !at->range.length)
        return t;
    ct_utf8_sanitize(name, sizeof name, at->range.at, at->range.length);
    (void)snprintf(t.text + n, sizeof t.text - n, ", in range \"%s\"", name);
    return t;
}

int ct_phases_equal(const struct ct_phase_at *a, const struct ct_phase_at *b) {
    return a->phase == b->phase && a->framework == b->framework &&
           (a->phase != CT_PHASE_RANGE || (a->range.length == b->range.length &&
                                           memcmp(a->range.at, b->range.at, a->range.length) == 0));
}
