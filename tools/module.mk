# SPDX-License-Identifier: Apache-2.0
# The two programs: cutrace (the launcher) and cutrace-report. They need nothing but the C library.

# All of the report but its main: unit tests and fuzzers link these.
REPORT_SRCS := $(filter-out tools/base/glibc_start.c,$(wildcard tools/base/*.c tools/report/*/*.c))
# The page's style and script are a C source that is made from the committed bundle (page/web/README.md), and so is the text
# of the licences.
REPORT_OBJS := $(REPORT_SRCS:%.c=$(BUILD)/%.o) $(BUILD)/tools/report/page/page_bundle.o $(BUILD)/tools/base/licenses_text.o

# C++ and Rust names are demangled by GNU's libiberty (two objects of it, which need only the C library).
# Where it is not installed (cross builds), names stay mangled.
LIBIBERTY := $(filter /%,$(shell $(CC) -print-file-name=libiberty.a))
DEMANGLER := cplus_demangle_v3_callback cplus_demangle_v3_components cplus_demangle_print_callback rust_demangle_callback
# Databases of `export` are written by SQLite, and profiles are compressed by zlib: both static. Where one is not installed
# (cross builds), the format says that it was left out.
LIBSQLITE := $(filter /%,$(shell $(CC) -print-file-name=libsqlite3.a))
LIBZ := $(filter /%,$(shell $(CC) -print-file-name=libz.a))
REPORT_CFLAGS := $(if $(LIBSQLITE),-DCT_HAS_SQLITE) $(if $(LIBZ),-DCT_HAS_ZLIB)
REPORT_ARCHIVES = $(if $(LIBIBERTY),$(DEMANGLER:%=-Wl$(comma)-u$(comma)%) $(LIBIBERTY)) $(LIBSQLITE) $(LIBZ) $(ZSTD_LIBS)
# (libdl: for glibc before 2.34)
REPORT_LIBS = $(REPORT_ARCHIVES) -lm -ldl
TOOLS_LDFLAGS := -static-libgcc -Wl,--gc-sections -Wl,--as-needed

# The programs run with glibc 2.28, too, whichever they are built with. A program and its archives are first linked to one
# object, in which functions are then asked for by their old versions. Those that glibc kept in libpthread and libdl before
# 2.34 come from there: these files are named as needed, and are all but empty since.
#   $(call link_tool,OBJECTS AND ARCHIVES,LIBRARIES)   links the rule's target
TOOLS_START := $(BUILD)/tools/base/glibc_start.o $(BUILD)/preload/base/glibc_compat.o
OLD_LIBRARIES = -Wl,--push-state,--no-as-needed $(call glibc_file,libpthread.so.0) $(call glibc_file,libdl.so.2) -Wl,--pop-state
define link_old_tool
	$(CC) -r -nostdlib $(CFLAGS) $(1) $(TOOLS_START) -o $@.o
	$(OBJCOPY) --redefine-syms=$(GENERATED)/redefine_tools $@.o
	$(CC) $(LDFLAGS_ALL) $(TOOLS_LDFLAGS) -Wl,--wrap=__libc_start_main $@.o $(OLD_LIBRARIES) $(2) -o $@
	@rm $@.o
endef
define link_new_tool
	$(CC) $(LDFLAGS_ALL) $(TOOLS_LDFLAGS) $(1) $(2) -o $@
endef
link_tool = $(if $(SAN)$(COVERAGE),$(link_new_tool),$(link_old_tool))

$(BUILD)/tools/%.o: tools/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) $(REPORT_CFLAGS) -D_GNU_SOURCE -ffunction-sections -fdata-sections $(DEPFLAGS) -Itools -Itools/report -I$(GENERATED) -c $< -o $@

PAGE_BUNDLE := $(addprefix tools/report/page/bundle/,page.css page.js)
$(GENERATED)/page_bundle.c: scripts/embed-page.sh $(PAGE_BUNDLE)
	@mkdir -p $(@D)
	scripts/embed-page.sh $(PAGE_BUNDLE) >$@
# By hand, after a change of tools/report/page/web: needs Node.js, npm and the registry.
.PHONY: page-bundle
page-bundle:
	scripts/check-page-bundle.sh --update
$(BUILD)/tools/report/page/page_bundle.o: $(GENERATED)/page_bundle.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) $(DEPFLAGS) -Itools/report -c $< -o $@

$(GENERATED)/licenses.c: tools/base/licenses.txt
	@mkdir -p $(@D)
	@(echo '#include "base/licenses.h"'; echo 'const char ct_licenses[] ='; \
	    sed 's/["\\]/\\&/g; s/.*/    "&\\n"/' $<; echo '    "";') >$@
$(BUILD)/tools/base/licenses_text.o: $(GENERATED)/licenses.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) $(DEPFLAGS) -Itools -c $< -o $@

$(BUILD)/cutrace-report: $(BUILD)/tools/report/main.o $(REPORT_OBJS) $(TOOLS_START)
	$(call link_tool,$(BUILD)/tools/report/main.o $(REPORT_OBJS) $(REPORT_ARCHIVES),-lm -ldl)

# The report of the packages (scripts/package): libdw is not loaded, but linked in.
# (The others unpack what libdw's own search of files would find.)
LIBDW := $(foreach library,dw elf lzma bz2,$(shell $(CC) -print-file-name=lib$(library).a))
$(BUILD)/tools/report/symbols/libdw_linked.o: tools/report/symbols/libdw.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -D_GNU_SOURCE -DCT_LIBDW_LINKED $(DEPFLAGS) -Itools -Itools/report -c $< -o $@
PACKAGED_REPORT_OBJS := $(filter-out %/libdw.o,$(REPORT_OBJS)) $(BUILD)/tools/report/symbols/libdw_linked.o
$(BUILD)/package/cutrace-report: $(BUILD)/tools/report/main.o $(PACKAGED_REPORT_OBJS) $(TOOLS_START)
	@mkdir -p $(@D)
	@$(if $(filter-out /%,$(LIBDW)),echo 'not installed: $(filter-out /%,$(LIBDW)); sh scripts/setup.sh installs it' >&2; exit 1)
	$(call link_tool,$(BUILD)/tools/report/main.o $(PACKAGED_REPORT_OBJS) $(LIBDW) $(REPORT_ARCHIVES),-lm -ldl)

# `watch` reads traces as the report does, and takes what it needs of it.
RUN_OBJS := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tools/run/*.c tools/watch/*.c))
$(BUILD)/tools/report.a: $(REPORT_OBJS)
	@rm -f $@
	$(AR) rcs $@ $^
$(BUILD)/cutrace: $(RUN_OBJS) $(BUILD)/tools/report.a $(TOOLS_START)
	$(call link_tool,$(RUN_OBJS) $(BUILD)/tools/report.a $(REPORT_ARCHIVES),-lm -ldl)

# Manual pages and completion: made from the tables of commands and options by a program of the tree.
MANUAL_OBJS := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tools/manual/*.c)) $(BUILD)/tools/run/words.o $(BUILD)/tools/report.a
$(BUILD)/make-manual: $(MANUAL_OBJS)
	$(CC) $(LDFLAGS_ALL) $(TOOLS_LDFLAGS) $^ -o $@
MANUALS := $(addprefix $(BUILD)/manual/,cutrace.1 cutrace-report.1 cutrace-trace.5 cutrace.bash _cutrace)
$(BUILD)/manual/%: $(BUILD)/make-manual
	@mkdir -p $(@D)
	$(RUN) $< $* >$@
.PHONY: manual
manual: $(MANUALS)

-include $(wildcard $(BUILD)/tools/*/*.d $(BUILD)/tools/report/*/*.d)
