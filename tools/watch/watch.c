// SPDX-License-Identifier: Apache-2.0
#include "watch/watch.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/heap.h"
#include "base/now.h"
#include "cli/terminal.h"
#include "watch/files.h"

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

// ---- a folder that is kept in order -------------------------------------------------------------

static void tick(void *user) {
    ct_keeper_tick(user);
}

// Beside the screen, what was done is told when that has ended.
static int run_with_screen(struct ct_watch_list *l, struct ct_keeper *k,
                           const struct ct_watch_options *o) {
    char *text = NULL;
    size_t n = 0;
    k->told.out = ct_heap_open_text(&text, &n);
    const int code = ct_screen_run(l, o);
    ct_heap_close_text(k->told.out);
    fputs(text, stdout);
    free(text);
    return code;
}

static int keep(struct ct_watch_list *l, const struct ct_watch_options *o) {
    const int is_shown =
        !o->once && !ct_service_is_wanted(o) && isatty(STDOUT_FILENO) && isatty(STDIN_FILENO);
    char folder[4096];
    struct ct_keeper *k = ct_heap_alloc_zeroed(1, sizeof *k);
    int code = CT_WATCH_DONE;
    ct_keeper_begin(k, &o->keeper,
                    o->target ? o->target : ct_watch_search_default(folder, sizeof folder),
                    o->log == CT_WATCH_LOG_JSON ? stderr : stdout);
    l->ticked = tick;
    l->ticked_user = k;
    if (!o->once)
        code = is_shown ? run_with_screen(l, k, o) : ct_service_run(l, o);
    // (once more after a service: where a pod ends, its process has just been killed)
    if (!is_shown && !code)
        ct_keeper_look(k, 1);
    if ((o->once && k->has_failed) || fflush(stdout) || ferror(stdout))
        code = CT_WATCH_CANNOT_WRITE;
    ct_keeper_end(k);
    free(k);
    return code;
}

int ct_watch(const struct ct_watch_options *o) {
    struct ct_watch_list list = {.target = ct_watch_target_parse(o->target)};
    int code;
    if (ct_keeper_is_wanted(&o->keeper))
        code = keep(&list, o);
    else if (o->once)
        code = watch_once(&list, o);
    else if (ct_service_is_wanted(o))
        code = ct_service_run(&list, o);
    else
        code = ct_screen_run(&list, o);
    ct_watch_list_free(&list);
    return code;
}
