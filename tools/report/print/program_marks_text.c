// SPDX-License-Identifier: Apache-2.0
#include "print/program_marks_text.h"

#include "base/wrap.h"
#include "print/label.h"

enum { TEXT_MARKS = 8 };

void ct_program_marks_print(struct ct_view *v, const struct ct_program_marks *m) {
    const unsigned most = v->options->top ? v->options->top : TEXT_MARKS;
    uint64_t said = 0;
    unsigned shown = 0;
    char label[160];
    if (!m->count)
        return;
    fprintf(v->out, "%smarks of the program%s\n", v->terminal->bold, v->terminal->reset);
    for (unsigned i = 0; i < CT_PROGRAM_MARKS && shown < most; i++) {
        if (!m->part[i].count)
            continue;
        ct_program_marks_label(m, &m->part[i], label, sizeof label);
        fprintf(v->out, "  %12s  " CT_WRAP_HANG "%s\n", ct_label_time(v, m->part[i].t_ns).text,
                label);
        said += m->part[i].count;
        shown++;
    }
    if (said < m->count)
        fprintf(v->out, "  and %s more\n", ct_human_count(m->count - said).text);
}
