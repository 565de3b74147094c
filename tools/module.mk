# SPDX-License-Identifier: Apache-2.0
# The two programs: cutrace (the launcher) and cutrace-report. They need nothing but the C library.

# All of the report but its main: unit tests and fuzzers link these.
REPORT_SRCS := $(filter-out tools/report/main.c,$(wildcard tools/report/*.c))
REPORT_OBJS := $(patsubst tools/report/%.c,$(BUILD)/tools/report/%.o,$(REPORT_SRCS))

# C++ names are demangled by the compiler's own libsupc++ (one object of it, which needs only the C library).
# Where it is not installed (cross builds without g++), names stay mangled.
SUPCXX := $(filter /%,$(shell $(CC) -print-file-name=libsupc++.a))
REPORT_LIBS = $(if $(SUPCXX),-Wl$(comma)-u$(comma)__gcclibcxx_demangle_callback $(SUPCXX)) $(ZSTD_LIBS)
TOOLS_LDFLAGS := -static-libgcc -Wl,--gc-sections -Wl,--as-needed

$(BUILD)/tools/%.o: tools/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -D_GNU_SOURCE -ffunction-sections -fdata-sections $(DEPFLAGS) -Itools -c $< -o $@

$(BUILD)/cutrace-report: $(BUILD)/tools/report/main.o $(REPORT_OBJS)
	$(CC) $(LDFLAGS_ALL) $(TOOLS_LDFLAGS) $^ $(REPORT_LIBS) -o $@

$(BUILD)/cutrace: $(BUILD)/tools/run/main.o
	$(CC) $(LDFLAGS_ALL) $(TOOLS_LDFLAGS) $^ -o $@

-include $(wildcard $(BUILD)/tools/report/*.d $(BUILD)/tools/run/*.d)
