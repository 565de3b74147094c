// SPDX-License-Identifier: Apache-2.0
#include "page/page_phases.h"

#include "page/html.h"
#include "page/page_moment.h"
#include "print/label.h"
#include "print/trace_state.h"
#include "sites/site_groups.h"

enum { SITES = 3 };

static void put_sites(FILE *out, struct ct_view *v, const struct ct_phase_time *p) {
    struct ct_site_groups groups;
    size_t n;
    struct ct_holding *list = ct_phase_time_list(p, &n);
    ct_site_groups_build(&groups, v->sites, list, n);
    if (groups.count)
        fputs("<ul>", out);
    for (size_t i = 0; i < groups.count && i < SITES; i++) {
        fputs("<li>", out);
        ct_html_text(out, ct_label_size(v, groups.list[i].bytes).text);
        putc(' ', out);
        ct_html_text(out, groups.list[i].label);
        fputs("</li>", out);
    }
    if (groups.count)
        fputs("</ul>", out);
    ct_site_groups_free(&groups);
    free(list);
}

static void put_phase(FILE *out, struct ct_view *v, const struct ct_phase_time *p) {
    const int is_known = p->at.phase != CT_PHASE_UNKNOWN;
    fputs("<tr><td class=\"number\">", out);
    ct_page_moment_link(out, v, p->begin_ns, v->options->device);
    fputs("</td>", out);
    ct_html_cell(out, "number", p->duration_ns ? ct_human_seconds(p->duration_ns).text : "0 s");
    ct_html_cell(out, "number", ct_human_count(p->stretches).text);
    ct_html_cell(out, "number", ct_label_size(v, p->taken_bytes).text);
    ct_html_cell(out, "number", ct_label_size(v, p->kept_bytes).text);
    ct_html_cell(out, "number", ct_label_size(v, p->given_back_bytes).text);
    ct_html_cell(out, "number", ct_label_size(v, p->peak_bytes).text);
    fputs("<td class=\"phase\">", out);
    ct_html_text(out, is_known ? ct_phases_title(&p->at).text : "(no known phase)");
    put_sites(out, v, p);
    fputs("</td></tr>\n", out);
}

static void put_marks(FILE *out, struct ct_view *v, const struct ct_program_marks *m) {
    char label[160];
    if (!m->count)
        return;
    fputs("<h3>Marks of the program</h3><table class=\"program-marks\"><tbody>\n", out);
    for (unsigned i = 0; i < CT_PROGRAM_MARKS; i++) {
        if (!m->part[i].count)
            continue;
        fputs("<tr><td class=\"number\">", out);
        ct_page_moment_link(out, v, m->part[i].t_ns, v->options->device);
        fputs("</td>", out);
        ct_program_marks_label(m, &m->part[i], label, sizeof label);
        ct_html_cell(out, "mark", label);
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table>\n", out);
}

void ct_page_phases_write(FILE *out, struct ct_view *v, const struct ct_phase_times *p) {
    if (!p->count) {
        fputs("<p>No event of a program", out);
        ct_html_text(out, ct_trace_state_until(v).text);
        fputs(".</p>\n", out);
        return;
    }
    fprintf(out, "<p>Phases %s%s.</p>\n",
            p->by_frames ? "by the frames of Python in the stacks"
                         : "by what the program does (no stack names a phase)",
            p->summed ? ", each with all its stretches" : ", in the order of time");
    fputs("<table class=\"phases\"><thead><tr><th class=\"number\">begin</th><th class=\"number\">"
          "duration</th><th class=\"number\">times</th><th class=\"number\">taken</th><th "
          "class=\"number\">kept</th><th class=\"number\">given back</th><th class=\"number\">peak"
          "</th><th>phase, and who took most in it</th></tr></thead><tbody>\n",
          out);
    for (size_t i = 0; i < p->count; i++)
        put_phase(out, v, &p->list[i]);
    fputs(
        "</tbody></table>\n<p class=\"hint\">Taken: allocated in the phase, and PyTorch\xe2\x80\x99s "
        "blocks; kept: of that, still live at its end; peak: of what was tracked.</p>\n",
        out);
    put_marks(out, v, &p->marks);
}
