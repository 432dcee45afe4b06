// SPDX-License-Identifier: Apache-2.0
// The properties of one accelerator of this machine, as its maker's library tells them.
#pragma once

#include "kerf/Package/Package.h"
#include <cstdint>
#include <string>

namespace kerf::runtime {

/// The properties of a GPU or an NPU.
struct DeviceProperties {
  std::string name;             // the product's name, as cluster files have it, such as "A100-SXM4-80GB"
  int64_t memoryBytes = 0;      // bytes of its memory
  int64_t freeBytes = 0;        // bytes that no program has taken
  int64_t processors = 1;       // its streaming multiprocessors, or its cores for products
  DType halfType = DType::BF16; // the type of 16 bits in which it trains
};

} // namespace kerf::runtime
