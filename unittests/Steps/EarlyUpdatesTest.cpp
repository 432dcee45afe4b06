// SPDX-License-Identifier: Apache-2.0
// Tests the order of a step after the pass move-updates-ahead, on steps written by hand.
#include "../../lib/Steps/EarlyUpdates.h"

#include <deque>
#include <gtest/gtest.h>

namespace kerf::steps::test {
namespace {
using package::FlatInstruction;
using package::FlatProgram;

/// Builds a step from instructions with names. Values are given by their numbers.
struct Step {
  FlatProgram flat;
  std::deque<package::Instruction> sources;
  int values = 0;

  int value() {
    flat.values.push_back({DType::F32, {2}, false});
    return values++;
  }
  int op(const std::string &op, const std::string &name, std::vector<int> operands) {
    int result = value();
    add(op, name, std::move(operands), {result});
    return result;
  }
  void add(const std::string &op, const std::string &name, std::vector<int> operands, std::vector<int> results) {
    sources.push_back({op, operands, results, nlohmann::ordered_json::object(), name});
    flat.body.push_back({&sources.back(), operands, results});
  }
  /// Adds an update of a parameter with its velocity and gradient. Returns the new parameter.
  int update(const std::string &name, int parameter, int velocity, int gradient) {
    int newParameter = value(), newVelocity = value();
    add("call", name, {parameter, velocity, gradient, rate}, {newParameter, newVelocity});
    sources.back().update = name;
    return newParameter;
  }
  std::vector<std::string> orderAfterMoving() {
    moveUpdatesAhead(flat);
    std::vector<std::string> names;
    for (const FlatInstruction &instruction : flat.body)
      names.push_back(instruction.source->name);
    return names;
  }

  int rate = value();
};

TEST(EarlyUpdates, StandWhereTheGradientIsReady) {
  Step step;
  int p = step.value(), v = step.value(), q = step.value(), w = step.value();
  int x = step.op("negate", "forward", {p});
  int dp = step.op("negate", "dp", {x}), dq = step.op("negate", "dq", {dp});
  step.op("negate", "rest", {dq});
  int loss = step.op("negate", "loss", {x});
  step.update("update p", p, v, dp);
  step.update("update q", q, w, dq);
  step.flat.results = {loss};
  EXPECT_EQ(step.orderAfterMoving(),
            (std::vector<std::string>{"forward", "dp", "update p", "dq", "update q", "rest", "loss"}));
}

TEST(EarlyUpdates, WaitForTheLastUseOfTheOldValue) {
  Step step;
  int p = step.value(), v = step.value(), q = step.value(), w = step.value();
  int view = step.op("reshape", "view of p", {p});
  int g = step.op("negate", "g", {view});
  int pending = step.op("all_reduce", "start", {w}), reduced = step.op("wait", "wait", {pending});
  int last = step.op("add", "reads p", {view, reduced});
  step.op("negate", "rest", {last});
  step.update("update p", p, v, g);
  int newQ = step.update("update q", q, w, g);
  step.op("negate", "reads q's new value", {newQ});
  step.flat.results = {};
  EXPECT_EQ(step.orderAfterMoving(), (std::vector<std::string>{"view of p", "g", "start", "wait", "update q", "reads p",
                                                               "update p", "rest", "reads q's new value"}));
}

TEST(EarlyUpdates, StayWhereTheOldValueIsAResult) {
  Step step;
  int p = step.value(), v = step.value();
  int g = step.op("negate", "g", {v});
  step.op("negate", "rest", {g});
  step.update("update", p, v, g);
  step.flat.results = {p};
  EXPECT_EQ(step.orderAfterMoving(), (std::vector<std::string>{"g", "rest", "update"}));
}

} // namespace
} // namespace kerf::steps::test
