// SPDX-License-Identifier: Apache-2.0
#include "page/page_moment.h"

#include <inttypes.h>

#include "page/html.h"
#include "print/label.h"

void ct_page_moment_link(FILE *out, const struct ct_view *v, uint64_t t_ns, int device) {
    const uint64_t start = v->trace->start_ns;
    fprintf(out, "<a class=\"moment\" href=\"#t=%" PRIu64, t_ns > start ? t_ns - start : 0);
    if (device >= 0 && device < CT_MAX_DEVICES)
        fprintf(out, "&amp;gpu=%d", device);
    fputs("\">", out);
    ct_html_text(out, ct_label_time(v, t_ns).text);
    fputs("</a>", out);
}
