// SPDX-License-Identifier: Apache-2.0
// A library that is loaded at another one's old address: the same code with frames of another size.
#include <string.h>

void plugin_call(void (*back)(void), int n);

static __attribute__((noinline)) void inside(void (*back)(void), int n) {
    char room[ROOM];
    memset(room, n, sizeof room);
    __asm__ volatile("" : : "r"(room) : "memory");
    if (n)
        inside(back, n - 1);
    else
        back();
    __asm__ volatile("" : : "r"(room) : "memory");
}

__attribute__((visibility("default"))) void plugin_call(void (*back)(void), int n) {
    inside(back, n);
    __asm__ volatile("" : : : "memory");
}
