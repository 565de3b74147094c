// SPDX-License-Identifier: Apache-2.0
// cutrace: `run` starts a program with libcutrace.so preloaded, `doctor` says whether that works,
// `ctl` sends a request to one that is being traced, `watch` shows what such ones do,
// `record-metrics` writes what a server says of itself meanwhile.
#include <stdio.h>
#include <string.h>

#include "base/version.h"
#include "run/words.h"

enum { CANNOT_PRINT = 125, WRONG_USAGE = 125 };

static int fail_command(const char *word) {
    const char *nearest = NULL;
    (void)ct_command_line_find_command(&ct_run_table, word, &nearest);
    if (nearest)
        fprintf(stderr, "cutrace: %s: no such command; did you mean `%s`?\n", word, nearest);
    else
        fprintf(stderr,
                "cutrace: %s: no such command; use: cutrace run -- COMMAND... (see cutrace "
                "--help)\n",
                word);
    return WRONG_USAGE;
}

static int end_output(void) {
    return fflush(stdout) ? CANNOT_PRINT : 0;
}

static int print_help(int argc, char **argv) {
    const char *nearest;
    const int command =
        argc ? ct_command_line_find_command(&ct_run_table, argv[0], &nearest) : CT_RUN_help;
    if (command < 0)
        return fail_command(argv[0]);
    if (command != CT_RUN_help)
        return ct_words_print_help((enum ct_run_command)command) ? CANNOT_PRINT : 0;
    ct_words_print_all_help(stdout);
    return end_output();
}

int main(int argc, char **argv) {
    static int (*const mains[CT_RUN_COMMANDS])(int argc, char **argv) = {
        [CT_RUN_run] = ct_run_main,     [CT_RUN_doctor] = ct_doctor_main,
        [CT_RUN_ctl] = ct_ctl_main,     [CT_RUN_record_metrics] = ct_record_metrics_main,
        [CT_RUN_watch] = ct_watch_main, [CT_RUN_help] = print_help,
    };
    const char *nearest;
    if (argc < 2) {
        ct_words_print_all_help(stderr);
        return WRONG_USAGE;
    }
    if (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0)
        return print_help(0, NULL);
    if (strcmp(argv[1], "-V") == 0 || strcmp(argv[1], "--version") == 0) {
        printf("cutrace %s\n", CT_VERSION);
        return end_output();
    }
    const int command = ct_command_line_find_command(&ct_run_table, argv[1], &nearest);
    return command < 0 ? fail_command(argv[1]) : mains[command](argc - 2, argv + 2);
}
