// SPDX-License-Identifier: Apache-2.0
// Formatting without the host's heap or stdio.
#include "base/print.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cutrace/format/assert.h>

#include "base/signal_guard.h"

struct sink {
    char *at;
    char *end; // where the NUL goes at the latest
};

// A conversion specification: what stands between % and its letter.
struct spec {
    int left, zero, is_64_bit;
    int width;
    int precision; // -1: not given
};

static void put(struct sink *s, const char *text, size_t n) {
    if (n > (size_t)(s->end - s->at))
        n = (size_t)(s->end - s->at);
    memcpy(s->at, text, n);
    s->at += n;
}

static void put_padding(struct sink *s, char c, int n) {
    while (n-- > 0)
        put(s, &c, 1);
}

static void put_field(struct sink *s, const struct spec *f, const char *text, size_t n) {
    const int rest = f->width - (int)n;
    if (f->zero && !f->left && n && *text == '-') {
        put(s, text++, 1);
        n--;
    }
    if (!f->left)
        put_padding(s, f->zero ? '0' : ' ', rest);
    put(s, text, n);
    if (f->left)
        put_padding(s, ' ', rest);
}

// Writes the digits of v backwards from `end`, at least min_digits of them. Returns their start.
static char *put_digits_backwards(char *end, uint64_t v, unsigned base, int min_digits) {
    do {
        *--end = "0123456789abcdef"[v % base];
        v /= base;
        min_digits--;
    } while (v || min_digits > 0);
    return end;
}

static void put_integer(struct sink *s, const struct spec *f, uint64_t v, int negative,
                        unsigned base) {
    char buffer[32], *end = buffer + sizeof buffer;
    char *at = put_digits_backwards(end, v, base, 1);
    if (negative)
        *--at = '-';
    put_field(s, f, at, (size_t)(end - at));
}

static void put_double(struct sink *s, const struct spec *f, double v) {
    char buffer[64], *end = buffer + sizeof buffer, *at = end;
    int decimals = f->precision < 0 ? 6 : f->precision;
    if (decimals > 9)
        decimals = 9;
    const int negative = v < 0;
    double scale = 1;
    for (int i = 0; i < decimals; i++)
        scale *= 10;
    v = negative ? -v : v;
    const double scaled = v * scale + 0.5;
    const uint64_t n = scaled < 1.8e19 ? (uint64_t)scaled : UINT64_MAX;
    uint64_t unit = 1;
    for (int i = 0; i < decimals; i++)
        unit *= 10;
    if (decimals) {
        at = put_digits_backwards(at, n % unit, 10, decimals);
        *--at = '.';
    }
    at = put_digits_backwards(at, n / unit, 10, 1);
    if (negative)
        *--at = '-';
    put_field(s, f, at, (size_t)(end - at));
}

static const char *parse_spec(const char *at, struct spec *f, va_list *arguments) {
    *f = (struct spec){.precision = -1};
    for (; *at == '-' || *at == '0'; at++)
        if (*at == '-')
            f->left = 1;
        else
            f->zero = 1;
    for (; *at >= '0' && *at <= '9'; at++)
        f->width = f->width * 10 + (*at - '0');
    if (*at == '.') {
        f->precision = 0;
        if (*++at == '*') {
            f->precision = va_arg(*arguments, int);
            at++;
        }
        for (; *at >= '0' && *at <= '9'; at++)
            f->precision = f->precision * 10 + (*at - '0');
    }
    for (; *at == 'l' || *at == 'z'; at++)
        f->is_64_bit = 1; // a long has 64 bits on both supported machines
    return at;
}

static void put_string(struct sink *s, const struct spec *f, const char *text) {
    if (!text)
        text = "?";
    put_field(s, f, text, f->precision < 0 ? strlen(text) : strnlen(text, (size_t)f->precision));
}

size_t ct_print_va(char *buffer, size_t size, const char *format, va_list given) {
    CT_ASSERT(size > 0);
    struct sink s = {buffer, buffer + size - 1};
    va_list arguments;
    va_copy(arguments, given);
    for (const char *at = format; *at; at++) {
        struct spec f;
        if (*at != '%') {
            put(&s, at, 1);
            continue;
        }
        at = parse_spec(at + 1, &f, &arguments);
        switch (*at) {
        case 's':
            put_string(&s, &f, va_arg(arguments, const char *));
            break;
        case 'c': {
            const char c = (char)va_arg(arguments, int);
            put_field(&s, &f, &c, 1);
            break;
        }
        case 'd':
        case 'i': {
            const int64_t v = f.is_64_bit ? va_arg(arguments, long) : va_arg(arguments, int);
            put_integer(&s, &f, v < 0 ? 0 - (uint64_t)v : (uint64_t)v, v < 0, 10);
            break;
        }
        case 'u':
        case 'x':
            put_integer(&s, &f,
                        f.is_64_bit ? va_arg(arguments, unsigned long)
                                    : va_arg(arguments, unsigned),
                        0, *at == 'x' ? 16 : 10);
            break;
        case 'p':
            put(&s, "0x", 2);
            put_integer(&s, &f, (uintptr_t)va_arg(arguments, void *), 0, 16);
            break;
        case 'f':
            put_double(&s, &f, va_arg(arguments, double));
            break;
        case '%':
            put(&s, "%", 1);
            break;
        default: // an argument of unknown size: no later one can be found
            put(&s, at - 1, *at ? 2 : 1);
            goto out;
        }
    }
out:
    va_end(arguments);
    *s.at = 0;
    return (size_t)(s.at - buffer);
}

size_t ct_print(char *buffer, size_t size, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const size_t n = ct_print_va(buffer, size, format, arguments);
    va_end(arguments);
    return n;
}

size_t ct_print_utf8(char *to, uint32_t c, uint32_t otherwise) {
    if (c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF))
        c = otherwise;
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    size_t n = 4;
    if (c < 0x800)
        n = 2;
    else if (c < 0x10000)
        n = 3;
    for (size_t i = n - 1; i; i--, c >>= 6)
        to[i] = (char)(0x80 | (c & 0x3F));
    to[0] = (char)(0xF00 >> n | c);
    return n;
}

static struct {
    int is_known;
    dev_t device;
    ino_t inode;
} stderr_at_load;

__attribute__((constructor)) static void note_stderr(void) {
    struct stat st;
    stderr_at_load.is_known = !fstat(STDERR_FILENO, &st);
    if (!stderr_at_load.is_known)
        return;
    stderr_at_load.device = st.st_dev;
    stderr_at_load.inode = st.st_ino;
}

// A program that closes stderr and opens its database gets number 2 for it.
static int leads_to_stderr(void) {
    struct stat st;
    if (fstat(STDERR_FILENO, &st))
        return 0;
    if (stderr_at_load.is_known && st.st_dev == stderr_at_load.device &&
        st.st_ino == stderr_at_load.inode)
        return 1;
    const int flags = fcntl(STDERR_FILENO, F_GETFL);
    return flags != -1 && (flags & (O_ACCMODE | O_APPEND)) == (O_WRONLY | O_APPEND);
}

void ct_print_stderr(const char *line) {
    struct ct_signal_guard guard;
    ct_signal_guard_enter(&guard);
    if (leads_to_stderr())
        (void)!write(STDERR_FILENO, line, strlen(line));
    ct_signal_guard_leave(&guard);
}

// (A pipe is ready if it has room for PIPE_BUF bytes, which is more than a line.)
int ct_print_stderr_has_room(int ms) {
    const int saved = errno;
    struct pollfd stderr_is = {.fd = STDERR_FILENO, .events = POLLOUT};
    const int n = !leads_to_stderr() || poll(&stderr_is, 1, ms);
    errno = saved;
    return n != 0;
}

const char *ct_print_strerror(int error) {
    // The errors that opening and writing a trace can meet.
    static const struct {
        int error;
        const char *text;
    } known[] = {
        {ENOSPC, "no space left on the device"},
        {EDQUOT, "the disk quota is used up"},
        {EFBIG, "the file size limit is reached"},
        {EACCES, "permission denied"},
        {EPERM, "permission denied"},
        {EROFS, "read-only file system"},
        {EMFILE, "too many open files"},
        {ENFILE, "too many open files"},
        {ENOENT, "no such folder"},
        {ENOTSUP, "not a regular file"},
        {ENOTDIR, "not a folder"},
        {ENAMETOOLONG, "the name is too long"},
        {EBADF, "the program closed it"},
        {EIO, "input/output error"},
        {ENODEV, "the file system cannot map files"},
        {ENOMEM, "no memory"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].error == error)
            return known[i].text;
    return "error";
}
