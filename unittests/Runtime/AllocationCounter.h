// SPDX-License-Identifier: Apache-2.0
// Counts what this process allocates, by who asked for it. The file that implements it replaces malloc and its kin (and
// with them operator new), so it belongs into a program of its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kerf::runtime::test {

struct Allocations {
  int64_t kerf = 0;               // by Kerf's code, and by the libraries that it calls but for oneDNN
  int64_t oneDnn = 0;             // by oneDNN itself
  std::vector<std::string> first; // call stacks of Kerf's first few, innermost call first
};

/// False in a sanitizer build, whose own malloc can't be replaced: nothing is counted there.
bool canCountAllocations();
/// Counts all threads from now on.
void startCounting();
Allocations stopCounting();

} // namespace kerf::runtime::test
