// SPDX-License-Identifier: Apache-2.0
// Demangling: known names, c++filt over a library's worth of names, and hostile names.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <demangler.h> // generated

#include "../lib/seed.h"
#include "../lib/unit.h"
#include "symbols/demangle.h"

static char text[4096];

static size_t demangle(const char *symbol, enum ct_demangling how) {
    return ct_demangle(symbol, strlen(symbol), how, text, sizeof text);
}

static void need(void) {
    if (!demangle("_Z1fv", CT_DEMANGLE_FULL)) {
        print_message("no demangler on this machine\n");
        skip();
    }
}

// With an older library, Rust's newer names stay as they are.
static int stays(const char *symbol) {
    return symbol[1] == 'R' && !CT_RUST_DEMANGLER_STOPS;
}

static const struct {
    const char *symbol, *simple, *full;
} known[] = {
    {"_Z1fv", "f", "f()"},
    {"_Znwm", "operator new", "operator new(unsigned long)"},
    {"_ZN2at5emptyEN3c108ArrayRefIlEE", "at::empty", "at::empty(c10::ArrayRef<long>)"},
    {"_ZN2at6native10empty_cudaIfLi3EEEvRKNS_6TensorE", "at::native::empty_cuda",
     "void at::native::empty_cuda<float, 3>(at::Tensor const&)"},
    {"_ZN1AclEv", "A::operator()", "A::operator()()"},
    {"_ZN1AltERKS_", "A::operator<", "A::operator<(A const&)"},
    {"_ZN1AlsIiEERS_T_", "A::operator<<", "A& A::operator<< <int>(int)"},
    {"_ZN1AptEv", "A::operator->", "A::operator->()"},
    {"_ZN1AcvbEv", "A::operator bool", "A::operator bool()"},
    {"_ZN1AcvT_IiEEv", "A::operator int<int>()", "A::operator int<int>()"}, // has no shorter form
    {"_ZN12_GLOBAL__N_14workEv", "(anonymous namespace)::work", "(anonymous namespace)::work()"},
    {"_ZNSt6vectorIiSaIiEEixEm", "std::vector::operator[]",
     "std::vector<int, std::allocator<int> >::operator[](unsigned long)"},
    {"_ZNSt6vectorIiSaIiEEC2Ev", "std::vector::vector",
     "std::vector<int, std::allocator<int> >::vector()"},
    {"_ZNSt6vectorIiSaIiEED1Ev", "std::vector::~vector",
     "std::vector<int, std::allocator<int> >::~vector()"},
    {"_ZNKSt6vectorIiSaIiEE4sizeEv", "std::vector::size",
     "std::vector<int, std::allocator<int> >::size() const"},
    {"_ZN3app4workB5cxx11Ei.isra.0", "app::work", "app::work[abi:cxx11](int) [clone .isra.0]"},
    {"_ZZN3app3runEvENKUlvE_clEv", "app::run::{lambda()#1}::operator()",
     "app::run()::{lambda()#1}::operator()() const"},
    {"_ZZN3app3runEPFvPFivEEENKUliE0_clEi", "app::run::{lambda()#2}::operator()",
     "app::run(void (*)(int (*)()))::{lambda(int)#2}::operator()(int) const"},
    {"_ZN3app1fIiEEPFvT_ES1_", "app::f", "void (*app::f<int>(int))(int)"}, // returns a function
    {"_ZTVN3app4PoolIiEE", "vtable for app::Pool", "vtable for app::Pool<int>"},
    {"_ZThn16_N3app4Pool3runEv", "non-virtual thunk to app::Pool::run",
     "non-virtual thunk to app::Pool::run()"},
    // Rust, v0
    {"_RNvC6_123foo3bar", "123foo::bar", "123foo::bar"},
    {"_RNqCs4fqI2P2rA04_11utf8_identsu30____7hkackfecea1cbdathfdh9hlq6y",
     "utf8_idents::\u10e1\u10d0\u10ed\u10db\u10d4\u10da\u10d0\u10d3_"
     "\u10d2\u10d4\u10db\u10e0\u10d8\u10d4\u10da\u10d8_\u10e1\u10d0\u10d3\u10d8\u10da\u10d8",
     "utf8_idents::\u10e1\u10d0\u10ed\u10db\u10d4\u10da\u10d0\u10d3_"
     "\u10d2\u10d4\u10db\u10e0\u10d8\u10d4\u10da\u10d8_\u10e1\u10d0\u10d3\u10d8\u10da\u10d8"},
    {"_RNCNCNgCs6DXkGYLi8lr_2cc5spawn00B5_", "cc::spawn::{closure#0}::{closure#0}",
     "cc::spawn::{closure#0}::{closure#0}"},
    {"_RNCINkXs25_NgCsbmNqQUJIY6D_4core5sliceINyB9_4IterhENuNgNoBb_4iter8iterator8Iterator9rposition"
     "NCNgNpB9_6memchr7memrchrs_0E0Bb_",
     "<core::slice::Iter as core::iter::iterator::Iterator>::rposition::{closure#0}",
     "<core::slice::Iter<u8> as core::iter::iterator::Iterator>::rposition::"
     "<core::slice::memchr::memrchr::{closure#1}>::{closure#0}"},
    {"_RINbNbCskIICzLVDPPb_5alloc5alloc8box_freeDINbNiB4_5boxed5FnBoxuEp6OutputuEL_ECs1iopQbuBiw2_"
     "3std",
     "alloc::alloc::box_free",
     "alloc::alloc::box_free::<dyn alloc::boxed::FnBox<(), Output = ()>>"},
    // Rust, before
    {"_ZN4main4main17he714a2e23ed7db23E", "main::main", "main::main"},
    {"_ZN71_$LT$Test$u20$$u2b$$u20$$u27$static$u20$as$u20$foo..Bar$LT$Test$GT$$GT$"
     "3bar17h930b740aa94f1d3aE",
     "<Test + 'static as foo::Bar>::bar", "<Test + 'static as foo::Bar<Test>>::bar"},
    // neither
    {"main", "", ""},
    {"_Z", "", ""},
    {"_R", "", ""},
    {"_Znonsense", "", ""},
    {"_Real_function", "", ""},
    {"Z1fv", "", ""},
};

TEST(known_names) {
    need();
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const char *symbol = known[i].symbol, *full = stays(symbol) ? "" : known[i].full,
                   *simple = stays(symbol) ? "" : known[i].simple;
        *text = 0;
        assert_int_equal(demangle(symbol, CT_DEMANGLE_FULL), strlen(full));
        assert_string_equal(text, full);
        *text = 0;
        assert_int_equal(demangle(symbol, CT_DEMANGLE_SIMPLE), strlen(simple));
        assert_string_equal(text, simple);
        assert_int_equal(demangle(known[i].symbol, CT_DEMANGLE_NO), 0);
    }
}

TEST(room) {
    need();
    assert_int_equal(ct_demangle("_Z1fv", 5, CT_DEMANGLE_FULL, text, 3), 2); // cut, not overrun
    assert_string_equal(text, "f(");
    assert_int_equal(ct_demangle("_Z1fv", 5, CT_DEMANGLE_FULL, text, 1), 0);
    assert_int_equal(ct_demangle("_Z1fvx", 5, CT_DEMANGLE_FULL, text, sizeof text),
                     3); // (the length counts)
    assert_int_equal(ct_demangle("_Z1f\0v", 6, CT_DEMANGLE_FULL, text, sizeof text), 0);
    char rust[8];
    assert_int_equal(ct_demangle("_RNvC6_123foo3bar", 17, CT_DEMANGLE_SIMPLE, rust, sizeof rust),
                     stays("_R") ? 0 : 7);
    if (!stays("_R"))
        assert_string_equal(rust, "123foo:");
}

// All symbols of a C++ library and of this program, in one run of c++filt.
TEST(compare_with_cxxfilt) {
    char command[700], library[512], symbol[9000], want[65536], path[] = "/tmp/names.XXXXXX";
    unsigned seen = 0;
    need();
    FILE *where = popen("g++ -print-file-name=libstdc++.so.6", "r");
    if (!where || fscanf(where, "%511s", library) != 1 || *library != '/') {
        print_message("no libstdc++ on this machine\n");
        skip();
    }
    pclose(where);
    close(mkstemp(path));
    snprintf(command, sizeof command,
             "nm -D --defined-only --without-symbol-versions '%s' | sed 's/.* //; /^_Z/!d' >%s",
             library, path);
    assert_int_equal(system(command), 0);
    snprintf(command, sizeof command, "c++filt -i <%s", path);
    FILE *symbols = fopen(path, "r"), *names = popen(command, "r");
    assert_non_null(symbols);
    assert_non_null(names);
    while (fgets(symbol, sizeof symbol, symbols) && fgets(want, sizeof want, names)) {
        symbol[strcspn(symbol, "\n")] = want[strcspn(want, "\n")] = 0;
        if (strlen(want) >= sizeof text)
            continue;
        *text = 0;
        (void)demangle(symbol, CT_DEMANGLE_FULL);
        if (strcmp(*text ? text : symbol, want) != 0)
            fail_msg("%s: %s, not %s", symbol, text, want);
        if (*text) {
            assert_int_not_equal(demangle(symbol, CT_DEMANGLE_SIMPLE), 0);
            assert_true(strlen(text) <= strlen(want));
        }
        seen++;
    }
    pclose(names);
    fclose(symbols);
    unlink(path);
    assert_true(seen > 2000);
}

// Substitutions of substitutions: some hundred bytes that stand for more than there is memory.
TEST(explosive_names) {
    char symbol[4000];
    need();
    // f(A, pair<A, A>, pair<pair<A, A>, pair<A, A>>, ...)
    size_t n = (size_t)sprintf(symbol, "_Z1f1A4pairIS_S_E");
    for (int i = 1; i < 34; i++) {
        const char digit = (char)(i < 10 ? '0' + i : 'A' + i - 10);
        n += (size_t)sprintf(symbol + n, "S0_IS%c_S%c_E", digit, digit);
    }
    assert_int_equal(demangle(symbol, CT_DEMANGLE_FULL), sizeof text - 1);
    assert_int_equal(demangle(symbol, CT_DEMANGLE_SIMPLE), 1);
    assert_string_equal(text, "f");
    // the same in Rust: tuples of the tuple before
    n = (size_t)sprintf(symbol, "_RINvC1a1fTuuE");
    size_t before = 8;
    for (int i = 0; i < 40; i++) {
        static const char digits[] =
            "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
        const size_t back = before - 1, here = n - 2;
        char place[8];
        if (back < 62)
            sprintf(place, "%c", digits[back]);
        else
            sprintf(place, "%c%c", digits[back / 62], digits[back % 62]);
        n += (size_t)sprintf(symbol + n, "TB%s_B%s_E", place, place);
        before = here;
    }
    sprintf(symbol + n, "E");
    assert_int_equal(demangle(symbol, CT_DEMANGLE_FULL), stays(symbol) ? 0 : sizeof text - 1);
    // names that stand for themselves: a path, a type, a constant
    (void)demangle("_RB_", CT_DEMANGLE_FULL);
    (void)demangle("_RINvC1a1fB7_E", CT_DEMANGLE_FULL);
    (void)demangle("_RINvC1a1fKB8_E", CT_DEMANGLE_FULL);
    // brackets that go deep
    memset(symbol, 'P', sizeof symbol);
    memcpy(symbol, "_Z1f", 4);
    symbol[sizeof symbol - 2] = 'i';
    symbol[sizeof symbol - 1] = 0;
    (void)demangle(symbol, CT_DEMANGLE_FULL);
    (void)demangle(symbol, CT_DEMANGLE_SIMPLE);
    memset(symbol + 4, 'N', sizeof symbol - 6);
    assert_int_equal(demangle(symbol, CT_DEMANGLE_FULL), 0);
}

// Names that were right, with a few bytes wrong: whatever comes of them fits (run with
// SAN=address).
TEST(wrong_names) {
    unsigned seed = 1 + (unsigned)test_seed(), named = 0;
    need();
    for (int i = 0; i < 40000; i++) {
        char symbol[400];
        const char *from = known[(unsigned)rand_r(&seed) % (sizeof known / sizeof *known)].symbol;
        snprintf(symbol, sizeof symbol, "%s", from);
        for (int k = rand_r(&seed) % 4; k >= 0; k--)
            symbol[(unsigned)rand_r(&seed) % strlen(from)] =
                "_ZRNSIETC0123456789abcLUvKPB$.<"[rand_r(&seed) % 31];
        memset(text, 'x', sizeof text);
        const size_t n = demangle(symbol, i % 2 ? CT_DEMANGLE_FULL : CT_DEMANGLE_SIMPLE);
        assert_true(n < sizeof text);
        assert_true(!n || text[n] == 0);
        named += n > 0;
    }
    assert_true(named > 1000);
}
