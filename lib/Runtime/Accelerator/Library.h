// SPDX-License-Identifier: Apache-2.0
// A vendor's shared libraries, which are found and loaded while the program runs.
#pragma once

#include "kerf/Support/Result.h"
#include <string>
#include <vector>

namespace kerf::runtime {

/// A loaded library. It stays loaded to the end of the process.
struct Library {
  void *handle = nullptr; // what dlopen returned
  std::string file;       // the path or name it was loaded by
};

/// Returns the value of an environment variable; an empty text if it is not set.
std::string environmentVariable(const char *name);
/// Returns the paths of a file in the folders that a text lists, separated by ':'.
std::vector<std::string> inFolders(const std::string &folders, const std::string &file);
/// Loads the first one of some files that exists and that the loader takes, and otherwise the library that the system's
/// loader finds under `name`. `flags` are those of dlopen. Fails with what the loader says first.
Result<Library> openFirst(std::vector<std::string> files, const std::string &name, int flags);

} // namespace kerf::runtime
