// SPDX-License-Identifier: Apache-2.0
// What a trace knows about how its process was started and what it runs: versions of packages,
// flags of the command lines, variables of the environment. Copied out of the trace, so that it
// outlives the trace.
#ifndef CT_FACTS_H
#define CT_FACTS_H

#include "read/definitions.h"

struct ct_fact {
    char *name, *value;
};

struct ct_fact_list {
    struct ct_fact *list;
    size_t count, cap;
};

struct ct_facts {
    struct ct_fact_list flags, versions, environment;
    char *program;        // the one that read the flags ("vllm"), if it is a known one
    uint64_t exit_status; // 0: it succeeded, or not known
};

// Reads the INFO of a trace: flag.*, version.*, torch.version, process.env.*, process.program,
// process.exit_status. A trace without flag.* has those of process.argv, as older recorders wrote
// them.
void ct_facts_read(struct ct_facts *f, const struct ct_definitions *n);
void ct_facts_free(struct ct_facts *f);

// The value of a flag by its name in cli_flags.def ("max-model-len"); "<given>" if the trace says
// only that it was given; NULL if it was not given or is not known. These are texts of a trace: to
// be printed only through ct_utf8_print_sanitized. Valid until ct_facts_free.
const char *ct_facts_find_flag(const struct ct_facts *f, const char *name);

// Whether the command line of a known server is recorded and names no file with further flags: a
// flag that is not found then has its default. Settings may still come from the environment.
int ct_facts_has_all_flags(const struct ct_facts *f);

// The version of a package by its normalized name ("vllm", "torch", "flashinfer-python"), or NULL.
const char *ct_facts_find_version(const struct ct_facts *f, const char *package);

// Whether a package has at least this version: 1 or 0, or -1 if its version is not known.
int ct_facts_has_version(const struct ct_facts *f, const char *package, const char *least);

// The value of a variable of the environment at the start, or NULL.
const char *ct_facts_find_variable(const struct ct_facts *f, const char *name);

#endif
