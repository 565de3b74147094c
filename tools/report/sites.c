// SPDX-License-Identifier: Apache-2.0
// Naming of frames. The rules of what is passed over are in skip.def.
#include "sites.h"

#include <inttypes.h>

#include "demangle.h"
#include "text.h"

enum { MAX_NAME = 4096 };

void ct_sites_init(struct ct_sites *s, const struct ct_names *names) {
    *s = (struct ct_sites){.names = names};
}

void ct_sites_free(struct ct_sites *s) {
    for (size_t i = 0; i < s->demangled_count; i++)
        free(s->demangled[i]);
    free(s->demangled);
    free(s->asker);
    free(s->depth);
    *s = (struct ct_sites){0};
}

const char *ct_frame_function(struct ct_sites *s, const struct ct_frame *f) {
    if (!f->function)
        return NULL;
    if (f->function >= s->demangled_count) {
        const size_t before = s->demangled_count;
        s->demangled_count = s->names->string_count;
        s->demangled = ct_resize(s->demangled, s->demangled_count, sizeof *s->demangled);
        memset(s->demangled + before, 0, (s->demangled_count - before) * sizeof *s->demangled);
    }
    char **name = &s->demangled[f->function];
    if (!*name) {
        char text[MAX_NAME];
        const struct ct_string *symbol = &s->names->strings[f->function];
        size_t n = f->kind == CT_FRAME_NATIVE
                       ? ct_demangle(symbol->at, symbol->length, text, sizeof text)
                       : 0;
        if (!n) {
            n = symbol->length < sizeof text ? symbol->length : sizeof text - 1;
            memcpy(text, symbol->at, n);
        }
        *name = ct_resize(NULL, n + 1, 1);
        memcpy(*name, text, n);
        (*name)[n] = 0;
    }
    return *name;
}

void ct_base_name(const struct ct_names *n, uint32_t path, char *to, size_t size) {
    const struct ct_string *s = &n->strings[path];
    const char *slash = s->length ? memrchr(s->at, '/', s->length) : NULL;
    const char *from = slash ? slash + 1 : s->at;
    ct_clean(to, size, from, s->length - (size_t)(from - s->at));
}

// Shortens a demangled name in place: "f<...>" for template arguments, no parameter list.
static void simplify(char *name) {
    static const char operator_[] = "operator";
    size_t at = 0;
    int depth = 0;
    for (const char *p = name; *p; p++) {
        if (!depth && strncmp(p, operator_, sizeof operator_ - 1) == 0) {
            // operator< and operator() are names, not brackets
            const size_t length = strcspn(p + sizeof operator_ - 1, "(") + sizeof operator_ - 1;
            const size_t all = strncmp(p + length, "()", 2) == 0 && length == sizeof operator_ - 1
                                   ? length + 2
                                   : length;
            memmove(name + at, p, all);
            at += all;
            break;
        }
        if (!depth && *p == '(' && strncmp(p, "(anonymous namespace)", 21) != 0)
            break;
        if (!depth && *p == '(') {
            memmove(name + at, p, 21);
            at += 21;
            p += 20;
            continue;
        }
        if (*p == '<' && !depth++)
            name[at++] = '<';
        if (*p == '>' && depth && !--depth && at) {
            name[at++] = '.';
            name[at++] = '.';
            name[at++] = '>';
            continue;
        }
        if (!depth)
            name[at++] = *p;
    }
    name[at] = 0;
    // A template function's name begins with its return type.
    char *space = strchr(name, ' ');
    if (space && strncmp(name, operator_, 8) != 0 && !strstr(name, operator_) && space[1] &&
        space[1] != '(' && name[0] != '(')
        memmove(name, space + 1, strlen(space));
}

void ct_frame_label(struct ct_sites *s, const struct ct_frame *f, char *to, size_t size) {
    const char *function = ct_frame_function(s, f);
    char place[200], name[MAX_NAME] = "";
    if (f->kind == CT_FRAME_PYTHON) {
        ct_base_name(s->names, f->file, place, sizeof place);
        ct_clean(name, sizeof name, function ? function : "?", strlen(function ? function : "?"));
        if (f->line)
            (void)snprintf(to, size, "%.120s %.120s:%" PRIu64, name, place, f->line);
        else
            (void)snprintf(to, size, "%.120s %.120s", name, place);
        return;
    }
    if (f->module)
        ct_base_name(s->names, s->names->modules[f->module].path, place, sizeof place);
    else
        (void)snprintf(place, sizeof place, "?");
    if (function) {
        ct_clean(name, sizeof name, function, strlen(function));
        if (memcmp(s->names->strings[f->function].at, function,
                   strnlen(function, s->names->strings[f->function].length)) != 0)
            simplify(name);
        (void)snprintf(to, size, "%.160s (%.120s)", name, place);
    } else if (f->module) {
        (void)snprintf(to, size, "%.160s+0x%" PRIx64, place, f->offset);
    } else {
        (void)snprintf(to, size, "0x%" PRIx64, f->pc);
    }
    ct_clean(to, size, to, strlen(to)); // a name cut in the middle of a character
}

static int starts(const char *text, const char *prefix) {
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static int ends(const struct ct_string *text, const char *suffix) {
    const size_t n = strlen(suffix);
    return text->length >= n && memcmp(text->at + text->length - n, suffix, n) == 0;
}

static int is_passed_over(struct ct_sites *s, const struct ct_frame *f) {
    const struct ct_names *n = s->names;
    if (f->kind == CT_FRAME_NATIVE && f->module) {
        char module[100];
        ct_base_name(n, n->modules[f->module].path, module, sizeof module);
#define CT_SKIP_MODULE(prefix)  \
    if (starts(module, prefix)) \
        return 1;
#include "skip.def"
    }
    if (f->kind == CT_FRAME_PYTHON) {
#define CT_SKIP_FILE(suffix)                \
    if (ends(&n->strings[f->file], suffix)) \
        return 1;
#include "skip.def"
        return 0;
    }
    const char *function = ct_frame_function(s, f);
    if (!function)
        return f->kind != CT_FRAME_NATIVE || !f->module;
#define CT_SKIP_FUNCTION(prefix)  \
    if (starts(function, prefix)) \
        return 1;
#include "skip.def"
    return 0;
}

const struct ct_frame *ct_stack_frame(const struct ct_names *n, uint32_t stack, uint32_t place) {
    return &n->frames[n->stack_frames[n->stacks[stack].first + place]];
}

uint32_t ct_stack_asker(struct ct_sites *s, uint32_t stack) {
    const struct ct_names *n = s->names;
    if (stack >= s->asker_count) {
        const size_t before = s->asker_count;
        s->asker_count = n->stack_count;
        s->asker = ct_resize(s->asker, s->asker_count, sizeof *s->asker);
        memset(s->asker + before, 0, (s->asker_count - before) * sizeof *s->asker);
    }
    if (!s->asker[stack]) {
        uint32_t place = 0;
        while (place < n->stacks[stack].count && is_passed_over(s, ct_stack_frame(n, stack, place)))
            place++;
        s->asker[stack] = (place < n->stacks[stack].count ? place : 0) + 1;
    }
    return s->asker[stack] - 1;
}

uint32_t ct_stack_callers(struct ct_sites *s, uint32_t stack) {
    const uint32_t first = ct_stack_asker(s, stack);
    uint32_t end = s->names->stacks[stack].count;
    while (end > first + 1 && is_passed_over(s, ct_stack_frame(s->names, stack, end - 1)))
        end--;
    return end - first;
}

void ct_site_label(struct ct_sites *s, uint32_t stack, char *to, size_t size) {
    char label[400];
    if (!stack || !s->names->stacks[stack].count) {
        (void)snprintf(to, size, "(no stack)");
        return;
    }
    const uint32_t first = ct_stack_asker(s, stack), callers = ct_stack_callers(s, stack);
    const uint32_t depth = stack < s->depth_count && s->depth[stack] ? s->depth[stack] : 1;
    size_t at = 0;
    for (uint32_t i = 0; i < depth && i < callers && at + 8 < size; i++) {
        ct_frame_label(s, ct_stack_frame(s->names, stack, first + i), label, sizeof label);
        at += (size_t)snprintf(to + at, size - at, "%s%s", i ? " <- " : "", label);
    }
    ct_clean(to, size, to, strlen(to)); // a label cut in the middle of a character
}

static void json_string(struct ct_json *j, const char *key, const struct ct_string *s) {
    if (s->length)
        ct_json_bytes(j, key, s->at, s->length);
    else
        ct_json_null(j, key);
}

static void json_frame(struct ct_json *j, struct ct_sites *s, const struct ct_frame *f) {
    const struct ct_names *n = s->names;
    const char *function = ct_frame_function(s, f);
    ct_json_open(j, NULL, '{');
    if (function)
        ct_json_text(j, "name", function);
    else
        ct_json_null(j, "name");
    json_string(j, "file", &n->strings[f->file]);
    if (f->line)
        ct_json_number(j, "line", f->line);
    else
        ct_json_null(j, "line");
    json_string(j, "module", &n->strings[n->modules[f->module].path]);
    if (f->kind == CT_FRAME_NATIVE && (f->module || f->pc))
        ct_json_number(j, "offset", f->module ? f->offset : f->pc);
    else
        ct_json_null(j, "offset");
    ct_json_close(j, '}');
}

void ct_json_stack(struct ct_json *j, struct ct_sites *s, const char *key, uint32_t stack) {
    if (!stack) {
        ct_json_null(j, key);
        return;
    }
    ct_json_open(j, key, '[');
    for (uint32_t i = 0; i < s->names->stacks[stack].count; i++)
        json_frame(j, s, ct_stack_frame(s->names, stack, i));
    ct_json_close(j, ']');
}
