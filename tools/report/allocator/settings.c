// SPDX-License-Identifier: Apache-2.0
#include "allocator/settings.h"

#include <stdio.h>
#include <string.h>

// The text without blanks: PyTorch ignores them. `at` is the next character.
struct reader {
    const char *at, *end;
    char *error;
};

enum { MOST_WORD = 64 };

struct word {
    char text[MOST_WORD];
};

static int refuse(const struct reader *r, const char *what, const char *name) {
    snprintf(r->error, CT_ALLOCATOR_SETTINGS_ERROR, "%s%s%s%s", what, *name ? ": '" : "", name,
             *name ? "'" : "");
    return -1;
}

static void skip_blanks(struct reader *r) {
    while (r->at < r->end && (*r->at == ' ' || (*r->at >= '\t' && *r->at <= '\r')))
        r->at++;
}

static int take(struct reader *r, char c) {
    skip_blanks(r);
    if (r->at == r->end || *r->at != c)
        return 0;
    r->at++;
    return 1;
}

// The characters up to the next separator. A word that is too long keeps its beginning, which is
// then no name and no value.
static struct word take_word(struct reader *r) {
    static const char separators[] = {',', ':', '[', ']'};
    struct word w = {""};
    size_t n = 0;
    for (; r->at < r->end && !memchr(separators, *r->at, sizeof separators); r->at++) {
        const unsigned char c = (unsigned char)*r->at;
        if (c == ' ' || (c >= '\t' && c <= '\r'))
            continue;
        if (n + 1 < sizeof w.text)
            w.text[n++] = (char)(c > ' ' && c < 127 ? c : '?');
    }
    w.text[n] = 0;
    return w;
}

// A decimal number up to a bound. Returns -1 if it is none.
static int64_t number_of(const char *text, int64_t most) {
    int64_t value = 0;
    if (!*text)
        return -1;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return -1;
        value = value * 10 + (*text - '0');
        if (value > most)
            return -1;
    }
    return value;
}

// A fraction from 0 to 1 in millionths, rounded to the nearest one. Returns -1 if it is none.
static int ppm_of(const char *text) {
    int whole = 0, value = 0, digits = 0, rounded = 0;
    if (*text != '0' && *text != '1' && *text != '.')
        return -1;
    if (*text != '.')
        whole = *text++ - '0';
    if (*text == '.')
        for (text++; *text >= '0' && *text <= '9'; text++, digits++) {
            if (digits < 6)
                value = value * 10 + (*text - '0');
            else if (digits == 6)
                rounded = *text >= '5';
        }
    for (; digits < 6; digits++)
        value *= 10;
    value += rounded + whole * 1000000;
    return *text || value > 1000000 ? -1 : value;
}

static int is_power_of_2(int64_t n) {
    return n > 0 && !(n & (n - 1));
}

static unsigned log2_of(uint64_t n) {
    return 63 - (unsigned)__builtin_clzll(n);
}

static int set_divisions(struct ct_allocator_settings *s, unsigned from, unsigned to,
                         int64_t value) {
    for (unsigned i = from; i < to; i++)
        s->divisions[i] = (uint32_t)value;
    return 0;
}

// "[256:1,512:2,>:8]": the size in MiB, and the divisions between it and twice that size.
static int read_division_list(struct ct_allocator_settings *s, struct reader *r) {
    static const char wrong[] = "roundup_power2_divisions is not a list of SIZE:DIVISIONS";
    unsigned last = 0;
    for (int first = 1; !take(r, ']'); first = 0) {
        if (!first && !take(r, ','))
            return refuse(r, wrong, "");
        const struct word size = take_word(r);
        if (!take(r, ':'))
            return refuse(r, wrong, size.text);
        const struct word divisions = take_word(r);
        const int64_t value = number_of(divisions.text, INT32_MAX);
        const int64_t mib = number_of(size.text, INT32_MAX);
        if (value && !is_power_of_2(value))
            return refuse(r, "divisions are not a power of 2", divisions.text);
        if (!strcmp(size.text, ">")) {
            set_divisions(s, last + 1, CT_ALLOCATOR_DIVISIONS, value);
            s->has_rest = 1;
            s->last = last;
            continue;
        }
        if (!is_power_of_2(mib))
            return refuse(r, "a size of roundup_power2_divisions is not a power of 2", size.text);
        const unsigned at = log2_of((uint64_t)mib);
        last = at < CT_ALLOCATOR_DIVISIONS ? at : CT_ALLOCATOR_DIVISIONS - 1;
        set_divisions(s, first ? 0 : last, last + 1, value);
    }
    return 0;
}

static int read_divisions(struct ct_allocator_settings *s, struct reader *r) {
    if (take(r, '['))
        return read_division_list(s, r);
    const struct word w = take_word(r);
    const int64_t value = number_of(w.text, INT32_MAX);
    if (value && !is_power_of_2(value))
        return refuse(r, "roundup_power2_divisions is not a power of 2", w.text);
    return set_divisions(s, 0, CT_ALLOCATOR_DIVISIONS, value);
}

static int read_mib(struct reader *r, const char *name, int64_t least, uint64_t *bytes) {
    const struct word w = take_word(r);
    char what[100];
    const int64_t mib = number_of(w.text, INT64_C(1) << 40);
    snprintf(what, sizeof what, "%s is not a number of MiB of %lld or more", name,
             (long long)least);
    if (mib < least)
        return refuse(r, what, w.text);
    *bytes = (uint64_t)mib << 20;
    return 0;
}

static int read_ppm(struct reader *r, const char *what, uint32_t *ppm) {
    const struct word w = take_word(r);
    const int value = ppm_of(w.text);
    if (value < 0)
        return refuse(r, what, w.text);
    *ppm = (uint32_t)value;
    return 0;
}

// Settings that change neither sizes nor when the pool grows.
static int is_neutral(const char *name) {
    static const char *const names[] = {
        "release_lock_on_cudamalloc",     "pinned_use_cuda_host_register",
        "pinned_num_register_threads",    "pinned_use_background_threads",
        "pinned_reserve_segment_size_mb", "pinned_free_catch_all",
        "pinned_max_round_threshold_mb",  "pinned_max_cached_size_mb"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i]))
            return 1;
    return 0;
}

static int read_expandable(struct ct_allocator_settings *s, struct reader *r) {
    const struct word w = take_word(r);
    if (strcmp(w.text, "True") != 0 && strcmp(w.text, "False") != 0)
        return refuse(r, "expandable_segments is neither True nor False", w.text);
    s->expandable = *w.text == 'T';
    return 0;
}

static int read_backend(struct reader *r) {
    const struct word w = take_word(r);
    if (strcmp(w.text, "native") != 0)
        return refuse(r, "only the backend 'native' is modelled, not", w.text);
    return 0;
}

static int read_value(struct ct_allocator_settings *s, struct reader *r, const char *name) {
    if (!strcmp(name, "expandable_segments"))
        return read_expandable(s, r);
    if (!strcmp(name, "max_split_size_mb"))
        return read_mib(r, name, 21, &s->max_split);
    if (!strcmp(name, "max_non_split_rounding_mb"))
        return read_mib(r, name, 21, &s->max_rounding);
    if (!strcmp(name, "large_segment_size_mb"))
        return read_mib(r, name, 20, &s->large_segment);
    if (!strcmp(name, "garbage_collection_threshold"))
        return read_ppm(r, "garbage_collection_threshold is not between 0 and 1", &s->collect_ppm);
    if (!strcmp(name, "per_process_memory_fraction"))
        return read_ppm(r, "per_process_memory_fraction is not between 0 and 1", &s->fraction_ppm);
    if (!strcmp(name, "roundup_power2_divisions"))
        return read_divisions(s, r);
    if (!strcmp(name, "backend"))
        return read_backend(r);
    if (!is_neutral(name))
        return refuse(r, "the model does not know the setting", name);
    take_word(r);
    return 0;
}

struct ct_allocator_settings ct_allocator_settings_default(void) {
    return (struct ct_allocator_settings){.max_split = UINT64_MAX,
                                          .max_rounding = CT_ALLOCATOR_LARGE_SEGMENT,
                                          .large_segment = CT_ALLOCATOR_LARGE_SEGMENT};
}

int ct_allocator_settings_parse(struct ct_allocator_settings *s, const char *text, size_t length,
                                char error[CT_ALLOCATOR_SETTINGS_ERROR]) {
    struct reader r = {text, text + length, error};
    *s = ct_allocator_settings_default();
    skip_blanks(&r);
    while (r.at < r.end) {
        const struct word name = take_word(&r);
        if (!take(&r, ':'))
            return refuse(&r, "not a list of NAME:VALUE", name.text);
        if (read_value(s, &r, name.text))
            return -1;
        skip_blanks(&r);
        if (r.at < r.end && !take(&r, ','))
            return refuse(&r, "a value is followed by something else than a comma", name.text);
        skip_blanks(&r);
    }
    return 0;
}

void ct_allocator_settings_fit_version(struct ct_allocator_settings *s, unsigned minor) {
    if (s->has_rest && minor < 9 && s->last + 1 < CT_ALLOCATOR_DIVISIONS)
        s->divisions[s->last] = s->divisions[s->last + 1];
}

// ---- sizes --------------------------------------------------------------------------------------

static uint64_t divisions_of(const struct ct_allocator_settings *s, uint64_t bytes) {
    const unsigned power = log2_of(bytes);
    const unsigned at = power > 20 ? power - 20 : 0;
    return s->divisions[at < CT_ALLOCATOR_DIVISIONS ? at : CT_ALLOCATOR_DIVISIONS - 1];
}

static uint64_t round_up(uint64_t bytes, uint64_t to) {
    return (bytes + to - 1) / to * to;
}

uint64_t ct_allocator_round(const struct ct_allocator_settings *s, uint64_t bytes) {
    if (bytes < CT_ALLOCATOR_MIN_BLOCK)
        return CT_ALLOCATOR_MIN_BLOCK;
    const uint64_t divisions = divisions_of(s, bytes);
    if (divisions <= 1 || bytes <= CT_ALLOCATOR_MIN_BLOCK * divisions)
        return round_up(bytes, CT_ALLOCATOR_MIN_BLOCK);
    const uint64_t step = (UINT64_C(1) << log2_of(bytes)) >> log2_of(divisions);
    return round_up(bytes, step);
}

uint64_t ct_allocator_segment_size(const struct ct_allocator_settings *s, uint64_t bytes) {
    if (bytes <= CT_ALLOCATOR_SMALL)
        return CT_ALLOCATOR_SMALL_SEGMENT;
    if (bytes < CT_ALLOCATOR_MIN_LARGE)
        return s->large_segment;
    return round_up(bytes, CT_ALLOCATOR_ROUND_LARGE);
}

// Whether requests of one size may get blocks of another one, beyond rounding to 512 bytes.
static int has_divisions(const struct ct_allocator_settings *s) {
    for (unsigned i = 0; i < CT_ALLOCATOR_DIVISIONS; i++)
        if (s->divisions[i] > 1)
            return 1;
    return 0;
}

// ---- bounds of a request ------------------------------------------------------------------------

uint64_t ct_request_most(const struct ct_allocator_settings *s, uint64_t bytes) {
    const uint64_t next = ct_allocator_round(s, bytes);
    uint64_t low = 0, high = bytes / CT_ALLOCATOR_MIN_BLOCK;
    if (bytes == s->max_split) // the segment of a request just below it
        return bytes - CT_ALLOCATOR_MIN_BLOCK;
    if (next <= bytes)
        return bytes;
    while (high - low > 1) { // in multiples of the smallest block: `low` is rounded to no more
        const uint64_t middle = low + (high - low) / 2;
        if (ct_allocator_round(s, middle * CT_ALLOCATOR_MIN_BLOCK) <= bytes)
            low = middle;
        else
            high = middle;
    }
    return low * CT_ALLOCATOR_MIN_BLOCK;
}

uint64_t ct_request_least(const struct ct_allocator_settings *s, uint64_t bytes, int whole) {
    uint64_t least = bytes;
    if (bytes > CT_ALLOCATOR_SMALL && whole && !s->expandable) {
        const uint64_t slack =
            bytes >= s->max_split ? s->max_rounding - CT_ALLOCATOR_MIN_BLOCK : CT_ALLOCATOR_SMALL;
        least = bytes > slack + CT_ALLOCATOR_SMALL ? bytes - slack
                                                   : CT_ALLOCATOR_SMALL + CT_ALLOCATOR_MIN_BLOCK;
    }
    if (!has_divisions(s))
        return least;
    // Rounded up to a step of at most half of it: the request was above the step before.
    uint64_t low = least / 2, high = least;
    while (high - low > CT_ALLOCATOR_MIN_BLOCK) {
        const uint64_t middle =
            (low + (high - low) / 2) / CT_ALLOCATOR_MIN_BLOCK * CT_ALLOCATOR_MIN_BLOCK;
        if (middle <= low || ct_allocator_round(s, middle) >= least)
            high = middle > low ? middle : low + CT_ALLOCATOR_MIN_BLOCK;
        else
            low = middle;
    }
    return high;
}
