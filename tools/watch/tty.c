// SPDX-License-Identifier: Apache-2.0
// Plain sequences that every terminal of today knows (xterm, tmux, screen, the Linux console).
#include "watch/tty.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

// The other screen, without a cursor and without wrapping at its right edge.
static const char enter_screen[] = "\033[?1049h\033[?25l\033[?7l\033[H\033[2J",
                  leave_screen[] = "\033[0m\033[?7h\033[?25h\033[?1049l";
enum { ESCAPE_MS = 40 }; // a sequence comes at once; the key alone does not go on

static struct termios before;
static int is_raw;

int ct_tty_write(const char *text, size_t size) {
    while (size) {
        const ssize_t n = write(STDOUT_FILENO, text, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        text += n;
        size -= (size_t)n;
    }
    return 0;
}

static void read_size(struct ct_tty *t) {
    struct winsize size = {0};
    (void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    t->columns = size.ws_col ? size.ws_col : 80;
    t->rows = size.ws_row ? size.ws_row : 24;
    if (t->columns > 400)
        t->columns = 400;
}

static void restore(void) {
    if (!is_raw)
        return;
    is_raw = 0;
    (void)ct_tty_write(leave_screen, sizeof leave_screen - 1);
    (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
}

static int make_raw(void) {
    struct termios raw;
    if (tcgetattr(STDIN_FILENO, &before))
        return -1;
    raw = before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    if (tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw))
        return -1;
    is_raw = 1;
    return ct_tty_write(enter_screen, sizeof enter_screen - 1);
}

static void list_signals(sigset_t *set) {
    static const int list[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH};
    sigemptyset(set);
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        sigaddset(set, list[i]);
}

int ct_tty_begin(struct ct_tty *t) {
    sigset_t set;
    *t = (struct ct_tty){.signals = -1};
    list_signals(&set);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    t->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    (void)atexit(restore);
    read_size(t);
    return t->signals < 0 ? -1 : make_raw();
}

void ct_tty_end(struct ct_tty *t) {
    sigset_t set;
    restore();
    if (t->signals >= 0)
        close(t->signals);
    list_signals(&set);
    if (t->signal && t->signal != SIGINT)
        (void)raise(t->signal); // which is blocked until the next line
    (void)sigprocmask(SIG_UNBLOCK, &set, NULL);
}

// ---- keys ---------------------------------------------------------------------------------------

static const struct {
    const char *sequence; // after ESC
    enum ct_key key;
} sequences[] = {{"[A", CT_KEY_UP},         {"OA", CT_KEY_UP},    {"[B", CT_KEY_DOWN},
                 {"OB", CT_KEY_DOWN},       {"[C", CT_KEY_RIGHT}, {"OC", CT_KEY_RIGHT},
                 {"[D", CT_KEY_LEFT},       {"OD", CT_KEY_LEFT},  {"[5~", CT_KEY_PAGE_UP},
                 {"[6~", CT_KEY_PAGE_DOWN}, {"[H", CT_KEY_HOME},  {"[1~", CT_KEY_HOME},
                 {"OH", CT_KEY_HOME},       {"[F", CT_KEY_LAST},  {"[4~", CT_KEY_LAST},
                 {"OF", CT_KEY_LAST},       {"OP", CT_KEY_F1},    {"[11~", CT_KEY_F1},
                 {"[[A", CT_KEY_F1},        {"[17~", CT_KEY_F6},  {"[21~", CT_KEY_F10}};

// The length of the sequence at the next byte: '[' or 'O', parameters, and a last byte.
static size_t measure_sequence(const struct ct_tty *t) {
    size_t n = 1;
    if (t->bytes[t->at + 1] == '[' && t->at + 2 < t->count && t->bytes[t->at + 2] == '[')
        n++;
    while (t->at + n + 1 < t->count && t->bytes[t->at + n + 1] < '@')
        n++;
    return n + 1;
}

static int take_sequence(struct ct_tty *t) {
    const size_t n = measure_sequence(t);
    const char *at = (const char *)t->bytes + t->at + 1;
    t->at = t->at + n + 1 < t->count ? t->at + n + 1 : t->count;
    for (size_t i = 0; i < sizeof sequences / sizeof *sequences; i++)
        if (strlen(sequences[i].sequence) == n && memcmp(at, sequences[i].sequence, n) == 0)
            return (int)sequences[i].key;
    return CT_KEY_OTHER;
}

static int can_read(unsigned ms) {
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&in, 1, (int)ms) > 0;
}

// Reads more after what is there. Returns 0 at the end of the input.
static int read_more(struct ct_tty *t) {
    memmove(t->bytes, t->bytes + t->at, t->count - t->at);
    t->count -= t->at;
    t->at = 0;
    const ssize_t n = read(STDIN_FILENO, t->bytes + t->count, sizeof t->bytes - t->count);
    if (n > 0)
        t->count += (size_t)n;
    return n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN));
}

static int take_key(struct ct_tty *t) {
    const int c = t->bytes[t->at];
    if (c != '\033') {
        t->at++;
        return c;
    }
    if (t->at + 1 == t->count && can_read(ESCAPE_MS))
        (void)read_more(t);
    if (t->at + 1 < t->count && (t->bytes[t->at + 1] == '[' || t->bytes[t->at + 1] == 'O'))
        return take_sequence(t);
    t->at++;
    return CT_KEY_ESCAPE;
}

// ---- waiting ------------------------------------------------------------------------------------

static void stop(struct ct_tty *t) {
    restore();
    (void)raise(SIGSTOP);
    (void)make_raw();
    read_size(t);
}

static int take_signal(struct ct_tty *t) {
    struct signalfd_siginfo info;
    if (read(t->signals, &info, sizeof info) != (ssize_t)sizeof info)
        return CT_KEY_NONE;
    if (info.ssi_signo == SIGTSTP)
        stop(t);
    if (info.ssi_signo == SIGTSTP || info.ssi_signo == SIGWINCH) {
        read_size(t);
        return CT_KEY_RESIZED;
    }
    t->signal = (int)info.ssi_signo;
    return CT_KEY_END;
}

int ct_tty_wait(struct ct_tty *t, int other) {
    struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                           {.fd = t->signals, .events = POLLIN},
                           {.fd = other, .events = POLLIN}};
    if (t->at < t->count)
        return take_key(t);
    if (poll(fds, 3, -1) <= 0)
        return CT_KEY_NONE;
    if (fds[1].revents)
        return take_signal(t);
    if (!fds[0].revents)
        return CT_KEY_NONE;
    if (!read_more(t))
        return CT_KEY_END;
    return t->at < t->count ? take_key(t) : CT_KEY_NONE;
}
