// SPDX-License-Identifier: Apache-2.0
// The data of the page: PAGE.md defines it.
#ifndef CT_PAGE_DATA_H
#define CT_PAGE_DATA_H

#include "page/page_reading.h"

// Frames that the stacks of all traces share: each is written once.
struct ct_page_strings {
    char **list;
    size_t count, room;
    struct ct_id_set set;
};

void ct_page_strings_write(struct ct_json *j, const struct ct_page_strings *s);
void ct_page_strings_free(struct ct_page_strings *s);

// Writes the object of a trace. The reading is of the same view.
void ct_page_data_write_trace(struct ct_json *j, struct ct_view *v, const struct ct_page_reading *r,
                              const char *title, struct ct_page_strings *strings);

#endif
