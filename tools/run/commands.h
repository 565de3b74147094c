// SPDX-License-Identifier: Apache-2.0
// The commands of cutrace. `argv` begins after the command's name; each returns the exit code.
#ifndef CT_COMMANDS_H
#define CT_COMMANDS_H

// Starts a program with libcutrace.so preloaded, and says what its traces show. A signal that ended
// the program ends this one.
int ct_run_main(int argc, char **argv);

// Whether tracing a command, or a process that runs, works, and why not.
int ct_doctor_main(int argc, char **argv);

// Sends a request to a running recorder, through its journal.
int ct_ctl_main(int argc, char **argv);

// Writes a server's metrics over time to a file.
int ct_record_metrics_main(int argc, char **argv);

// Shows what traced processes do, in the terminal or to Prometheus.
int ct_watch_main(int argc, char **argv);

#endif
