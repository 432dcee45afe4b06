// SPDX-License-Identifier: Apache-2.0
#include "JoinInstructions.h"
#include "kerf/Package/JoinedInstruction.h"

#include <algorithm>

namespace kerf::runtime {

namespace {
/// Returns the result of `chain`, the instruction after the product, that may be written over the product; -1 if there
/// is none.
int overwriting(const FlatProgram &flat, const FlatInstruction &chain, int product, const Device &device) {
  auto operand = std::find(chain.operands.begin(), chain.operands.end(), product);
  for (size_t r = 0; r < chain.results.size(); ++r) {
    const package::Value &from = flat.values[size_t(product)], &to = flat.values[size_t(chain.results[r])];
    if (from.dtype == to.dtype && from.shape == to.shape && operand != chain.operands.end() &&
        device.mayOverwrite(*chain.source, chain.kernel, int(operand - chain.operands.begin()), int(r)))
      return chain.results[r];
  }
  return -1;
}

/// Returns the group as one instruction; nothing if it has to run one by one.
std::optional<FlatInstruction> joined(const FlatProgram &flat, std::span<const FlatInstruction> group,
                                      const Device &device) {
  auto epilogue = package::epilogueOf(flat.values, group);
  bool inside = epilogue && epilogue->product != epilogue->result;
  if (!epilogue || (inside && overwriting(flat, group[1], epilogue->product, device) < 0))
    return std::nullopt;
  return package::joinedInstruction(flat.values, group);
}
} // namespace

void joinInstructions(FlatProgram &flat, const Device &device) {
  if (!device.joinsProducts())
    return;
  std::vector<FlatInstruction> body;
  for (size_t i = 0; i < flat.body.size(); ++i) {
    size_t more = size_t(flat.body[i].joined);
    auto made = more > 0 ? joined(flat, std::span<const FlatInstruction>(flat.body).subspan(i, more + 1), device)
                         : std::nullopt;
    body.push_back(made ? std::move(*made) : std::move(flat.body[i]));
    if (made)
      i += more;
  }
  flat.body = std::move(body);
}

void placeInsideOfGroups(const FlatProgram &flat, const Device &device, BufferPlan &buffers) {
  for (const FlatInstruction &instruction : flat.body)
    if (!instruction.parts.empty())
      if (int product = instruction.parts[0].results[0]; buffers.bufferOf[size_t(product)] < 0)
        buffers.bufferOf[size_t(product)] =
            buffers.bufferOf[size_t(overwriting(flat, instruction.parts[1], product, device))];
}

} // namespace kerf::runtime
