// SPDX-License-Identifier: Apache-2.0
#include "command/traits.h"

int ct_command_is_about_trace(enum ct_command command) {
    return command != CT_COMMAND_copy;
}

int ct_command_shows_frames(enum ct_command command) {
    return command != CT_COMMAND_timeline && command != CT_COMMAND_stats &&
           command != CT_COMMAND_info && command != CT_COMMAND_fit &&
           ct_command_is_about_trace(command);
}

int ct_command_needs_details(enum ct_command command) {
    return command == CT_COMMAND_dump || command == CT_COMMAND_stats ||
           command == CT_COMMAND_export || command == CT_COMMAND_copy || command == CT_COMMAND_info;
}
