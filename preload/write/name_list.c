// SPDX-License-Identifier: Apache-2.0
#include "write/name_list.h"

#include <string.h>

#include "base/print.h"

int ct_name_list_find(struct ct_name_list *list, const char *name) {
    for (unsigned i = 0; i < list->count; i++)
        if (!strncmp(list->name[i], name, CT_NAME_LIST_BYTES - 1))
            return (int)i;
    if (list->count == CT_NAME_LIST_NAMES)
        return -1;
    ct_print(list->name[list->count], CT_NAME_LIST_BYTES, "%s", name);
    return (int)list->count++;
}
