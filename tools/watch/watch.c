// SPDX-License-Identifier: Apache-2.0
#include "watch/watch.h"

#include <unistd.h>

#include "base/now.h"
#include "cli/terminal.h"
#include "watch/screen.h"
#include "watch/service.h"
#include "watch/text.h"
#include "watch/watch_json.h"

static void print_text(const struct ct_watch_list *l, const struct ct_watch_options *o) {
    const struct ct_arguments arguments = {.color = (enum ct_choice)o->color};
    struct ct_terminal terminal;
    ct_terminal_init(&terminal, &arguments);
    FILE *out = ct_terminal_open_text(&terminal, stdout);
    const struct ct_watch_style style = {.width = terminal.width,
                                         .color = terminal.color,
                                         .sites = 10,
                                         .incidents = CT_WATCH_INCIDENTS,
                                         .now_ns = ct_now_ns(CLOCK_MONOTONIC)};
    ct_watch_text_all(out, l, &style);
    (void)fclose(out);
}

static int watch_once(struct ct_watch_list *l, const struct ct_watch_options *o) {
    ct_watch_list_find(l, 1);
    ct_watch_list_tick(l);
    for (size_t i = 0; i < l->count; i++)
        ct_watch_list_read(l, &l->entries[i]);
    if (o->json)
        ct_watch_json_print(stdout, l);
    else
        print_text(l, o);
    if (fflush(stdout) || ferror(stdout))
        return CT_WATCH_CANNOT_WRITE;
    return l->count ? CT_WATCH_DONE : CT_WATCH_NOTHING;
}

int ct_watch(const struct ct_watch_options *o) {
    struct ct_watch_list list = {.target = ct_watch_target_parse(o->target)};
    int code;
    if (o->once)
        code = watch_once(&list, o);
    else if (o->serve || o->log != CT_WATCH_LOG_NONE)
        code = ct_service_run(&list, o);
    else
        code = ct_screen_run(&list, o);
    ct_watch_list_free(&list);
    return code;
}
