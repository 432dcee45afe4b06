// SPDX-License-Identifier: Apache-2.0
// Products with an addend, which a GPU computes in one call: the result may lie where the addend was, but not over a
// factor. The results are those of the CPU, which runs the instructions one by one.
#include "TestPrograms.h"

#include <cstring>
#include <gtest/gtest.h>

namespace kerf::runtime::test {
namespace {

constexpr int64_t kSide = 8;
const Shape kSquareShape = {kSide, kSide};

/// A program of one rank with the arguments x, y and w, all square matrices.
struct SquareStep {
  package::Program program;
  FunctionBuilder main;
  int x = add("x"), y = add("y"), w = add("w");

  int add(const std::string &name) {
    program.args.push_back(
        {package::ArgKind::State, name, DType::F32, kSquareShape, kSquareShape, Sharding::replicated(2), -1});
    return main.arg(DType::F32, kSquareShape);
  }
  int op(const std::string &name, std::vector<int> operands, const Shape &shape = kSquareShape) {
    return main.op(name, std::move(operands), DType::F32, shape);
  }
  int product(int left, int right, const Shape &shape = kSquareShape) {
    return main.op("dot_general", {left, right}, DType::F32, shape,
                   {{"lhs_batching", nlohmann::ordered_json::array()},
                    {"rhs_batching", nlohmann::ordered_json::array()},
                    {"lhs_contracting", {1}},
                    {"rhs_contracting", {0}}});
  }
  package::Program finished(int result) {
    main.function.name = program.entry = "main";
    main.function.results = {result};
    program.mesh.axes = {{"a", 1}};
    program.functions = {main.function};
    program.results = {{"result", Sharding::replicated(2), kSquareShape}};
    return withSteps(program);
  }
};

/// The result of a run, and the memory that it took.
struct JoinedRun {
  std::vector<float> result;
  int64_t arenaBytes = 0;
  bool joins = false;
};
JoinedRun runJoined(std::string_view kind, const package::Program &program) {
  auto communicators = createThreadCommunicators(1);
  auto device = std::move(*createDevice(kind));
  auto executor = Executor::create(program, *device, *communicators[0], {});
  EXPECT_TRUE(executor) << executor.error().message;
  if (!executor)
    return {};
  std::vector<float> numbers(kSide * kSide);
  int64_t seed = 1;
  for (const ArgumentPiece &argument : (*executor)->arguments()) {
    for (float &number : numbers)
      number = float(double(seed = seed * 37 % 101) / 101 - 0.5);
    EXPECT_TRUE(device->copyIn(argument.tensor.data, numbers.data(), argument.tensor.bytes()));
  }
  Status status = (*executor)->step();
  EXPECT_TRUE(status) << status.error().message;
  auto view = (*executor)->result(0);
  EXPECT_TRUE(device->copyOut(numbers.data(), view->data, view->bytes()));
  JoinedRun ran{numbers, (*executor)->memory().arenaBytes};
  for (const package::StepEntry &entry : program.steps[0])
    ran.joins |= entry.kind == package::StepEntry::Kind::Join;
  return ran;
}

/// Compares a program on the GPU with the CPU, and the memory with the planned one. Returns the number of matrices that
/// the arena holds.
int64_t compared(const package::Program &program) {
  JoinedRun expected = runJoined("cpu", program), found = runJoined("cuda", program);
  EXPECT_TRUE(found.joins);
  for (size_t i = 0; i < expected.result.size(); ++i)
    EXPECT_NEAR(found.result[i], expected.result[i], 1e-5) << "element " << i;
  auto planned = planMemory(program, 0, {"cuda"});
  EXPECT_TRUE(planned) << planned.error().message;
  EXPECT_EQ(found.arenaBytes, planned->arenaBytes);
  return found.arenaBytes / (kSide * kSide * int64_t(sizeof(float)));
}

class JoinedProducts : public ::testing::Test {
protected:
  void SetUp() override {
    if (std::string missing = missingDevices("cuda", 1); !missing.empty())
      GTEST_SKIP() << missing;
  }
};

TEST_F(JoinedProducts, LieWhereTheAddendWas) {
  SquareStep s;
  int addend = s.op("tanh", {s.x}), sum = s.op("add", {s.product(s.y, s.w), addend});
  sum = s.op("add", {sum, s.product(s.x, s.w)});
  EXPECT_EQ(compared(s.finished(sum)), 1);
}

TEST_F(JoinedProducts, LieElsewhereWhereTheAddendLivesOn) {
  SquareStep s;
  int addend = s.op("tanh", {s.x}), sum = s.op("add", {s.product(s.y, s.w), addend});
  EXPECT_EQ(compared(s.finished(s.op("subtract", {sum, addend}))), 2);
  SquareStep ofArgument; // an argument keeps its value
  EXPECT_EQ(compared(ofArgument.finished(
                ofArgument.op("add", {ofArgument.x, ofArgument.product(ofArgument.y, ofArgument.w)}))),
            1);
}

TEST_F(JoinedProducts, NeverLieOverAFactor) {
  SquareStep same;
  int both = same.op("tanh", {same.x});
  EXPECT_EQ(compared(same.finished(same.op("add", {both, same.product(both, same.w)}))), 2);
  SquareStep view; // the factor is the addend's memory in another shape
  both = view.op("tanh", {view.x});
  int factor = view.op("reshape", {view.op("reshape", {both}, {kSide * kSide})}, kSquareShape);
  EXPECT_EQ(compared(view.finished(view.op("add", {both, view.product(view.w, factor)}))), 2);
}

} // namespace
} // namespace kerf::runtime::test
