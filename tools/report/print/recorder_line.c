// SPDX-License-Identifier: Apache-2.0
#include "print/recorder_line.h"

#include <string.h>

#include <cutrace/model/noise.h>
#include <cutrace/model/oom_message.h>

#include "base/utf8.h"

// ---- the caller ---------------------------------------------------------------------------------

static enum ct_frame_rank rank_frame(const struct ct_definitions *n, const struct ct_frame *f) {
    const struct ct_string *function = &n->strings[f->function], *file = &n->strings[f->file];
    const struct ct_string *module = &n->strings[n->modules[f->module].path];
    char path[CT_CALLER_FILE];
    if (f->kind == CT_FRAME_PYTHON)
        return ct_caller_rank_python(file->at, file->length, function->at, function->length);
    if (f->kind != CT_FRAME_NATIVE || !f->module || !module->length)
        return CT_RANK_OURS;
    ct_caller_copy_path(module->at, module->length, path, sizeof path);
    return ct_caller_rank_native(path, f->function ? function->at : NULL, function->length);
}

// The frame that names the call site: the innermost one of the best rank. NULL: none does.
static const struct ct_frame *find_caller(const struct ct_definitions *n, uint32_t stack) {
    const struct ct_frame *best = NULL;
    enum ct_frame_rank best_rank = CT_RANK_OURS;
    for (uint32_t i = n->stacks[stack]; i && best_rank != CT_RANK_NAMED; i = n->nodes[i].parent) {
        const struct ct_frame *f = ct_definitions_node_frame(n, i);
        const enum ct_frame_rank rank = rank_frame(n, f);
        if (rank < best_rank) {
            best = f;
            best_rank = rank;
        }
    }
    return best;
}

static const char *base_name(const struct ct_string *path, size_t *length) {
    const char *slash = path->length ? memrchr(path->at, '/', path->length) : NULL;
    const char *from = slash ? slash + 1 : path->at;
    *length = path->length - (size_t)(from - path->at);
    return from;
}

static void format_caller(const struct ct_definitions *n, uint32_t stack, char *to, size_t size) {
    const struct ct_frame *f = find_caller(n, stack);
    size_t length;
    *to = 0;
    if (!f)
        return;
    const struct ct_string *function = &n->strings[f->function];
    if (f->kind == CT_FRAME_PYTHON) {
        const char *file = base_name(&n->strings[f->file], &length);
        (void)snprintf(to, size, "%.*s:%" PRIu64 " %.*s", (int)length, file, f->line,
                       (int)function->length, function->at);
    } else if (f->function) {
        ct_noise_plain_name(function->at, function->length, to,
                            size < CT_CALLER_FUNCTION ? size : CT_CALLER_FUNCTION);
    } else {
        const char *module = base_name(&n->strings[n->modules[f->module].path], &length);
        (void)snprintf(to, size, "%.*s+0x%" PRIx64, (int)length, module, f->offset);
    }
}

// ---- the line -----------------------------------------------------------------------------------

static __attribute__((format(printf, 3, 0))) size_t print_va(char *buffer, size_t size,
                                                             const char *format,
                                                             va_list arguments) {
    const int n = vsnprintf(buffer, size, format, arguments);
    return n < 0 ? 0 : (size_t)n < size ? (size_t)n : size - 1;
}

// What the recorder's event had, as far as the line says it.
static struct ct_event make_event(const struct ct_oom_event *o) {
    struct ct_event e = {.op = o->op, .t_ns = o->t_ns};
    if (o->device < CT_MAX_DEVICES)
        CT_SET(&e, device, o->device);
    if (o->bytes_known)
        CT_SET(&e, bytes, o->bytes);
    if (o->space)
        CT_SET(&e, space, o->space);
    if (o->reading_known) {
        CT_SET(&e, free_bytes, o->free);
        CT_SET(&e, total_bytes, o->total);
    }
    return e;
}

static int is_quiet(const struct ct_definitions *n) {
    const struct ct_string *s = ct_definitions_info(n, "option.QUIET");
    return s && !(s->length == 1 && *s->at == '0');
}

int ct_recorder_line_format(const struct ct_view *v, const struct ct_oom_event *o, int is_retried,
                            char *to, size_t size) {
    const struct ct_definitions *n = &v->trace->definitions;
    const struct ct_event e = make_event(o);
    const struct ct_string *api = &n->strings[o->api];
    char caller[200], name[100], line[2048];
    if (is_quiet(n) || is_retried)
        return 0;
    struct ct_oom oom = ct_oom_describe(&e, &o->split, UINT64_MAX);
    format_caller(n, o->stack, caller, sizeof caller);
    ct_caller_copy(api->at, api->length, name, sizeof name);
    oom.api = o->api ? name : NULL;
    oom.caller = caller;
    const size_t length = ct_oom_message_format(&oom, line, sizeof line, print_va);
    ct_utf8_sanitize(to, size, line, length - 1);
    return 1;
}
