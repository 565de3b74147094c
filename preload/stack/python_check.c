// SPDX-License-Identifier: Apache-2.0
// Checks the layout of Python's frames with those of the calling thread: each word on the way must
// be readable, and each object must be of the type that the layout says.
#include "stack/python_check.h"

#include <pthread.h>

#include "stack/python_find.h"

static const struct ct_python_layout *const layout = &ct_python.layout;

static int is_instance(uintptr_t object, const void *type) {
    uintptr_t of;
    return object && !ct_python_probe_word(object + layout->type, &of) && of == (uintptr_t)type;
}

static int has_member(uintptr_t object, uint16_t at, const void *type) {
    uintptr_t value;
    return !ct_python_probe_word(object + at, &value) && is_instance(value, type);
}

static int is_code(uintptr_t code) {
    return is_instance(code, ct_python.PyCode_Type) &&
           has_member(code, layout->filename, ct_python.PyUnicode_Type) &&
           has_member(code, layout->name, ct_python.PyUnicode_Type) &&
           has_member(code, layout->linetable, ct_python.PyBytes_Type);
}

// Probes the whole word that holds `owner`: a frame is aligned to words.
static int is_shim(uintptr_t f) {
    uintptr_t word;
    const unsigned shift = layout->owner % 8 * 8;
    return layout->chain == CT_CHAIN_SHIMS &&
           !ct_python_probe_word(f + layout->owner / 8 * 8, &word) &&
           (word >> shift & 0xFF) >= CT_PYTHON_SHIM;
}

// Whether the instruction lies in the frame's copy of the bytecode, where there are several.
static int is_in_copy(uintptr_t f, uintptr_t code) {
    uintptr_t copies, base, units, at, word;
    if (!layout->copies)
        return 1;
    const unsigned half = layout->copy % 8 * 8;
    if (ct_python_probe_word(f + layout->copy / 8 * 8, &word) ||
        ct_python_probe_word(code + layout->copies, &copies) ||
        ct_python_probe_word(copies + ct_python_copy_entry((uint32_t)(word >> half)), &base) ||
        ct_python_probe_word(code + layout->bytes_size, &units) ||
        ct_python_probe_word(f + layout->instruction, &at))
        return 0;
    return at - base < 2 * units;
}

static int count_frames(uintptr_t thread) {
    uintptr_t f, code, in = thread;
    int frames = 0;
    if (layout->current_in_cframe && ct_python_probe_word(thread + layout->cframe, &in))
        return -1;
    if (ct_python_probe_word(in + layout->current, &f))
        return -1;
    for (int i = 0; f && i < 200; i++) {
        if (!is_shim(f)) {
            if (ct_python_probe_word(f + layout->code, &code) || !is_code(code &= ~(uintptr_t)3) ||
                !is_in_copy(f, code))
                return -1;
            frames++;
        }
        if (ct_python_probe_word(f + layout->previous, &f))
            return -1;
    }
    return frames;
}

int ct_python_check_thread(uintptr_t thread) {
    uintptr_t id;
    if (ct_python_probe_word(thread + layout->thread_id, &id) || id != (uintptr_t)pthread_self())
        return -1;
    return count_frames(thread);
}
