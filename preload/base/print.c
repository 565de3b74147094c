// SPDX-License-Identifier: Apache-2.0
// Formatting without the host's heap or stdio.
#include "base/print.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/signal_guard.h"

struct sink {
    char *at, *end; // end: place of the NUL
};

struct spec {
    int left, zero, longs, size;
    int width, precision; // precision -1: not given
};

static void put(struct sink *s, const char *text, size_t n) {
    if (n > (size_t)(s->end - s->at))
        n = (size_t)(s->end - s->at);
    memcpy(s->at, text, n);
    s->at += n;
}

static void pad(struct sink *s, char c, int n) {
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
        pad(s, f->zero ? '0' : ' ', rest);
    put(s, text, n);
    if (f->left)
        pad(s, ' ', rest);
}

// Digits of v, written backwards from `end`; returns their start.
static char *digits(char *end, uint64_t v, unsigned base, int at_least) {
    do {
        *--end = "0123456789abcdef"[v % base];
        v /= base;
        at_least--;
    } while (v || at_least > 0);
    return end;
}

static void put_integer(struct sink *s, const struct spec *f, uint64_t v, int negative,
                        unsigned base) {
    char buffer[32], *end = buffer + sizeof buffer;
    char *at = digits(end, v, base, 1);
    if (negative)
        *--at = '-';
    put_field(s, f, at, (size_t)(end - at));
}

static void put_double(struct sink *s, const struct spec *f, double v) {
    char buffer[64], *end = buffer + sizeof buffer, *at = end;
    int decimals = f->precision < 0 ? 6 : f->precision > 9 ? 9 : f->precision;
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
        at = digits(at, n % unit, 10, decimals);
        *--at = '.';
    }
    at = digits(at, n / unit, 10, 1);
    if (negative)
        *--at = '-';
    put_field(s, f, at, (size_t)(end - at));
}

static const char *parse_spec(const char *at, struct spec *f, va_list *arguments) {
    *f = (struct spec){.precision = -1};
    for (; *at == '-' || *at == '0'; at++)
        *(*at == '-' ? &f->left : &f->zero) = 1;
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
        f->longs = 1; // 64 bits on every machine that this runs on
    return at;
}

static void put_string(struct sink *s, const struct spec *f, const char *text) {
    if (!text)
        text = "?";
    put_field(s, f, text, f->precision < 0 ? strlen(text) : strnlen(text, (size_t)f->precision));
}

size_t ct_print_va(char *buffer, size_t size, const char *format, va_list given) {
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
            const int64_t v = f.longs ? va_arg(arguments, long) : va_arg(arguments, int);
            put_integer(&s, &f, v < 0 ? 0 - (uint64_t)v : (uint64_t)v, v < 0, 10);
            break;
        }
        case 'u':
        case 'x':
            put_integer(&s, &f,
                        f.longs ? va_arg(arguments, unsigned long) : va_arg(arguments, unsigned), 0,
                        *at == 'x' ? 16 : 10);
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
        default: // a conversion that nobody uses: shown as it is, and nothing more can be read
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

void ct_say(const char *line) {
    struct ct_signal_guard shield;
    ct_signal_guard_enter(&shield);
    (void)!write(STDERR_FILENO, line, strlen(line));
    ct_signal_guard_leave(&shield);
}

// strerror may allocate and translates; these are the errors that a full or closed disk gives.
const char *ct_print_strerror(int error) {
    switch (error) {
    case ENOSPC:
        return "no space left on the device";
    case EDQUOT:
        return "the disk quota is used up";
    case EFBIG:
        return "the file size limit is reached";
    case EACCES:
    case EPERM:
        return "permission denied";
    case EROFS:
        return "read-only file system";
    case EMFILE:
    case ENFILE:
        return "too many open files";
    case ENOENT:
        return "no such folder";
    case ENOTDIR:
        return "not a folder";
    case ENAMETOOLONG:
        return "the name is too long";
    case EBADF:
        return "the program closed it";
    case EIO:
        return "input/output error";
    case ENODEV:
        return "the file system cannot map files";
    case ENOMEM:
        return "no memory";
    default:
        return "error";
    }
}
