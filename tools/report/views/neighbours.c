// SPDX-License-Identifier: Apache-2.0
#include "views/neighbours.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/heap.h"
#include "print/label.h"
#include "print/print.h"

// A growth by less than this part of the device is not worth a line.
#define SMALL_PART 50u
void ct_neighbour_growth(const struct ct_view *v, const struct ct_neighbour *p, uint64_t until_ns,
                         uint64_t capacity, char *to) {
    const struct ct_neighbour_rise rise = ct_neighbour_find_rise(p, until_ns);
    *to = 0;
    if (rise.bytes && rise.bytes >= capacity / SMALL_PART)
        (void)snprintf(to, CT_NEIGHBOUR_GROWTH, "grew by %s between %s and %s",
                       ct_label_size(v, rise.bytes).text, ct_label_time(v, rise.from_ns).text,
                       ct_label_time(v, rise.to_ns).text);
}

// ---- text ---------------------------------------------------------------------------------------

static void print_one(struct ct_view *v, const struct ct_neighbour *p, uint64_t t_ns,
                      uint64_t capacity) {
    char label[CT_NEIGHBOUR_LABEL], growth[CT_NEIGHBOUR_GROWTH];
    const uint64_t value = ct_neighbour_at(p, t_ns);
    ct_neighbour_label(&v->trace->definitions, p, label);
    ct_neighbour_growth(v, p, t_ns, capacity, growth);
    fprintf(v->out, "%s %s%s%s", label,
            CT_NEIGHBOUR_IS_BYTES(value) ? ct_label_size(v, value).text : "of unknown size",
            *growth ? ", " : "", growth);
}

static int has_unknown(const struct ct_neighbour *const *list, size_t count) {
    int any = 0;
    for (size_t i = 0; i < count; i++)
        any |= list[i]->whose == CT_NEIGHBOUR_UNKNOWN;
    return any;
}

void ct_neighbours_print(struct ct_view *v, const struct ct_neighbours *n, int device,
                         uint64_t t_ns, uint64_t capacity, const char *when, size_t most) {
    size_t count, shown = 0, others = 0;
    const struct ct_neighbour **list = ct_neighbours_list(n, device, t_ns, &count);
    for (size_t i = 0; i < count; i++)
        others += !ct_neighbour_is_self(list[i]);
    if (others)
        fprintf(v->out, "%s by NVML %s: ",
                has_unknown(list, count) ? "processes (one of them may be this one)"
                                         : "other processes",
                when);
    for (size_t i = 0; others && i < count && shown < most; i++) {
        if (ct_neighbour_is_self(list[i]))
            continue;
        fputs(shown++ ? "; " : "", v->out);
        print_one(v, list[i], t_ns, capacity);
    }
    if (others > shown)
        fprintf(v->out, "; %zu more%s", others - shown, n->left_out ? " or more" : "");
    fputs(others ? "\n" : "", v->out);
    free(list);
}

// ---- over time ----------------------------------------------------------------------------------

uint64_t ct_neighbour_most(const struct ct_neighbour *p) {
    uint64_t most = 0;
    for (size_t i = 0; i < p->count; i++)
        if (CT_NEIGHBOUR_IS_BYTES(p->points[i].value) && p->points[i].value > most)
            most = p->points[i].value;
    return most;
}

const struct ct_neighbour **ct_neighbours_most(const struct ct_neighbours *n, int device,
                                               size_t most, size_t *count) {
    const struct ct_neighbour **list = ct_heap_alloc_zeroed(most + 1, sizeof *list);
    *count = 0;
    for (size_t i = 0; i < n->count; i++) {
        const struct ct_neighbour *p = &n->list[i];
        size_t at = *count;
        if (p->device != device || ct_neighbour_is_self(p) || !ct_neighbour_most(p))
            continue;
        for (; at && ct_neighbour_most(list[at - 1]) < ct_neighbour_most(p); at--)
            list[at] = list[at - 1]; // (there is room for one more)
        list[at] = p;
        *count += *count < most;
    }
    return list;
}

// ---- JSON ---------------------------------------------------------------------------------------

static void add_value(struct ct_json *j, const char *key, const struct ct_neighbour *p,
                      uint64_t t_ns) {
    const uint64_t value = t_ns == UINT64_MAX ? CT_NEIGHBOUR_LOST : ct_neighbour_at(p, t_ns);
    ct_json_number_or_null(j, key, CT_NEIGHBOUR_IS_BYTES(value) || value == CT_NEIGHBOUR_GONE,
                           value == CT_NEIGHBOUR_GONE ? 0 : value);
}

static void add_one(struct ct_json *j, const struct ct_view *v, const struct ct_neighbour *p,
                    const struct ct_neighbour_moments *at) {
    const struct ct_neighbour_rise rise = ct_neighbour_find_rise(p, at->end_ns);
    const int has_process = p->process && p->process->pid_known;
    ct_json_open(j, NULL, '{');
    ct_json_number_or_null(j, "pid", p->pid != 0, p->pid);
    ct_document_add_string(j, "name", &v->trace->definitions.strings[p->name]);
    ct_json_text(j, "whose", ct_neighbour_whose_name(p->whose));
    ct_json_number_or_null(j, "traced_pid", has_process, has_process ? p->process->pid : 0);
    ct_json_number_or_null(j, "first_t_ns", p->count != 0, p->count ? p->points[0].t_ns : 0);
    add_value(j, "crossing_bytes", p, at->crossing_ns);
    add_value(j, "peak_bytes", p, at->peak_ns);
    add_value(j, "end_bytes", p, at->end_ns);
    ct_json_number_or_null(j, "rise_bytes", rise.bytes != 0, rise.bytes);
    ct_json_number_or_null(j, "rise_from_t_ns", rise.bytes != 0, rise.from_ns);
    ct_json_number_or_null(j, "rise_to_t_ns", rise.bytes != 0, rise.to_ns);
    ct_json_bool(j, "thinned", p->is_thinned);
    ct_json_close(j, '}');
}

void ct_neighbours_add_json(struct ct_json *j, const struct ct_view *v,
                            const struct ct_neighbours *n, int device,
                            const struct ct_neighbour_moments *at) {
    if (!ct_json_open_or_null(j, "processes", n->device[device].has_list, '['))
        return;
    for (size_t i = 0; i < n->count; i++)
        if (n->list[i].device == device)
            add_one(j, v, &n->list[i], at);
    ct_json_close(j, ']');
}
