// SPDX-License-Identifier: Apache-2.0
// What the text and the JSON of a diff ask of its rows.
#include "views/diff_shown.h"

static int is_equal_account(const struct ct_account *a, const struct ct_account *b) {
    int equal = a->known == b->known && a->capacity == b->capacity && a->tracked == b->tracked;
    for (unsigned i = 0; i < CT_ACCOUNT_ROWS && equal; i++)
        equal = a->row[i].bytes == b->row[i].bytes && a->row[i].count == b->row[i].count;
    return equal;
}

int ct_diff_is_equal(const struct ct_diff_device *d) {
    int equal = d->side[0].exists == d->side[1].exists && !d->facts.count &&
                is_equal_account(&d->side[0].account, &d->side[1].account);
    for (size_t i = 0; i < d->sites.count && equal; i++) {
        const struct ct_site_row *r = &d->sites.list[i];
        equal = r->sites[0] == r->sites[1] && r->bytes[0] == r->bytes[1] &&
                r->count[0] == r->count[1] && !ct_site_row_has_moved(r);
    }
    for (size_t i = 0; i < d->figure_count && equal; i++)
        equal = d->figure[i].known[0] == d->figure[i].known[1] &&
                d->figure[i].value[0] == d->figure[i].value[1];
    for (size_t i = 0; i < d->phases.count && equal; i++) {
        const struct ct_phase_share *s = d->phases.list[i].side;
        equal = s[0].bytes == s[1].bytes && s[0].count == s[1].count &&
                s[0].taken_bytes == s[1].taken_bytes && s[0].peak_bytes == s[1].peak_bytes;
    }
    return equal;
}

int ct_diff_knows_row(const struct ct_diff_device *d, int side, unsigned row) {
    return row < CT_ACCOUNT_TRACKED_ROWS || d->side[side].account.known;
}

int ct_diff_knows_phase(const struct ct_phase_share *s) {
    return s->bytes || !s->is_live_unknown;
}

int ct_diff_phase_rate(const struct ct_phase_share *s, uint64_t *per_hour) {
    *per_hour = s->is_rate_known ? s->bytes_per_hour : 0;
    return s->is_rate_known && (s->stretches || s->bytes);
}

uint64_t ct_diff_phase_oldest(const struct ct_phase_share *s) {
    return s->is_oldest_unknown ? 0 : s->oldest_ns;
}

int ct_diff_row_rate(const struct ct_diff_device *d, const struct ct_site_row *r, int side,
                     uint64_t *per_hour) {
    const struct ct_compared_device *of = &d->side[side];
    const size_t row = (size_t)(r - d->sites.list);
    *per_hour = 0;
    for (size_t i = 0; r->sites[side] && i < of->leaks.groups.count; i++) {
        uint64_t rate;
        if (d->sites.row[side][i] != row)
            continue;
        if (!ct_compared_device_rate(of, i, &rate))
            return 0;
        *per_hour += rate;
    }
    return r->sites[side] != 0;
}

uint64_t ct_diff_row_oldest(const struct ct_diff_device *d, const struct ct_site_row *r, int side) {
    const size_t row = (size_t)(r - d->sites.list);
    uint64_t oldest = 0;
    for (size_t i = 0; r->sites[side] && i < d->side[side].leaks.groups.count; i++) {
        const uint64_t t_ns = ct_compared_device_oldest(&d->side[side], i);
        if (d->sites.row[side][i] != row)
            continue;
        if (!t_ns)
            return 0;
        oldest = !oldest || t_ns < oldest ? t_ns : oldest;
    }
    return oldest;
}
