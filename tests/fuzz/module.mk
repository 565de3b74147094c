# SPDX-License-Identifier: Apache-2.0
# The fuzz drivers of the report: traces, seeking in traces, quick answers, texts, snapshots of PyTorch's, and zip files.
# `make CC=clang build/tests/fuzz/libfuzzer_reader` makes it a libFuzzer target.

FUZZERS := $(patsubst %,$(BUILD)/tests/fuzz/fuzz_%,quick reader text snapshot zip)
TESTS_native += $(FUZZERS)
TESTS_address += $(FUZZERS)

$(FUZZERS): $(BUILD)/tests/fuzz/%: tests/fuzz/%.c $(BUILD)/tools/report.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -D_GNU_SOURCE $(DEPFLAGS) -Itools -Itools/report $< $(BUILD)/tools/report.a $(LDFLAGS_ALL) $(REPORT_LIBS) -o $@

$(BUILD)/tests/fuzz/libfuzzer_reader: tests/fuzz/fuzz_reader.c $(REPORT_SRCS)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) $(REPORT_CFLAGS) -D_GNU_SOURCE -DCT_LIBFUZZER -fsanitize=fuzzer,address,undefined -Itools -Itools/report -I$(GENERATED) $^ $(REPORT_LIBS) -o $@

-include $(wildcard $(BUILD)/tests/fuzz/*.d)
