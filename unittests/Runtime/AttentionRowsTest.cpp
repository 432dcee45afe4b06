// SPDX-License-Identifier: Apache-2.0
// Slices before attention and concatenations after its gradients, which a device reads and writes as parts of rows.
#include "../../lib/Runtime/AttentionRows.h"

#include <deque>
#include <gtest/gtest.h>

namespace kerf::runtime {
namespace {
using package::FlatInstruction;
using package::FlatProgram;

/// A program of one stage that is written instruction by instruction.
struct Writer {
  std::deque<package::Instruction> sources;
  FlatProgram flat;

  int value(Shape shape, DType type = DType::BF16) {
    flat.values.push_back({type, std::move(shape)});
    return int(flat.values.size()) - 1;
  }
  std::vector<int> add(const std::string &op, std::vector<int> operands, std::vector<Shape> results,
                       nlohmann::ordered_json attrs = {}) {
    sources.push_back({op, {}, {}, std::move(attrs), "node"});
    FlatInstruction made{&sources.back(), std::move(operands), {}};
    for (Shape &shape : results)
      made.results.push_back(value(std::move(shape)));
    flat.body.push_back(made);
    return made.results;
  }
  int slice(int whole, size_t dimension, int64_t begin, int64_t end) {
    Shape shape = flat.values[size_t(whole)].shape, start(shape.size(), 0), limit = shape, strides(shape.size(), 1);
    start[dimension] = begin, limit[dimension] = end;
    shape[dimension] = end - begin;
    return add("slice", {whole}, {shape}, {{"start", start}, {"limit", limit}, {"strides", strides}})[0];
  }
  int reshape(int from, Shape shape) { return add("reshape", {from}, {std::move(shape)})[0]; }
  std::vector<std::string> ops() const {
    std::vector<std::string> names;
    for (const FlatInstruction &instruction : flat.body)
      names.push_back(instruction.source->op);
    return names;
  }
  void use(const std::string &device) {
    auto made = createPlanningDevice({device, "H100"});
    ASSERT_TRUE(made) << made.error().message;
    usePartsOfRows(flat, **made);
  }
};
using Ops = std::vector<std::string>;

/// Attention of 2 x 5 tokens with 4 heads of 8 numbers: queries, keys and values come from [2, 5, 3, 4, 8], and their
/// gradients go to a tensor of the same shape.
struct Packed : Writer {
  int whole = value({2, 5, 3, 4, 8}), gradient = -1;
  std::vector<int> inputs, outputs, gradients;
  const Shape head = {2, 5, 4, 8};

  Packed() {
    for (int64_t i = 0; i < 3; ++i)
      inputs.push_back(reshape(slice(whole, 2, i, i + 1), head));
    outputs = add("attention", inputs, {head, {2, 4, 5}});
    std::vector<int> operands = inputs;
    operands.insert(operands.end(), outputs.begin(), outputs.end());
    operands.push_back(value(head));
    gradients = add("attention_backward", operands, {head, head, head});
    std::vector<int> pieces;
    for (int one : {gradients[0], gradients[2], gradients[1]}) // the values come before the keys
      pieces.push_back(reshape(one, {2, 5, 1, 4, 8}));
    gradient = add("concatenate", pieces, {{2, 5, 3, 4, 8}}, {{"dimension", 2}})[0];
    flat.results = {gradient};
  }
};

TEST(AttentionRows, AreReadAndWrittenInPlace) {
  Packed program;
  program.use("cuda");
  ASSERT_EQ(program.ops(), (Ops{"attention", "attention_backward"}));
  for (const FlatInstruction &instruction : program.flat.body)
    for (size_t o = 0; o < instruction.operands.size(); ++o) {
      const FlatInstruction::RowPart &part = instruction.operandParts[o];
      EXPECT_EQ(part.value, o < 3 ? program.inputs[o] : -1);
      if (o < 3) {
        EXPECT_EQ(instruction.operands[o], program.whole);
        EXPECT_EQ(part.offset, int64_t(o) * 32);
        EXPECT_EQ(part.stride, 96);
      }
    }
  const FlatInstruction &backward = program.flat.body[1];
  EXPECT_EQ(backward.results, std::vector<int>{program.gradient});
  ASSERT_EQ(backward.resultParts.size(), 3u);
  for (size_t r = 0; r < 3; ++r) {
    EXPECT_EQ(backward.resultParts[r].value, program.gradients[r]);
    EXPECT_EQ(backward.resultParts[r].offset, std::vector<int64_t>({0, 64, 32})[r]);
    EXPECT_EQ(backward.resultParts[r].stride, 96);
  }
}

TEST(AttentionRows, StayWhereTheDeviceTakesNoParts) {
  Packed program;
  Ops before = program.ops();
  program.use("cpu");
  EXPECT_EQ(program.ops(), before);
  EXPECT_TRUE(program.flat.body[6].operandParts.empty());
}

/// Returns the ops that stay where `change` changes the program first.
template <typename F> Ops after(F change) {
  Packed program;
  change(program);
  program.use("cuda");
  return program.ops();
}
int64_t count(const Ops &ops, const std::string &op) { return std::count(ops.begin(), ops.end(), op); }

TEST(AttentionRows, StayWhereSomethingElseReadsThem) {
  EXPECT_EQ(count(after([](Packed &p) { p.add("negate", {p.inputs[1]}, {p.head}); }), "slice"), 3);
  EXPECT_EQ(count(after([](Packed &p) { p.flat.results.push_back(p.inputs[2]); }), "slice"), 3);
  EXPECT_EQ(count(after([](Packed &p) { p.add("negate", {p.gradients[1]}, {p.head}); }), "concatenate"), 1);
  EXPECT_EQ(count(after([](Packed &p) { p.flat.results.push_back(p.gradients[0]); }), "concatenate"), 1);
  // Each of the two is changed without the other one.
  EXPECT_EQ(count(after([](Packed &p) { p.flat.results.push_back(p.inputs[2]); }), "concatenate"), 0);
  EXPECT_EQ(count(after([](Packed &p) { p.flat.results.push_back(p.gradients[0]); }), "slice"), 0);
}

TEST(AttentionRows, StayWhereTheyAreNotAllOfTheValue) {
  Writer program;
  int whole = program.value({2, 5, 3, 4, 8});
  std::vector<int> inputs;
  for (int64_t i = 0; i < 2; ++i)
    inputs.push_back(program.reshape(program.slice(whole, 2, i, i + 1), {2, 5, 4, 8}));
  inputs.push_back(program.value({2, 5, 4, 8}));
  program.add("attention", inputs, {{2, 5, 4, 8}, {2, 4, 5}});
  program.use("cuda");
  EXPECT_EQ(count(program.ops(), "slice"), 2);
}

TEST(AttentionRows, StayWhereRowsAreNotAligned) {
  for (int64_t width : {8, 4}) { // a head has 16 bytes, or 8
    Writer program;
    int whole = program.value({2, 5, 3 * width});
    std::vector<int> inputs;
    for (int64_t i = 0; i < 3; ++i)
      inputs.push_back(program.reshape(program.slice(whole, 2, i * width, (i + 1) * width), {2, 5, 1, width}));
    program.add("attention", inputs, {{2, 5, 1, width}, {2, 1, 5}});
    program.use("cuda");
    EXPECT_EQ(count(program.ops(), "slice"), width == 8 ? 0 : 3);
  }
}

} // namespace
} // namespace kerf::runtime
