# SPDX-License-Identifier: Apache-2.0
# Measurements (`make bench`): scripts that print lines for people. TESTS keeps their programs compiling.

BENCHES += tests/bench/report.sh
TESTS += $(BUILD)/tests/bench/make_trace
bench: $(BUILD)/tests/bench/make_trace

$(BUILD)/tests/bench/make_trace: tests/bench/make_trace.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) $(DEPFLAGS) -Itools $< $(LDFLAGS_ALL) $(ZSTD_LIBS) -o $@

-include $(wildcard $(BUILD)/tests/bench/*.d)
