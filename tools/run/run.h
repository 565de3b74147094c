// SPDX-License-Identifier: Apache-2.0
// cutrace run: starts a program with libcutrace.so preloaded, and says what its traces show.
#ifndef CT_RUN_H
#define CT_RUN_H

// Exit codes of its own failures, as env(1) and timeout(1) have them.
enum { CT_RUN_OWN_FAILURE = 125, CT_RUN_NOT_EXECUTABLE = 126, CT_RUN_NOT_FOUND = 127 };

// `argv` begins after "run". Returns the exit code; a signal that ended the program ends this one.
int ct_run_main(int argc, char **argv);

#endif
