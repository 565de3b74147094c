# SPDX-License-Identifier: Apache-2.0
# The packages: make wheel, deb, tarball, or release for all of them (README.md in this folder). All hold the same files,
# which `make install` puts into one folder, stripped, with libdw linked in and the licences of what is linked in.

VERSION := $(shell sed -n 's/^\#define CT_VERSION "\(.*\)"/\1/p' tools/base/version.h)
PACKAGE_STAGE := $(BUILD)/package/stage
RELEASE_DIR := $(BUILD)/release
PACKAGER ?= cutrace maintainers <maintainers@cutrace.invalid>
STRIP ?= $(CROSS:%=%-)strip

# (Times in packages are those of the version's day, whoever builds it: twice the same bytes.)
SOURCE_DATE_EPOCH ?= $(shell date -u -d "$$(sed -n 's/^\#define CT_VERSION_DATE "\(.*\)"/\1/p' tools/base/version.h)" +%s)
MAKE_PACKAGE = SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH) VERSION='$(VERSION)' ARCH='$(ARCH)' PACKAGER='$(PACKAGER)' \
    STAGE='$(abspath $(PACKAGE_STAGE))' RELEASE='$(abspath $(RELEASE_DIR))'

# (What the suites package, where the archives that are linked in are installed.)
TESTS_native += $(if $(COVERAGE)$(filter-out /%,$(LIBDW)),,$(BUILD)/package/cutrace-report)

.PHONY: wheel deb tarball release package-stage
package-stage: all $(BUILD)/package/cutrace-report
	@rm -rf $(PACKAGE_STAGE)
	@$(MAKE) -s install PREFIX= DESTDIR=$(abspath $(PACKAGE_STAGE)) >/dev/null
	install -m 755 $(BUILD)/package/cutrace-report $(PACKAGE_STAGE)/bin/
	$(STRIP) --strip-unneeded --remove-section=.comment $(addprefix $(PACKAGE_STAGE)/,bin/cutrace bin/cutrace-report lib/libcutrace.so)
	scripts/package/collect-licenses.sh $(PACKAGE_STAGE) $(LIBUNWIND)
tarball: package-stage
	$(MAKE_PACKAGE) scripts/package/make-tarball.sh
wheel: package-stage
	$(MAKE_PACKAGE) scripts/package/make-wheel.py
deb: package-stage
	$(MAKE_PACKAGE) scripts/package/make-deb.sh
release: tarball wheel deb
	cd $(RELEASE_DIR) && sha256sum cutrace[-_]$(VERSION)[-_]* >SHA256SUMS
