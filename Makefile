# SPDX-License-Identifier: Apache-2.0
# cutrace's build. Each folder describes its own outputs in a module.mk; this file has the toolchain, the
# flags, the dependencies and the targets for people.
#
#   make [all]            build/libcutrace.so, build/cutrace, build/cutrace-report
#   make check            build and run every test; SUITES="recorder stacks/python" runs these (tests/run-suites.sh)
#   make check-changed    the tests that the changes since BASE (origin/main, or else HEAD) can touch
#   make check-long       all of all suites and legs, by a new seed (before a release): CI=true scripts/check.sh; LEGS="asan lint" runs these
#   make check-vllm       real vLLM on the simulated GPU (1.2 GB to fetch); check-vllm-advice: whether advice helps; check-vllm-fit; vllm-golden
#   make bench            measurements
#   make lint             format, clang-tidy, shellcheck, layers, hook table against the CUDA headers
#   make page-bundle      the script and style of the HTML report, after a change of tools/report/page/web (needs Node.js, npm)
#   make install          PREFIX=/usr/local DESTDIR=
#   make clean            removes the outputs; distclean also the downloaded dependencies
#
#   BUILD=build           where outputs go          CC=gcc|clang           CROSS=aarch64-linux-gnu
#   SAN=address,undefined or SAN=thread             COVERAGE=1             WERROR=1 (as in CI)
#   CUDA_INC=/path        the folder of cuda.h      DEBUG=1  (-O0)           ASSERTS=1 (checks of invariants)

.SUFFIXES:
.DELETE_ON_ERROR:
SHELL := /bin/sh

# ---------------------------------------------------------------- toolchain
CROSS ?=
ifeq ($(origin CC),default)
CC := $(CROSS:%=%-)gcc
endif
ifeq ($(origin AR),default)
AR := $(CROSS:%=%-)ar
endif
OBJCOPY ?= $(CROSS:%=%-)objcopy
READELF ?= $(CROSS:%=%-)readelf
NM ?= $(CROSS:%=%-)nm
# How to run a program that was built: nothing, or the emulator of the cross build.
RUN ?= $(if $(CROSS),qemu-$(firstword $(subst -, ,$(CROSS))) -L /usr/$(CROSS))
# gcc 12's ThreadSanitizer cannot place its shadow where the kernel randomises addresses by 32 bits.
RUN += $(if $(findstring thread,$(SAN)),$(shell setarch -R true 2>/dev/null && echo setarch -R))
TRIPLET := $(or $(CROSS),$(shell gcc -dumpmachine))
ARCH := $(firstword $(subst -, ,$(TRIPLET)))

# ---------------------------------------------------------------- where things go
empty :=
comma := ,
SAN ?=
COVERAGE ?=
DEBUG ?=
ASSERTS ?=
BUILD ?= build
BUILD_ROOT := $(BUILD)
VARIANT := $(if $(SAN),-san-$(subst $(comma),-,$(SAN)))$(if $(ASSERTS),-asserts)$(if $(COVERAGE),-coverage)$(if $(CROSS),-$(CROSS))
override BUILD := $(BUILD_ROOT)$(if $(VARIANT),/$(patsubst -%,%,$(VARIANT)))
DEPS_DIR ?= build/deps
BUILD_DEPS := $(DEPS_DIR)
# What can be tested: a foreign build runs in an emulator alone, a sanitised library cannot be preloaded into an ordinary program.
KIND := $(if $(CROSS),cross,$(if $(findstring thread,$(SAN)),thread,$(if $(SAN),address,native)))

# ---------------------------------------------------------------- flags
# In CI; elsewhere an unknown compiler must not stop the build by a new warning.
WERROR ?= $(if $(filter true,$(CI)),1,0)
WARNINGS := -Wall -Wextra -Wshadow -Wvla -Wwrite-strings -Wpointer-arith -Wformat=2 -Wstrict-prototypes \
    -Wmissing-prototypes -Wold-style-definition -Wundef $(if $(filter 1,$(WERROR)),-Werror)
OPTIMISE := $(if $(DEBUG),-O0 -g,$(if $(SAN),-O1 -g1,$(if $(COVERAGE),-O1 -g,-O2 -g))) -fno-omit-frame-pointer
# (Use of a null pointer ends the program anyway, and sizes are AddressSanitizer's: without the two it compiles in 3/4 of the time.)
UBSAN_FLAGS := -fno-sanitize-recover=undefined $(if $(CUTRACE_FULL),,-fno-sanitize=null,object-size)
SAN_FLAGS := $(if $(SAN),-fsanitize=$(SAN) $(if $(findstring undefined,$(SAN)),$(UBSAN_FLAGS)))
COV_FLAGS := $(if $(COVERAGE),--coverage -fprofile-update=atomic)
# Overridable from outside: CFLAGS and LDFLAGS are the packager's.
CFLAGS ?=
LDFLAGS ?=
# Invariants (CT_ASSERT) are checked in sanitizer builds and with ASSERTS=1, never in what is released.
ASSERT_FLAGS := $(if $(SAN)$(ASSERTS),-DCT_ASSERTS)
CFLAGS_ALL = -std=gnu11 $(WARNINGS) $(OPTIMISE) $(ASSERT_FLAGS) $(SAN_FLAGS) $(COV_FLAGS) -pthread -Iinclude $(CFLAGS)
# (-fno-lto: only libcutrace.so says otherwise; the tests link its objects as they are)
LDFLAGS_ALL = $(SAN_FLAGS) $(COV_FLAGS) -pthread -fno-lto -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack $(LDFLAGS)
# Automatic dependency files.
DEPFLAGS = -MMD -MP

# ---------------------------------------------------------------- dependencies
# CUDA headers: CUDA_INC, $CUDA_HOME, the toolkit, the distribution's, or else NVIDIA's pip packages.
ifndef CUDA_INC
CUDA_INC := $(patsubst %/cuda.h,%,$(firstword $(wildcard $(if $(CUDA_HOME),$(CUDA_HOME)/include/cuda.h) \
    /usr/local/cuda/include/cuda.h /usr/include/cuda.h)))
endif
ifeq ($(CUDA_INC),)
CUDA_INC := $(DEPS_DIR)/cuda-13/include
CUDA_FETCH := 13
endif
# As system headers (no warnings from them); the system's own folder must not be named again.
CUDA_CFLAGS := $(if $(filter /usr/include,$(CUDA_INC)),,-isystem $(CUDA_INC))
# CUPTI's headers lie beside them, or in the toolkit's extras. Without them everything but the CUPTI backend is built.
CUPTI_INC := $(patsubst %/cupti_driver_cbid.h,%,$(firstword $(wildcard $(CUDA_INC)/cupti_driver_cbid.h \
    $(CUDA_INC)/../extras/CUPTI/include/cupti_driver_cbid.h)))
CUPTI_CFLAGS := $(if $(CUPTI_INC),-DCT_WITH_CUPTI $(if $(filter $(CUDA_INC) /usr/include,$(CUPTI_INC)),,-isystem $(CUPTI_INC)))

LIBUNWIND := $(DEPS_DIR)/libunwind-$(TRIPLET)
UNWIND_CFLAGS := -DUNW_LOCAL_ONLY -isystem $(LIBUNWIND)/include
UNWIND_LIBS := $(LIBUNWIND)/lib/libunwind.a
ifeq ($(CROSS),)
SYSROOT_DEBS :=
ZSTD_LIBS := $(shell $(CC) -print-file-name=libzstd.a)
else
# Debian's packages for the other architecture, unpacked beside ours (the system is not made multi-arch).
SYSROOT_DEBS := $(DEPS_DIR)/$(CROSS)
ZSTD_LIBS := $(SYSROOT_DEBS)/usr/lib/$(CROSS)/libzstd.a
CFLAGS_ALL += -isystem $(SYSROOT_DEBS)/usr/include
LDFLAGS_ALL += -L$(SYSROOT_DEBS)/usr/lib/$(CROSS)
RUN += -E LD_LIBRARY_PATH=$(abspath $(SYSROOT_DEBS)/usr/lib/$(CROSS))
endif
CMOCKA_LIBS := -lcmocka

# ---------------------------------------------------------------- the preload library's own flags
# It must load where the build machine's glibc is unknown: versioned functions are asked for by their oldest
# version (2.28 at most), in the sources by a force-included header, in the archives by objcopy. Those of them
# that live in libdl and libpthread before glibc 2.34 are looked up when they are called (preload/base/glibc_late.c), since
# those two in NEEDED would make each start dearer than all else together.
GLIBC_MAX := 28
PRELOAD_OWN := dlsym dlvsym dlopen dlerror dladdr dladdr1 pthread_create pthread_attr_setstacksize pthread_sigmask
glibc_file = $(shell $(CC) -print-file-name=$(1))
GENERATED := $(BUILD)/generated
PRELOAD_ARCHIVES := $(GENERATED)/libunwind.a $(GENERATED)/libzstd.a
PRELOAD_CFLAGS = -fPIC -fvisibility=hidden $(if $(SAN)$(COVERAGE),,-include $(GENERATED)/glibc_symvers.h)
PRELOAD_INCLUDES = -Iinclude -Ipreload $(CUDA_CFLAGS) $(UNWIND_CFLAGS)
PRELOAD_LDFLAGS = -shared -static-libgcc -Wl,-soname,libcutrace.so -Wl,-z,defs -Wl,-z,relro -Wl,-z,now \
    -Wl,-z,noexecstack -Wl,--exclude-libs,ALL -Wl,--hash-style=both -Wl,-z,text
PRELOAD_LIBS = $(BUILD)/preload/base/glibc_compat.o $(PRELOAD_ARCHIVES)

.PHONY: all build-tests build-cuda check check-plan check-changed check-long bench bench-programs install uninstall clean distclean lint format print-exports deps help coverage
all:

# Everything is rebuilt when the compiler, its flags or these files change: each target below has the stamp
# as a prerequisite, and the stamp is rewritten (here, while this file is read) only if its text differs.
MAKEFILES_USED := Makefile $(wildcard preload/module.mk tools/module.mk tests/*/module.mk tests/*/*/module.mk)
FLAGS_TEXT := $(shell $(CC) --version | head -n 1) $(CFLAGS_ALL) $(LDFLAGS_ALL) $(PRELOAD_CFLAGS) \
    $(PRELOAD_LDFLAGS) $(abspath $(CUDA_INC)) $(shell cat $(MAKEFILES_USED) | cksum)
FLAGS_STAMP := $(BUILD)/flags
ifneq ($(filter-out clean distclean help lint format coverage show-%,$(or $(MAKECMDGOALS),all)),)
ifeq ($(findstring n,$(filter-out --%,$(firstword -$(MAKEFLAGS)))),)
$(shell mkdir -p $(BUILD); printf '%s\n' '$(subst ','"'"',$(FLAGS_TEXT))' >$(FLAGS_STAMP).new; \
    if cmp -s $(FLAGS_STAMP).new $(FLAGS_STAMP); then rm $(FLAGS_STAMP).new; \
    else mv $(FLAGS_STAMP).new $(FLAGS_STAMP); fi)
endif

# The dependencies are built before anything else is looked at: make remakes an included file first.
include $(BUILD)/dependencies.mk
endif
$(BUILD)/dependencies.mk: scripts/build-libunwind.sh scripts/libunwind.sha256 $(wildcard scripts/libunwind-*.patch) \
    scripts/glibc-symvers.sh scripts/probe-demangler.sh $(FLAGS_STAMP)
	@mkdir -p $(GENERATED)
	@$(if $(CUDA_FETCH),scripts/fetch-cuda-headers.sh $(CUDA_FETCH) $(DEPS_DIR) >/dev/null)
	@scripts/build-libunwind.sh $(DEPS_DIR) $(CROSS)
	@$(if $(CROSS),scripts/fetch-cross-libraries.sh $(CROSS) $(DEPS_DIR))
	@scripts/probe-demangler.sh '$(CC)' '$(LIBIBERTY)' >$(GENERATED)/demangler.h
	@scripts/glibc-symvers.sh $(GLIBC_MAX) redefine '$(PRELOAD_OWN)' $(call glibc_file,libc.so.6) >$(GENERATED)/redefine
	@scripts/glibc-symvers.sh $(GLIBC_MAX) header '$(PRELOAD_OWN)' $(call glibc_file,libc.so.6) >$(GENERATED)/symvers.new
	@scripts/glibc-symvers.sh $(GLIBC_MAX) redefine '' $(call glibc_file,libc.so.6) $(call glibc_file,libm.so.6) | \
	    sed 's/^__libc_start_main /__real_&/' >$(GENERATED)/redefine_tools
	@cmp -s $(GENERATED)/symvers.new $(GENERATED)/glibc_symvers.h || \
	    cp $(GENERATED)/symvers.new $(GENERATED)/glibc_symvers.h
	@echo '# dependencies are ready' >$@ # (older than the archives, which others make from)
	@$(OBJCOPY) --redefine-syms=$(GENERATED)/redefine $(UNWIND_LIBS) $(GENERATED)/libunwind.a
	@$(OBJCOPY) --redefine-syms=$(GENERATED)/redefine $(ZSTD_LIBS) $(GENERATED)/libzstd.a
$(FLAGS_STAMP) $(MAKEFILES_USED): ;
deps: $(BUILD)/dependencies.mk

.EXTRA_PREREQS := $(FLAGS_STAMP)

$(BUILD)/preload/base/glibc_compat.o: preload/base/glibc_compat.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) $(DEPFLAGS) -fPIC -fvisibility=hidden -c $< -o $@
-include $(BUILD)/preload/base/glibc_compat.d

# ---------------------------------------------------------------- the folders' own rules
# (the simulated driver first: others link its objects)
include $(wildcard preload/module.mk tools/module.mk scripts/package/module.mk tests/sim/module.mk)
include $(filter-out tests/sim/module.mk,$(wildcard tests/*/module.mk tests/*/*/module.mk))

all: $(BUILD)/libcutrace.so $(BUILD)/cutrace $(BUILD)/cutrace-report manual

# ---------------------------------------------------------------- tests
# A module adds what its suites need (programs, libraries) to TESTS_ and the kind of build; the suites are found by name.
# A kind of build has what it alone finds (scripts/check.sh); CUTRACE_FULL=1 has all that it can run.
SUITES_cross := $(if $(CUTRACE_FULL),unit,$(UNIT_cross)) test_library.sh emulated.sh
SUITES_thread := $(UNIT_THREADED:%=unit/%) test_recorder.py test_output.py
SUITES_address := $(if $(CUTRACE_FULL),unit test_frames.py test_journal.py,preload_* codec_* state_* watch_http_request test_recorder.py) \
    test_format.py test_fuzz.sh
SUITES ?= $(SUITES_$(KIND))
BUILT_native := all
BUILT_cross := $(if $(CUTRACE_FULL),all,$(BUILD)/libcutrace.so)
BUILT_thread := $(if $(CUTRACE_FULL),$(BUILD)/cutrace-report)
BUILT_address := $(BUILD)/cutrace-report
build-tests: $(BUILT_$(KIND)) $(TESTS_$(KIND))
# What is compiled against CUDA's own headers (CUDA_INC); everything else is the same with any of them.
build-cuda: $(BUILD)/libcutrace.so $(filter sim $(addprefix $(BUILD)/tests/,interception/% torch/blocks/% recorder/%),$(TESTS_native))
# The suites of the thread sanitizer read traces by the report that is built without: their threads are the recorder's.
NATIVE_REPORT := $(if $(filter thread,$(KIND)),$(if $(CUTRACE_FULL),,build/cutrace-report))
.PHONY: native-report
native-report: build-tests
	@$(if $(NATIVE_REPORT),$(MAKE) -s SAN= BUILD=build $(NATIVE_REPORT))
RUN_SUITES = CUTRACE_READER='$(abspath $(NATIVE_REPORT))' CUTRACE_BUILD=$(abspath $(BUILD)) CUTRACE_ROOT=$(CURDIR) CUTRACE_FULL=$(CUTRACE_FULL) \
    CUTRACE_RUN='$(RUN)' CC='$(CC)' SAN='$(SAN)' CUDA_INC='$(abspath $(CUDA_INC))' tests/run-suites.sh
check: native-report
	$(RUN_SUITES) $(SUITES)
# Notes the suites in the folder PLAN, as those of LEG, for `tests/run-suites.sh --run PLAN`.
check-plan: native-report
	@$(RUN_SUITES) --plan $(PLAN) $(LEG) $(SUITES)
# The suites that a change can touch (tests/changed-suites): of what is not committed, and of the commits since BASE.
check-changed:
	@suites=$$(scripts/changed-suites.sh $(BASE)) || exit 1; \
	if [ -n "$$suites" ]; then $(MAKE) check SUITES="$$suites"; else echo 'nothing that a test could see has changed'; fi
# Everything that was left out of the others, in the parts that LEGS names: before a release.
check-long:
	CI=true CUTRACE_FULL=1 LEGS='$(LEGS)' scripts/check.sh

bench: all $(BENCHES)
	@$(if $(BENCHES),set -e; for b in $(BENCHES); do CUTRACE_BUILD=$(abspath $(BUILD)) $$b; done,echo 'bench: nothing to measure yet')

# ---------------------------------------------------------------- checks of the sources
lint:
	scripts/lint.sh

format:
	scripts/check-format.sh --fix

# After make COVERAGE=1 check: make COVERAGE=1 coverage
coverage:
	scripts/coverage.py $(BUILD)

# ---------------------------------------------------------------- installation
PREFIX ?= /usr/local
DESTDIR ?=
MAN_DIR = $(DESTDIR)$(PREFIX)/share/man
BASH_DIR = $(DESTDIR)$(PREFIX)/share/bash-completion/completions
ZSH_DIR = $(DESTDIR)$(PREFIX)/share/zsh/site-functions
install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib $(DESTDIR)$(PREFIX)/share/doc/cutrace
	install -d $(MAN_DIR)/man1 $(MAN_DIR)/man5 $(BASH_DIR) $(ZSH_DIR)
	install -m 755 $(BUILD)/cutrace $(BUILD)/cutrace-report $(DESTDIR)$(PREFIX)/bin/
	install -m 755 $(BUILD)/libcutrace.so $(DESTDIR)$(PREFIX)/lib/
	install -D -m 644 include/cutrace/cutrace.h $(DESTDIR)$(PREFIX)/include/cutrace/cutrace.h
	install -m 644 README.md LICENSE include/cutrace/format/FORMAT.md $(DESTDIR)$(PREFIX)/share/doc/cutrace/
	install -m 644 $(BUILD)/manual/cutrace.1 $(BUILD)/manual/cutrace-report.1 $(MAN_DIR)/man1/
	install -m 644 $(BUILD)/manual/cutrace-trace.5 $(MAN_DIR)/man5/
	install -m 644 $(BUILD)/manual/cutrace.bash $(BASH_DIR)/cutrace
	ln -sf cutrace $(BASH_DIR)/cutrace-report
	install -m 644 $(BUILD)/manual/_cutrace $(ZSH_DIR)/

uninstall:
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/,bin/cutrace bin/cutrace-report lib/libcutrace.so include/cutrace/cutrace.h)
	rm -f $(MAN_DIR)/man1/cutrace.1 $(MAN_DIR)/man1/cutrace-report.1 $(MAN_DIR)/man5/cutrace-trace.5
	rm -f $(BASH_DIR)/cutrace $(BASH_DIR)/cutrace-report $(ZSH_DIR)/_cutrace
	rm -rf $(DESTDIR)$(PREFIX)/share/doc/cutrace

clean:
	@if [ -d $(BUILD) ]; then find $(BUILD) -mindepth 1 -maxdepth 1 ! -name deps -exec rm -rf {} +; fi

distclean: clean
	rm -rf $(DEPS_DIR)

# The value of a variable of this file, for the scripts.
show-%:
	@printf '%s\n' '$(subst ','"'"',$($*))'

help:
	@sed -n '2,/^$$/s/^# \{0,1\}//p' Makefile
