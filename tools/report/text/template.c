// SPDX-License-Identifier: Apache-2.0
#include "text/template.h"

#include <string.h>

#include <cutrace/format/assert.h>

#define MILLION 1000000

static const struct {
    enum ct_text_kind kind;
    const char *text, *source;
    enum ct_text_flag flag;
} templates[] = {
#define CT_TEMPLATE(KIND, text, source) {CT_TEXT_KIND_##KIND, text, source, CT_TEXT_FLAGS},
#include "text/templates.def"
#define CT_TEXT_FLAG(ID, name, dashed, source)                             \
    {CT_TEXT_KIND_FLAG, name "{=|:}", source, CT_TEXT_FLAG_##ID},          \
        {CT_TEXT_KIND_FLAG, "--" dashed "[=]", source, CT_TEXT_FLAG_##ID}, \
        {CT_TEXT_KIND_FLAG, "--" name "[=]", source, CT_TEXT_FLAG_##ID},
#include "text/flags.def"
};
enum { TEMPLATES = sizeof templates / sizeof *templates, DEPTH = 4 };

static const char *const field_names[CT_TEXT_FIELDS] = {
#define CT_TEXT_FIELD(ID, name) #name,
#include "text/fields.def"
};

static const struct {
    enum ct_text_role role;
    struct ct_text_where where;
} kinds[CT_TEXT_KINDS] = {
#define CT_TEXT_KIND(ID, ROLE) CT_TEXT_KIND_OF(ID, ROLE, UNKNOWN, BY_PHASE)
#define CT_TEXT_KIND_OF(ID, ROLE, PHASE, COMPONENT) \
    {CT_TEXT_ROLE_##ROLE, {.phase = CT_PHASE_##PHASE, .component = CT_COMPONENT_##COMPONENT}},
#include "text/kinds.def"
};

enum ct_text_role ct_template_role(enum ct_text_kind kind) {
    return kinds[kind].role;
}

struct ct_text_where ct_template_where(enum ct_text_kind kind) {
    return kinds[kind].where;
}

// A place in the text, and what was found so far.
struct cursor {
    const char *text;
    size_t at, length;
    struct ct_template_match *m;
};

static int is_blank(char c) {
    return c == ' ' || c == CT_TEXT_WRAP || c == CT_TEXT_BREAK;
}

static int is_digit(char c) {
    return c >= '0' && c <= '9';
}

static int is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_';
}

static void skip_blanks(struct cursor *c) {
    while (c->at < c->length && is_blank(c->text[c->at]))
        c->at++;
}

static char to_lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

// Whether `literal` stands at *at, blanks and ends of lines aside; if so, moves *at after it.
static int match_literal(const char *text, size_t length, size_t *at, const char *literal) {
    size_t i = *at;
    for (; *literal; literal++) {
        if (*literal == ' ')
            continue;
        while (i < length && is_blank(text[i]))
            i++;
        if (i >= length || text[i] != *literal)
            return 0;
        i++;
    }
    *at = i;
    return 1;
}

// ---- numbers ------------------------------------------------------------------------------------

// The next letter of a number, which a wrapped line may interrupt; 0 at its end.
static char peek(const struct cursor *c, size_t *at) {
    *at = c->at;
    while (*at<c->length && * at> 0 && c->text[*at] == CT_TEXT_WRAP)
        ++*at;
    return *at < c->length ? c->text[*at] : 0;
}

// Whether a digit follows a point, on the same line or the next.
static int is_point(const struct cursor *c, size_t point) {
    const struct cursor behind = {.text = c->text, .at = point + 1, .length = c->length};
    size_t at;
    return is_digit(peek(&behind, &at));
}

static int64_t add_digit(int64_t v, char digit) {
    int64_t to;
    if (__builtin_mul_overflow(v, 10, &to) || __builtin_add_overflow(to, digit - '0', &to))
        return INT64_MAX;
    return to;
}

struct number {
    int negative;
    int64_t digits; // without the point: 1.74 is 174
    int decimals;   // and 2
};

// Whether so many digits follow a comma: three of "1,024", two of "1900,00", which a program wrote
// that has a comma for the point.
static int has_digits(const struct cursor *c, size_t comma, size_t count) {
    size_t i = comma + 1;
    while (i < c->length && i <= comma + count && is_digit(c->text[i]))
        i++;
    return i == comma + 1 + count && (i == c->length || !is_digit(c->text[i]));
}

static int read_digits(struct cursor *c, struct number *n, int with_point) {
    int count = 0, point = 0;
    for (size_t at;;) {
        const char letter = peek(c, &at);
        if (is_digit(letter)) {
            if (n->digits < INT64_MAX / 10 && n->decimals < 12) {
                n->digits = add_digit(n->digits, letter);
                n->decimals += point;
            } else if (!point) {
                n->digits = INT64_MAX;
            }
            count++;
        } else if (with_point && !point &&
                   ((letter == '.' && is_point(c, at)) ||
                    (letter == ',' && count && has_digits(c, at, 2)))) {
            point = 1;
        } else if (letter != ',' || point || !count || !has_digits(c, at, 3)) {
            return count > 0;
        }
        c->at = at + 1;
    }
}

static int read_number(struct cursor *c, struct number *n, int with_point) {
    *n = (struct number){0};
    skip_blanks(c);
    if (c->at < c->length && c->text[c->at] == '-') {
        n->negative = 1;
        c->at++;
    }
    return read_digits(c, n, with_point);
}

// Number x unit / 10^decimals, and the same of its last digit.
static void scale(const struct number *n, int64_t unit, struct ct_text_value *v) {
    __int128 value = (__int128)n->digits * unit, power = 1;
    for (int i = 0; i < n->decimals; i++)
        power *= 10;
    value /= power;
    if (value > CT_TEXT_MOST)
        value = CT_TEXT_MOST;
    *v = (struct ct_text_value){1, n->negative ? -(int64_t)value : (int64_t)value,
                                (int64_t)(unit / power)};
    if (v->step < 1)
        v->step = 1;
}

// The factor of a unit, or 0 if there is none. Units of 1000 are written for those of 1024.
static int64_t read_unit(struct cursor *c) {
    static const struct {
        const char *name;
        int64_t factor;
    } units[] = {
        {"bytes", 1}, {"KiB", 1024}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", INT64_C(1) << 40},
        {"kB", 1024}, {"KB", 1024},  {"MB", 1 << 20},  {"GB", 1 << 30},  {"TB", INT64_C(1) << 40},
        {"B", 1},     {"K", 1024},   {"M", 1 << 20},   {"G", 1 << 30}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (match_literal(c->text, c->length, &c->at, units[i].name))
            return units[i].factor;
    return 0;
}

// A number of GiB; without a unit a large whole one is bytes.
static void set_gib(struct cursor *c, const struct number *n, struct ct_text_value *v) {
    int64_t unit = read_unit(c);
    if (!unit)
        unit = !n->decimals && n->digits > MILLION ? 1 : 1 << 30;
    scale(n, unit, v);
}

int ct_template_read_number(const char *text, size_t length, size_t *at, struct ct_text_value *v) {
    struct cursor c = {.text = text, .at = *at, .length = length};
    struct number n;
    if (!read_number(&c, &n, 1))
        return 0;
    scale(&n, MILLION, v);
    *at = c.at;
    return 1;
}

// ---- fields -------------------------------------------------------------------------------------

// Whether what follows in a template stands at a place of the text: its next four letters.
static int follows(const struct cursor *c, size_t at, const char *rest) {
    for (int i = 0; i < 4; rest++) {
        if (!*rest || strchr("[]{}<|", *rest))
            return i > 0;
        if (*rest == ' ')
            continue;
        while (at < c->length && is_blank(c->text[at]))
            at++;
        if (at >= c->length || to_lower(c->text[at++]) != to_lower(*rest))
            return 0;
        i++;
    }
    return 1;
}

// The rest of a template after a field and what closes the group that the field ends.
static const char *rest_of(const char *t) {
    while (*t == ']')
        t++;
    return t;
}

// Copies letters up to those that follow in the template. Blanks within are one; a path has none.
static int read_letters(struct cursor *c, const char *rest, int is_path) {
    char *to = c->m->word;
    size_t n = 0;
    rest = rest_of(rest);
    for (; c->at < c->length && n + 1 < CT_TEXT_WORD_SIZE; c->at++) {
        const char letter = c->text[c->at];
        if (follows(c, c->at, rest))
            break;
        if (!is_blank(letter))
            to[n++] = letter;
        else if (!is_path && n && to[n - 1] != ' ')
            to[n++] = ' ';
    }
    to[n] = 0;
    return follows(c, c->at, rest);
}

static int read_word(struct cursor *c) {
    size_t n = 0;
    skip_blanks(c);
    for (; c->at < c->length && n + 1 < CT_TEXT_WORD_SIZE; c->at++) {
        const char letter = c->text[c->at];
        if (!is_letter(letter) && letter != '.' && letter != '+' && letter != '-')
            break;
        c->m->word[n++] = letter;
    }
    c->m->word[n] = 0;
    return n > 0;
}

static int has_name(const char *name, size_t length, const char *is) {
    return strlen(is) == length && strncmp(name, is, length) == 0;
}

static struct ct_text_value *find_value(struct ct_template_match *m, const char *name, size_t n) {
    for (int i = 0; i < CT_TEXT_FIELDS; i++)
        if (has_name(name, n, field_names[i]))
            return &m->values[i];
    return NULL; // a field of letters
}

static int read_letter(struct cursor *c, char letter) {
    skip_blanks(c);
    const int is_there = c->at < c->length && c->text[c->at] == letter;
    c->at += (size_t)is_there;
    return is_there;
}

// The elements of a tensor: the product of "[1,256,1024]".
static int read_shape(struct cursor *c, struct ct_text_value *v) {
    int64_t product = 1, number;
    if (!read_letter(c, '['))
        return 0;
    do {
        skip_blanks(c);
        if (c->at == c->length || !is_digit(c->text[c->at]))
            return 0;
        for (number = 0; c->at < c->length && is_digit(c->text[c->at]); c->at++)
            number = add_digit(number, c->text[c->at]);
        if (__builtin_mul_overflow(product, number, &product) || product > CT_TEXT_MOST)
            product = CT_TEXT_MOST;
    } while (read_letter(c, ','));
    *v = (struct ct_text_value){1, product, 1};
    return read_letter(c, ']');
}

static int read_value(struct cursor *c, const char *type, size_t n, struct ct_text_value *v) {
    struct number number;
    const int whole = has_name(type, n, "int");
    if (has_name(type, n, "shape"))
        return read_shape(c, v);
    if (!read_number(c, &number, !whole))
        return 0;
    if (whole) {
        scale(&number, 1, v);
    } else if (has_name(type, n, "gib")) {
        set_gib(c, &number, v);
    } else if (has_name(type, n, "size")) {
        (void)read_letter(c, '.'); // ("184. MiB", as NumPy writes it)
        const int64_t unit = read_unit(c);
        if (!unit)
            return 0;
        scale(&number, unit, v);
    } else {
        scale(&number, has_name(type, n, "share") ? 100 * MILLION : MILLION, v);
    }
    return 1;
}

// Reads the field at `t`, "<name:type>" or "<name=N>". `close` is its ">".
static int read_field(struct cursor *c, const char *t, const char *close) {
    const char *name = t + 1, *type = name + strcspn(name, ":=>");
    struct ct_text_value *v = find_value(c->m, name, (size_t)(type - name)), one = {0};
    const int sets = *type == '=';
    const size_t n = (size_t)(close - ++type);
    if (sets) {
        *v = (struct ct_text_value){1, *type == '+' ? CT_TEXT_MOST : *type - '0', 1};
        return 1;
    }
    if (has_name(type, n, "skip") || has_name(type, n, "path"))
        return read_letters(c, close + 1, has_name(type, n, "path"));
    if (has_name(type, n, "word"))
        return read_word(c);
    if (!read_value(c, type, n, &one))
        return 0;
    if (v && v != &c->m->values[CT_TEXT_SKIP])
        *v = one;
    return 1;
}

// ---- sentences ----------------------------------------------------------------------------------

// The bracket that closes the one at `t`.
static const char *find_close(const char *t) {
    const char open = *t, close = open == '[' ? ']' : '}';
    for (int depth = 0;; t++) {
        depth += (*t == open) - (*t == close);
        if (!depth)
            return t;
    }
}

static int match_sequence(struct cursor *c, const char *t, const char *end, int depth);

// One of "{a|b}": the first that fits.
static int match_one_of(struct cursor *c, const char *t, const char *end, int depth) {
    for (const char *from = t + 1; from <= end;) {
        const char *to = from;
        while (to < end && *to != '|')
            to++;
        struct cursor tried = *c;
        if (match_sequence(&tried, from, to, depth)) {
            c->at = tried.at;
            return 1;
        }
        from = to + 1;
    }
    return 0;
}

// An optional part. If it does not fit, what it set is unset.
static void match_optional(struct cursor *c, const char *t, const char *end, int depth) {
    const size_t at = c->at;
    struct ct_text_value before[CT_TEXT_FIELDS];
    memcpy(before, c->m->values, sizeof before);
    if (!match_sequence(c, t + 1, end, depth)) {
        c->at = at;
        memcpy(c->m->values, before, sizeof before);
    }
}

// (recursion: as deep as the brackets of our own templates are nested)
static int match_sequence(struct cursor *c, const char *t, const char *end, int depth) {
    while (t < end) {
        const char *close = t;
        if (*t == '[' && depth < DEPTH) {
            close = find_close(t);
            match_optional(c, t, close, depth + 1);
        } else if (*t == '{' && depth < DEPTH) {
            close = find_close(t);
            if (!match_one_of(c, t, close, depth + 1))
                return 0;
        } else if (*t == '<' && memchr(t, '>', (size_t)(end - t))) {
            close = memchr(t, '>', (size_t)(end - t));
            if (!read_field(c, t, close))
                return 0;
        } else if (*t != ' ') {
            skip_blanks(c);
            if (c->at >= c->length || to_lower(c->text[c->at++]) != to_lower(*t))
                return 0;
        }
        t = close + 1;
    }
    return 1;
}

// ---- the search ---------------------------------------------------------------------------------

// Templates by their first four letters, small ones, in the order of the table.
enum { SLOTS = 1 << 12 };
static struct {
    int made;
    uint16_t first[SLOTS]; // number + 1
    uint16_t next[TEMPLATES];
} directory;

static unsigned slot_of(const char letters[4]) {
    uint32_t v;
    memcpy(&v, letters, sizeof v);
    return (v * UINT32_C(2654435761)) >> 20;
}

static void make_directory(void) {
    for (unsigned i = TEMPLATES; i-- > 0;) {
        char letters[4];
        size_t n = 0;
        for (const char *t = templates[i].text; n < 4; t++) {
            CT_ASSERT(*t && !strchr("[]{}<>|", *t));
            if (*t != ' ')
                letters[n++] = to_lower(*t);
        }
        const unsigned slot = slot_of(letters);
        directory.next[i] = directory.first[slot];
        directory.first[slot] = (uint16_t)(i + 1);
    }
    directory.made = 1;
}

static int match_slot(const char *text, size_t length, size_t at, unsigned slot,
                      struct ct_template_match *m) {
    for (unsigned i = directory.first[slot]; i; i = directory.next[i - 1]) {
        const char *t = templates[i - 1].text;
        struct cursor c = {.text = text, .at = at, .length = length, .m = m};
        *m = (struct ct_template_match){.kind = templates[i - 1].kind,
                                        .flag = templates[i - 1].flag,
                                        .source = templates[i - 1].source};
        if (match_sequence(&c, t, t + strlen(t), 0)) {
            m->end = c.at;
            return 1;
        }
    }
    return 0;
}

int ct_template_match(const char *text, size_t length, size_t at, struct ct_template_match *m) {
    char letters[4];
    size_t n = 0;
    if (!directory.made)
        make_directory();
    for (size_t i = at; i < length && n < 4; i++)
        if (!is_blank(text[i]))
            letters[n++] = to_lower(text[i]);
    return n == 4 && !is_blank(text[at]) && match_slot(text, length, at, slot_of(letters), m);
}

// (a failure that is said inside of a longer sentence is said by that one)
static int is_failure(enum ct_text_role role) {
    return role == CT_TEXT_ROLE_OOM || role == CT_TEXT_ROLE_ERROR || role == CT_TEXT_ROLE_WORD;
}

void ct_template_find_all(const char *text, size_t length, size_t from, size_t to,
                          ct_template_found found, void *cookie) {
    size_t places[4] = {0}, covered = from; // of the last four letters; by what was found
    char letters[4];
    unsigned count = 0;
    struct ct_template_match m;
    if (!directory.made)
        make_directory();
    for (size_t i = from; i < length; i++) {
        if (is_blank(text[i]))
            continue;
        memmove(places, places + 1, sizeof places - sizeof *places);
        memmove(letters, letters + 1, sizeof letters - 1);
        places[3] = i;
        letters[3] = to_lower(text[i]);
        if (++count < 4)
            continue;
        if (places[0] >= to)
            return;
        const unsigned slot = slot_of(letters);
        if (!directory.first[slot] || !match_slot(text, length, places[0], slot, &m) ||
            (m.end <= covered && is_failure(kinds[m.kind].role)))
            continue;
        found(cookie, places[0], &m);
        covered = m.end > covered ? m.end : covered;
    }
}
