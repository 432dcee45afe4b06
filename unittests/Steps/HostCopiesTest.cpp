// SPDX-License-Identifier: Apache-2.0
#include "../../lib/Steps/HostCopies.h"

#include <deque>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <map>

namespace kerf::steps {
namespace {
using package::FlatInstruction;
using package::FlatProgram;

/// Layers that run forward, then backward. Each layer's result is offloaded to host memory in between.
struct Step {
  std::deque<package::Instruction> sources; // stay where they are
  FlatProgram flat;

  int add(const std::string &op, std::vector<int> operands, int call, int64_t microbatch) {
    sources.push_back({op, {}, {}, nlohmann::ordered_json::object(), ""});
    flat.values.push_back({DType::F64, {1}});
    int result = int(flat.values.size()) - 1;
    FlatInstruction instruction{&sources.back(), std::move(operands), {result}};
    instruction.call = call;
    instruction.microbatch = microbatch;
    flat.body.push_back(std::move(instruction));
    return result;
  }

  explicit Step(int layers, int64_t microbatches) {
    int calls = 0;
    for (int64_t m = 0; m < microbatches; ++m) {
      std::vector<int> copies;
      for (int layer = 0; layer < layers; ++layer) {
        int made = add(fmt::format("forward{}", layer), {}, calls++, m);
        copies.push_back(add("wait", {add("offload", {made}, -1, m)}, -1, m));
      }
      for (int layer = layers; layer-- > 0;) {
        int back = add("wait", {add("prefetch", {copies[size_t(layer)]}, -1, m)}, -1, m);
        add(fmt::format("backward{}", layer), {back}, calls++, m);
      }
    }
    overlapHostCopies(flat);
  }

  /// Returns the waits and copies, each with the number of its layer.
  std::string text() const {
    std::map<int, std::string> layerOf;
    std::string text;
    for (const FlatInstruction &instruction : flat.body) {
      const std::string &op = instruction.source->op;
      std::string its =
          op.back() >= '0' && op.back() <= '9' ? op.substr(op.size() - 1) : layerOf[instruction.operands[0]];
      layerOf[instruction.results[0]] = its;
      text += (text.empty() ? "" : " ") + (op.back() == its.back() ? op : op + its);
    }
    return text;
  }
};

TEST(HostCopies, RunBesideTheLayersNextToThem) {
  EXPECT_EQ(Step(3, 1).text(),
            "forward0 offload0 forward1 wait0 offload1 forward2 wait1 offload2 wait2 prefetch2 prefetch1 wait2 "
            "backward2 prefetch0 wait1 backward1 wait0 backward0");
}

TEST(HostCopies, StayInTheirMicrobatch) {
  EXPECT_EQ(Step(2, 2).text(),
            "forward0 offload0 forward1 wait0 offload1 wait1 prefetch1 prefetch0 wait1 backward1 wait0 backward0 "
            "forward0 offload0 forward1 wait0 offload1 wait1 prefetch1 prefetch0 wait1 backward1 wait0 backward0");
}

TEST(HostCopies, AreNotFetchedBeforeTheyAreThere) {
  // With one layer, the offloaded value is needed at once.
  EXPECT_EQ(Step(1, 1).text(), "forward0 offload0 wait0 prefetch0 wait0 backward0");
}

} // namespace
} // namespace kerf::steps
