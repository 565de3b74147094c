# SPDX-License-Identifier: Apache-2.0
# Unit tests in C (cmocka, TAP). preload_*.c link the recording half of the library, report_*.c the report without its
# main, and watch_*.c what `cutrace watch` has of its own. state_*.c and codec_*.c link nothing: they test headers that
# both sides share. *_program.c are programs that a Python test drives; they are built one folder deeper, so that they
# are not taken for suites.

UNIT_DIR := $(BUILD)/tests/unit
UNIT_PRELOAD := $(patsubst tests/unit/%.c,$(UNIT_DIR)/%,$(wildcard tests/unit/preload_*.c))
UNIT_REPORT := $(patsubst tests/unit/%.c,$(UNIT_DIR)/%,$(wildcard tests/unit/report_*.c))
UNIT_WATCH := $(patsubst tests/unit/%.c,$(UNIT_DIR)/%,$(wildcard tests/unit/watch_*.c))
UNIT_STATE := $(patsubst tests/unit/%.c,$(UNIT_DIR)/%,$(wildcard tests/unit/state_*.c tests/unit/codec_*.c))
UNIT_REPORT_PROGRAMS := $(UNIT_DIR)/programs/moments_program $(UNIT_DIR)/programs/allocator_program
UNIT_PROGRAMS := $(filter-out $(UNIT_REPORT_PROGRAMS),$(patsubst tests/unit/%.c,$(UNIT_DIR)/programs/%,$(wildcard tests/unit/*_program.c)))

# The thread sanitizer has nothing to say of a test without threads; of another architecture, most is the same.
UNIT_THREADED := $(patsubst tests/unit/%.c,%,$(filter-out %_program.c,$(shell grep -ls pthread_create tests/unit/*.c)))
UNIT_cross := $(addprefix preload_,capture clock elf_symbols files first journal libunwind loaded_modules merge_python oom_message \
    options print stack_table)
UNIT_EVERY := $(UNIT_PRELOAD) $(UNIT_REPORT) $(UNIT_WATCH) $(UNIT_STATE)
TESTS_native += $(UNIT_EVERY) $(UNIT_PROGRAMS) $(UNIT_REPORT_PROGRAMS)
TESTS_cross += $(if $(CUTRACE_FULL),$(UNIT_EVERY),$(UNIT_cross:%=$(UNIT_DIR)/%))
TESTS_thread += $(UNIT_THREADED:%=$(UNIT_DIR)/%) $(UNIT_PROGRAMS)
TESTS_address += $(UNIT_PRELOAD) $(UNIT_WATCH) $(UNIT_STATE) $(UNIT_PROGRAMS) $(if $(CUTRACE_FULL),$(UNIT_REPORT))

UNIT_RECORDING = $(PRELOAD_RECORDING_OBJS) $(BUILD)/preload/base/glibc_compat.o $(PRELOAD_ARCHIVES)

$(UNIT_PRELOAD): $(UNIT_DIR)/%: tests/unit/%.c $(UNIT_RECORDING)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) $(DEPFLAGS) -D_GNU_SOURCE -Ipreload $< $(UNIT_RECORDING) $(LDFLAGS_ALL) $(CMOCKA_LIBS) -o $@

# A file whose writes can be cut and can fail.
$(UNIT_DIR)/preload_trace_file: private LDFLAGS_ALL += -Wl,--wrap=ct_pwrite,--wrap=ct_ftruncate,--wrap=ct_clock_read

# Threads that are halted on their way to the journal.
$(UNIT_DIR)/preload_journal: private LDFLAGS_ALL += -Wl,--wrap=ct_journal_add_name,--wrap=ct_name_get_text

# Walks with a fault in them.
$(UNIT_DIR)/preload_capture: private LDFLAGS_ALL += -Wl,--wrap=ct_walk_stack

# A thread that loses its core when it has left libunwind's lock.
$(UNIT_DIR)/preload_libunwind: private CFLAGS_ALL += $(UNWIND_CFLAGS)
$(UNIT_DIR)/preload_libunwind: private LDFLAGS_ALL += -Wl,--wrap=pthread_mutex_lock,--wrap=pthread_mutex_unlock

# A thread that loses its core while it reads the options.
$(UNIT_DIR)/preload_first: private LDFLAGS_ALL += -Wl,--wrap=ct_options_read

$(UNIT_PROGRAMS): $(UNIT_DIR)/programs/%: tests/unit/%.c $(UNIT_RECORDING)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) $(DEPFLAGS) -D_GNU_SOURCE -Ipreload $< $(UNIT_RECORDING) $(LDFLAGS_ALL) -o $@

$(UNIT_STATE): $(UNIT_DIR)/%: tests/unit/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) $(DEPFLAGS) $< $(LDFLAGS_ALL) $(CMOCKA_LIBS) -o $@

UNIT_HTTP := $(BUILD)/tools/watch/http_request.o
$(UNIT_WATCH): $(UNIT_DIR)/%: tests/unit/%.c $(UNIT_HTTP)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) $(DEPFLAGS) -Itools $< $(UNIT_HTTP) $(LDFLAGS_ALL) $(CMOCKA_LIBS) -o $@

define UNIT_LINK_REPORT
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) $(DEPFLAGS) -D_GNU_SOURCE -Itools -Itools/report -I$(GENERATED) $< $(BUILD)/tools/report.a $(LDFLAGS_ALL) \
	    $(CMOCKA_LIBS) $(REPORT_LIBS) -o $@
endef

$(UNIT_REPORT): $(UNIT_DIR)/%: tests/unit/%.c $(BUILD)/tools/report.a
	$(UNIT_LINK_REPORT)

$(UNIT_REPORT_PROGRAMS): $(UNIT_DIR)/programs/%: tests/unit/%.c $(BUILD)/tools/report.a
	$(UNIT_LINK_REPORT)

-include $(wildcard $(UNIT_DIR)/*.d $(UNIT_DIR)/programs/*.d)
