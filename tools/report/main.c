// SPDX-License-Identifier: Apache-2.0
// cutrace-report: parses the command line and runs its command (command/).
#include <signal.h>
#include <stdio.h>

#include "base/licenses.h"
#include "base/version.h"
#include "bundle/bundle.h"
#include "cli/help.h"
#include "cli/progress.h"
#include "command/report.h"
#include "symbols/dwarf_lines.h"

static int report_all(const struct ct_arguments *o, const struct ct_terminal *terminal) {
    struct ct_phase_rules rules = {.count = 0};
    struct ct_error error;
    int status = CT_EXIT_OK;
    if (o->rules && ct_phase_rules_read(&rules, o->rules, &error)) {
        ct_phase_rules_free(&rules);
        return ct_report_error(&error, 0);
    }
    if (o->command == CT_COMMAND_diff)
        status = ct_report_diff(o, terminal, &rules);
    else if (ct_bundle_is_asked(o))
        status = ct_bundle_write(o, &rules);
    else if (o->command == CT_COMMAND_html)
        status = ct_report_page(o, terminal, &rules);
    else
        status = ct_report_several(o, terminal, &rules);
    ct_phase_rules_free(&rules);
    return status;
}

static void print_help(const struct ct_arguments *o, const struct ct_terminal *terminal) {
    if (o->topic == CT_HELP_OF_NOISE) {
        ct_noise_document_print(stdout);
        return;
    }
    if (o->topic == CT_HELP_OF_LICENSES) {
        fputs(ct_licenses, stdout);
        return;
    }
    FILE *out = ct_terminal_open_text(terminal, stdout);
    if (o->have_command)
        ct_help_print_command(out, o->command);
    else
        ct_help_print(out);
    fclose(out);
}

// Prints what an option asks for in place of a report. Returns 0 if none does.
static int print_information(const struct ct_arguments *o, const struct ct_terminal *terminal) {
    if (o->help)
        print_help(o, terminal);
    else if (o->version)
        printf("cutrace-report %s, reads trace format up to version %d\nlines: %s\n", CT_VERSION,
               CT_FORMAT_VERSION, ct_dwarf_version());
    return o->help || o->version;
}

// The traces that the command line names, also those in zip files.
static int report_paths(struct ct_arguments *o, struct ct_terminal *terminal) {
    struct ct_bundle_paths paths;
    struct ct_error error;
    int status;
    if (ct_bundle_expand(&paths, o, &error)) {
        ct_terminal_warn(error.text);
        status = error.status;
    } else {
        ct_progress_init();
        ct_terminal_start_pager(terminal, o);
        status = report_all(o, terminal);
    }
    ct_bundle_paths_free(&paths);
    return status;
}

int main(int argc, char **argv) {
    struct ct_arguments o;
    struct ct_terminal terminal;
    struct ct_error error;
    // A reader that closes the pipe ends this program silently, even if the parent process ignores
    // SIGPIPE.
    signal(SIGPIPE, SIG_DFL);
    if (ct_arguments_parse(&o, argc, argv, &error)) {
        ct_terminal_warn(error.text);
        return error.status;
    }
    int status = CT_EXIT_OK;
    ct_terminal_init(&terminal, &o);
    if (!print_information(&o, &terminal))
        status = report_paths(&o, &terminal);
    if (fflush(stdout) || ferror(stdout)) {
        ct_terminal_warn("cannot write the output");
        status = CT_EXIT_OUTPUT;
    }
    ct_terminal_end();
    return status;
}
