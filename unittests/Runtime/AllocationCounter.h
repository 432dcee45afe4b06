// SPDX-License-Identifier: Apache-2.0
// Counts the memory allocations of this process, by the code that made them. AllocationCounter.cpp replaces malloc and
// similar functions (and with them operator new), so it must be linked into a test program of its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kerf::runtime::test {

/// Numbers of allocations.
struct Allocations {
  int64_t kerf = 0;               // made by Kerf's code and by the libraries that it calls, except oneDNN
  int64_t oneDnn = 0;             // made by oneDNN
  std::vector<std::string> first; // call stacks of the first few of Kerf's allocations, innermost call first
};

/// Returns whether allocations can be counted. False in a sanitizer build, whose malloc cannot be replaced.
bool canCountAllocations();
/// Starts to count the allocations of all threads.
void startCounting();
/// Stops counting, and returns the allocations since startCounting.
Allocations stopCounting();

} // namespace kerf::runtime::test
