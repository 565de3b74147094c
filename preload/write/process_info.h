// SPDX-License-Identifier: Apache-2.0
// INFO about the process, its machine and its command lines, without anything private.
#ifndef CT_WRITE_PROCESS_INFO_H
#define CT_WRITE_PROCESS_INFO_H

// Sets the keys process.*, host.*, option.* and clock.* (FORMAT.md, section 4). Reads /proc: not
// for hot paths. Drain lock held.
void ct_process_info_publish(void);

// ---- command lines (command_line.c) ----------------------------------------------------------

// INFO about the command lines that started the process: process.argv, and flag.NAME,
// flag.NAME.from and process.program by cutrace/format/cli_flags.def. Servers start their workers
// by multiprocessing, whose command lines have no flags, and give them titles: the flags are on the
// command line of an ancestor.

// Publishes the process's own command line. Drain lock held.
void ct_command_line_publish(void);

// Publishes the flags of its ancestors that are not on its own command line. Writer thread only,
// without the drain lock: the kernel reads the memory of another process, which may take as long as
// that process has it locked.
void ct_command_line_read_ancestors(void);

#endif
