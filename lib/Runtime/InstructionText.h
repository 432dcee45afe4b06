// SPDX-License-Identifier: Apache-2.0
// The text by which error messages name an instruction.
#pragma once

#include "kerf/Package/Package.h"
#include <fmt/format.h>

namespace kerf::runtime {

/// Returns "NODE (OP)", where NODE is the model's node that the instruction came from, or only "OP" if there is
/// no such node.
inline std::string instructionText(const package::Instruction &instruction) {
  return instruction.name.empty() ? instruction.op : fmt::format("{} ({})", instruction.name, instruction.op);
}

/// Returns an error message with its rank and instruction in front, for example "rank 1: NODE (OP): label 12 is ...".
inline std::string rankMessage(int64_t rank, const package::Instruction &instruction, const std::string &message) {
  return fmt::format("rank {}: {}: {}", rank, instructionText(instruction), message);
}

} // namespace kerf::runtime
