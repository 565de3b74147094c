// SPDX-License-Identifier: Apache-2.0
// The terminal of the live view: its other screen, its keys, the signals that end or resize it.
// Whatever ends the program but SIGKILL and a crash, the terminal is as it was before.
#ifndef CT_WATCH_TTY_H
#define CT_WATCH_TTY_H

#include <stddef.h>

enum ct_key {
    CT_KEY_NONE, // the other descriptor can be read, or nothing has come
    CT_KEY_RESIZED,
    CT_KEY_END, // a signal, or the terminal is gone: `signal` says which
    CT_KEY_UP = 256,
    CT_KEY_DOWN,
    CT_KEY_PAGE_UP,
    CT_KEY_PAGE_DOWN,
    CT_KEY_HOME,
    CT_KEY_LAST,
    CT_KEY_LEFT,
    CT_KEY_RIGHT,
    CT_KEY_F1,
    CT_KEY_F6,
    CT_KEY_F10,
    CT_KEY_ESCAPE,
    CT_KEY_OTHER, // a sequence that means nothing here
};

struct ct_tty {
    unsigned columns, rows;
    int signals; // a signalfd
    int signal;  // of CT_KEY_END; 0: the input has ended
    unsigned char bytes[64];
    size_t at, count; // of bytes that were read
};

// 0, or -1: it is no terminal.
int ct_tty_begin(struct ct_tty *t);
// Waits for a key, or until another descriptor can be read. Returns enum ct_key, or the character
// of the key.
int ct_tty_wait(struct ct_tty *t, int other);
// Writes all of a screen. 0, or -1.
int ct_tty_write(const char *text, size_t size);
void ct_tty_end(struct ct_tty *t);

#endif
