// SPDX-License-Identifier: Apache-2.0
// How messages name an instruction.
#pragma once

#include "kerf/Package/Package.h"
#include <fmt/format.h>

namespace kerf::runtime {

/// "NODE (OP)", or the op alone where no node of the user's stands behind it.
inline std::string place(const package::Instruction &instruction) {
  return instruction.name.empty() ? instruction.op : fmt::format("{} ({})", instruction.name, instruction.op);
}

/// "rank 1: NODE (OP): ..."
inline std::string placedMessage(int64_t rank, const package::Instruction &instruction, const std::string &message) {
  return fmt::format("rank {}: {}: {}", rank, place(instruction), message);
}

} // namespace kerf::runtime
