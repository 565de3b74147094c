// SPDX-License-Identifier: Apache-2.0
// Least squares. Neighbouring sizes depend on each other, so that the residuals of a wrong line
// follow each other, and the usual interval would be far too narrow: the number of points is
// reduced by their autocorrelation (Santer et al. 2000, J. Geophys. Res. 105, section 4).
#include "watch/trend.h"

enum { QUARTERS = 4 };
#define CERTAIN_NS 1e18 // more than 31 years is "never"

struct line {
    double t0, mean_t, mean_y; // seconds since t0
    double slope, sum_tt, sum_rr, sum_r1;
};

// Quantiles of Student's t for 97.5 %, by degrees of freedom rounded down.
static double quantile(double freedom) {
    static const struct {
        double freedom, t;
    } table[] = {{100, 1.984}, {50, 2.009}, {30, 2.042}, {20, 2.086}, {15, 2.131}, {10, 2.228},
                 {8, 2.306},   {6, 2.447},  {5, 2.571},  {4, 2.776},  {3, 3.182},  {2, 4.303}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (freedom >= table[i].freedom)
            return table[i].t;
    return 0; // too few to tell
}

// Newton's iteration: the programs do not need libm.
static double square_root(double x) {
    double r = x > 1 ? x : 1;
    for (int i = 0; i < 200 && x > 0; i++) {
        const double next = (r + x / r) / 2;
        if (next >= r)
            break;
        r = next;
    }
    return x > 0 ? r : 0;
}

static double seconds_of(const struct line *l, const struct ct_trend_point *p) {
    return (double)p->t_ns / 1e9 - l->t0;
}

static double residual_of(const struct line *l, const struct ct_trend_point *p) {
    return (double)p->bytes - l->mean_y - l->slope * (seconds_of(l, p) - l->mean_t);
}

static void fit(struct line *l, const struct ct_trend_point *p, size_t n) {
    double sum_ty = 0;
    *l = (struct line){.t0 = (double)p[0].t_ns / 1e9};
    for (size_t i = 0; i < n; i++) {
        l->mean_t += seconds_of(l, &p[i]) / (double)n;
        l->mean_y += (double)p[i].bytes / (double)n;
    }
    for (size_t i = 0; i < n; i++) {
        const double t = seconds_of(l, &p[i]) - l->mean_t;
        l->sum_tt += t * t;
        sum_ty += t * ((double)p[i].bytes - l->mean_y);
    }
    l->slope = l->sum_tt > 0 ? sum_ty / l->sum_tt : 0;
    for (size_t i = 0; i < n; i++) {
        const double r = residual_of(l, &p[i]);
        l->sum_rr += r * r;
        l->sum_r1 += i ? r * residual_of(l, &p[i - 1]) : 0;
    }
}

// Half the width of the slope's interval; below 0: the points do not tell.
static double find_error(const struct line *l, size_t n) {
    double rho = l->sum_rr > 0 ? l->sum_r1 / l->sum_rr : 0;
    // What is less than a billionth of the size is rounding.
    if (l->sum_rr <= 1e-18 * l->mean_y * l->mean_y * (double)n)
        return 0;
    if (rho < 0)
        rho = 0;
    const double effective = (double)n * (1 - rho) / (1 + rho), t = quantile(effective - 2);
    if (t <= 0)
        return -1;
    return t * square_root(l->sum_rr / (effective - 2) / l->sum_tt);
}

// Whether the means of the quarters go the line's way, each step by at least half as much as the
// line does.
static int goes_on(const struct line *l, const struct ct_trend_point *p, size_t n) {
    const double expected = l->slope * (seconds_of(l, &p[n - 1]) - seconds_of(l, &p[0])) / QUARTERS;
    double before = 0;
    for (size_t q = 0; q < QUARTERS; q++) {
        const size_t first = n * q / QUARTERS, last = n * (q + 1) / QUARTERS;
        double mean = 0;
        for (size_t i = first; i < last; i++)
            mean += (double)p[i].bytes / (double)(last - first);
        const double step = mean - before;
        if (q && (expected > 0 ? step < expected / 2 : step > expected / 2))
            return 0;
        before = mean;
    }
    return 1;
}

static enum ct_trend_kind judge(const struct line *l, double error, uint64_t scale, int is_even) {
    const double most = (l->slope < 0 ? -l->slope : l->slope) + (error < 0 ? 0 : error);
    if (error >= 0 && most * 3600 <= (double)scale / 100)
        return CT_TREND_STEADY;
    if (error < 0 || !is_even)
        return CT_TREND_UNCLEAR;
    if (l->slope - error > 0)
        return CT_TREND_RISING;
    return l->slope + error < 0 ? CT_TREND_FALLING : CT_TREND_UNCLEAR;
}

void ct_trend_find(struct ct_trend *t, const struct ct_trend_point *points, size_t n,
                   uint64_t scale) {
    struct line l;
    *t = (struct ct_trend){.kind = n ? CT_TREND_TOO_SHORT : CT_TREND_UNKNOWN};
    if (!n)
        return;
    t->span_ns = points[n - 1].t_ns - points[0].t_ns;
    if (n < CT_TREND_LEAST_POINTS || t->span_ns < CT_TREND_LEAST_NS)
        return;
    fit(&l, points, n);
    const double error = find_error(&l, n);
    t->kind = judge(&l, error, scale, goes_on(&l, points, n));
    if (t->kind != CT_TREND_UNCLEAR) {
        t->slope = l.slope;
        t->error = error;
    }
}

static uint64_t lasts(uint64_t free, double slope) {
    const double ns = slope > 0 ? (double)free / slope * 1e9 : CERTAIN_NS;
    return ns < CERTAIN_NS ? (uint64_t)ns : (uint64_t)CERTAIN_NS;
}

int ct_trend_time_to_full(const struct ct_trend *t, uint64_t free, struct ct_trend_full *full) {
    if (t->kind != CT_TREND_RISING)
        return 0;
    *full = (struct ct_trend_full){.ns = lasts(free, t->slope),
                                   .earliest_ns = lasts(free, t->slope + t->error),
                                   .latest_ns = lasts(free, t->slope - t->error)};
    return 1;
}

int ct_trend_is_known(const struct ct_trend *t) {
    return t->kind == CT_TREND_RISING || t->kind == CT_TREND_FALLING || t->kind == CT_TREND_STEADY;
}

const char *ct_trend_kind_name(enum ct_trend_kind kind) {
    static const char *const names[CT_TREND_KINDS] = {"unknown", "too-short", "starting", "unclear",
                                                      "steady",  "rising",    "falling"};
    return names[kind];
}

int64_t ct_trend_per_minute(double bytes_per_second) {
    const double minute = bytes_per_second * 60;
    return (int64_t)(minute < 0 ? minute - 0.5 : minute + 0.5);
}
