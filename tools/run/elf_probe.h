// SPDX-License-Identifier: Apache-2.0
// What the head of a program file says: which machine it is for, and which loader starts it.
#ifndef CT_ELF_PROBE_H
#define CT_ELF_PROBE_H

enum ct_elf_kind { CT_ELF_UNREADABLE, CT_ELF_SCRIPT, CT_ELF_NONE, CT_ELF_DAMAGED, CT_ELF };

struct ct_elf_probe {
    enum ct_elf_kind kind;
    int error;              // errno of CT_ELF_UNREADABLE
    char interpreter[4096]; // of a script, or the loader of a program; "": it is linked statically
    char argument[256];     // of a script's interpreter, or ""
    int is_64_bit, is_big_endian;
    int machine; // EM_*
};

void ct_elf_probe(struct ct_elf_probe *p, const char *path);
// The machine that this program runs on, as in ct_elf_probe.
int ct_elf_probe_own_machine(void);
// "x86-64"; "machine 243" for one without a name here.
const char *ct_elf_probe_machine_name(const struct ct_elf_probe *p, char *to, int size);

#endif
