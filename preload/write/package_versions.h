// SPDX-License-Identifier: Apache-2.0
// INFO about the versions of Python packages: version.NAME, by packages.def. The drainer notes the
// folders of packages whose code it meets in stacks; the writer thread reads from the names in
// these folders which versions are installed. It may wait there for a file system of the network:
// it holds no lock, and hooks and drains go on meanwhile.
#ifndef CT_WRITE_PACKAGE_VERSIONS_H
#define CT_WRITE_PACKAGE_VERSIONS_H

#include <stddef.h>

// Notes the package, if it is a known one, whose code a file is: of a Python frame, or a loaded
// object. No file is read. Drain lock held.
void ct_package_versions_note(const char *path, size_t n);

// Whether folders are noted that were not read yet. Any thread.
int ct_package_versions_has_unread(void);

// Publishes a version; with CUTRACE_PRIVATE without the label after a +, which may be the name of
// its maker. Any thread.
void ct_package_versions_publish(const char *key, const char *version);

// Reads the noted folders and publishes what was found. Writer thread only, without the drain lock.
void ct_package_versions_read(void);

#endif
