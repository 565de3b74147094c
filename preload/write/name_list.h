// SPDX-License-Identifier: Apache-2.0
// A bounded list of names, each once: facts about modules are keys with the position of the name,
// because a key that has a name in it could not be scrubbed. One thread at a time.
#ifndef CT_WRITE_NAME_LIST_H
#define CT_WRITE_NAME_LIST_H

enum { CT_NAME_LIST_NAMES = 128, CT_NAME_LIST_BYTES = 128 };

struct ct_name_list {
    unsigned count;
    char name[CT_NAME_LIST_NAMES][CT_NAME_LIST_BYTES];
};

// The position of a name, which is added if it is new; -1: the list is full.
int ct_name_list_find(struct ct_name_list *list, const char *name);

#endif
