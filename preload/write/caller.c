// SPDX-License-Identifier: Apache-2.0
#include "write/caller.h"

#include <cutrace/model/noise.h>

#include "base/print.h"
#include "base/read_file.h"
#include "store/stack_table.h"
#include "write/dictionary.h"

static enum ct_frame_rank rank_caller(const struct ct_frame *f) {
    struct ct_code_name t;
    if (ct_frame_word_is_native(f->word))
        return f->module && *f->module->path
                   ? ct_caller_rank_native(f->module->path,
                                           f->state == CT_SYMBOL_FOUND ? f->symbol : NULL,
                                           f->symbol_bytes)
                   : CT_RANK_OURS;
    if (!ct_frame_word_text(f->word) || ct_stack_table_read_code_name(f->word, &t))
        return CT_RANK_OURS;
    return ct_caller_rank_python(t.file, t.file_bytes, t.function, t.function_bytes);
}

// The frame that names the call site: the innermost one of the best rank.
static const struct ct_frame *find_caller(uint32_t stack) {
    const struct ct_stack_entry *e = ct_stack_table_get(stack);
    const struct ct_frame *best = NULL;
    enum ct_frame_rank rank, best_rank = CT_RANK_OURS;
    for (uint32_t i = 0; e && i < e->frames && best_rank != CT_RANK_NAMED; i++) {
        const struct ct_frame *f = ct_dictionary_intern_frame(e->frame[i]);
        if (f && (rank = rank_caller(f)) < best_rank) {
            best = f;
            best_rank = rank;
        }
    }
    return best;
}

static size_t format_python_caller(uint64_t word, char *out, size_t size) {
    struct ct_code_name t;
    if (ct_stack_table_read_code_name(word, &t))
        return 0;
    const char *const end = t.file + t.file_bytes, *base = end;
    while (base > t.file && base[-1] != '/')
        base--;
    return ct_print(out, size, "%.*s:%u %.*s", (int)(end - base), base, ct_frame_word_line(word),
                    (int)t.function_bytes, t.function);
}

size_t ct_caller_format(uint32_t stack, char *out, size_t size) {
    const struct ct_frame *f = find_caller(stack);
    char name[256];
    if (!f)
        return 0;
    if (!ct_frame_word_is_native(f->word))
        return format_python_caller(f->word, out, size);
    if (f->state != CT_SYMBOL_FOUND)
        return ct_print(out, size, "%s+0x%lx", ct_base_name(f->module->path),
                        f->word - f->module->base);
    ct_noise_plain_name(f->symbol, f->symbol_bytes, name, sizeof name);
    return ct_print(out, size, "%s", name);
}

// Frames outside of the named one cannot become the caller, and noise by its module stays noise.
struct ct_loaded_module *ct_caller_find_module(uint32_t stack, uint32_t *frame) {
    const struct ct_stack_entry *e = ct_stack_table_get(stack);
    for (; e && *frame < e->frames; (*frame)++) {
        const struct ct_frame *f = ct_dictionary_intern_frame(e->frame[*frame]);
        const enum ct_frame_rank rank = f ? rank_caller(f) : CT_RANK_OURS;
        if (rank == CT_RANK_NAMED)
            break;
        if (rank == CT_RANK_NAMELESS && ct_frame_awaits_table(f))
            return f->module;
    }
    return NULL;
}
