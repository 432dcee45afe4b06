// SPDX-License-Identifier: Apache-2.0
// Trains a small classifier by hand-written programs on 1 to 4 ranks, and compares the results with the same training
// in plain loops. Also tests the errors of runs.
#include "TestPrograms.h"

#include <atomic>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <gtest/gtest.h>

namespace kerf::runtime::test {
namespace {

/// Trains the classifier by plain loops over the global batch. Returns the loss of each step, and w after the last one.
std::pair<std::vector<double>, std::vector<double>> reference(std::vector<double> w, const TensorMap &data,
                                                              int64_t width, int64_t classes, int steps) {
  std::vector<double> x = valuesOf(data.at("x")), velocity(w.size(), 0.0), losses;
  int64_t dataSteps = data.at("x").shape[0], rows = data.at("x").shape[1];
  for (int step = 0; step < steps; ++step) {
    const double *batch = x.data() + (step % dataSteps) * rows * width;
    std::vector<double> gradient(w.size(), 0.0);
    double loss = 0;
    for (int64_t r = 0; r < rows; ++r) {
      int64_t label = 0;
      std::memcpy(&label, data.at("labels").data + ((step % dataSteps) * rows + r) * 8, 8);
      std::vector<double> logits(static_cast<size_t>(classes), 0.0);
      double total = 0;
      for (int64_t c = 0; c < classes; ++c) {
        for (int64_t i = 0; i < width; ++i)
          logits[size_t(c)] += batch[r * width + i] * w[size_t(i * classes + c)];
        total += std::exp(logits[size_t(c)]);
      }
      loss += (std::log(total) - logits[size_t(label)]) / double(rows);
      for (int64_t c = 0; c < classes; ++c)
        for (int64_t i = 0; i < width; ++i)
          gradient[size_t(i * classes + c)] +=
              batch[r * width + i] * (std::exp(logits[size_t(c)]) / total - double(c == label)) / double(rows);
    }
    losses.push_back(loss);
    for (size_t i = 0; i < w.size(); ++i) {
      velocity[i] = 0.9 * velocity[i] + gradient[i] + 0.01 * w[i];
      w[i] -= 0.5 * velocity[i];
    }
  }
  return {losses, w};
}

std::vector<double> initialWeights(int64_t count) {
  std::vector<double> w;
  for (int64_t i = 0; i < count; ++i)
    w.push_back(std::sin(double(i)));
  return w;
}

RunOptions options(int64_t steps) {
  RunOptions options;
  options.steps = steps;
  options.learningRate = [](int64_t) { return 0.5; };
  return options;
}

class TemporaryFolder {
public:
  TemporaryFolder() {
    char pattern[] = "/tmp/kerf-run-XXXXXX";
    path = mkdtemp(pattern);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path); }
  std::string path;
};

TEST(Run, TrainsAsPlainLoopsDo) {
  constexpr int64_t kWidth = 5, kClasses = 7;
  std::vector<double> w = initialWeights(kWidth * kClasses);
  for (int64_t ranks = 1; ranks <= 4; ++ranks) {
    TensorMap data = classifierData(ranks, 3, kWidth, kClasses, 4);
    auto [losses, after] = reference(w, data, kWidth, kClasses, 6);
    TemporaryFolder folder;
    RunOptions run6 = options(6);
    run6.savePath = folder.path + "/out.safetensors";
    run6.saveStates = true;
    std::vector<double> seen;
    run6.onStep = [&](const StepResult &result) { return seen.push_back(result.loss), ok(); };
    // The file holds the weight as a vector of f32; in the program it is a matrix of f64.
    auto program = classifier(ranks, 3, kWidth, kClasses, DType::F64);
    program.args[3].exportedShape = {kClasses * kWidth};
    ASSERT_TRUE(package::checkProgram(program)) << package::checkProgram(program).error().message;
    auto report = run(program, {{"layer.weight", makeTensor({kWidth * kClasses}, w)}}, data, run6);
    ASSERT_TRUE(report) << report.error().message;
    ASSERT_EQ(seen.size(), 6u);
    for (size_t step = 0; step < 6; ++step) {
      EXPECT_NEAR(seen[step], losses[step], 1e-12);
      EXPECT_EQ(seen[step], report->steps[step].loss);
    }
    auto saved = readTensors(run6.savePath);
    ASSERT_TRUE(saved);
    EXPECT_EQ(saved->at("layer.weight").shape, Shape{kClasses * kWidth});
    EXPECT_EQ(saved->count("velocity/layer.weight"), 1u);
    std::vector<double> got = valuesOf(saved->at("layer.weight"));
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR(got[i], after[i], 1e-12);
    double square = 0;
    for (double value : w)
      square += value * value;
    EXPECT_NEAR(valuesOf(report->firstResults.at("weight_squared"))[0], square, 1e-9);
    EXPECT_EQ(report->firstResults.count("layer.weight"), 0u);
    // Six steps give the same as three steps and three more from the saved weights.
    RunOptions first = options(3), second = options(3);
    first.savePath = folder.path + "/half.safetensors";
    first.saveStates = true;
    second.firstStep = 3;
    ASSERT_TRUE(run(program, {{"layer.weight", makeTensor({kWidth * kClasses}, w)}}, data, first));
    auto resumed = run(program, *readTensors(first.savePath), data, second);
    ASSERT_TRUE(resumed);
    EXPECT_EQ(resumed->steps.back().loss, report->steps.back().loss);
  }
}

TEST(Run, ReportsMemoryAndTimes) {
  auto report = run(classifier(2, 3, 5, 7, DType::F32), {}, classifierData(2, 3, 5, 7, 2), options(3));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->memory.parametersBytes, 5 * 7 * 4);
  EXPECT_EQ(report->memory.statesBytes, 5 * 7 * 4);
  EXPECT_EQ(report->memory.inputsBytes, 3 * 5 * 4 + 3 * 8 + 4);
  EXPECT_GE(report->memory.arenaBytes, report->memory.peakLiveBytes);
  ASSERT_EQ(report->times.collectives.size(), 2u);
  for (const CollectiveTime &time : report->times.collectives) {
    EXPECT_EQ(time.op, "all_reduce");
    EXPECT_EQ(time.calls, 3);
    EXPECT_GT(time.seconds, 0);
  }
  EXPECT_EQ(report->times.collectives[1].bytes, 5 * 7 * 4);
  EXPECT_EQ(report->times.steps, 3);
  EXPECT_GE(report->times.stepSeconds, report->times.computeSeconds);
  EXPECT_EQ(report->initialized, std::vector<std::string>{"layer.weight"});
}

TEST(Run, InitializesTheSameOnAnyNumberOfRanks) {
  std::vector<double> first;
  for (int64_t ranks : {1, 2, 3, 6}) {
    auto program = classifier(ranks, 6 / ranks, 5, 7, DType::F64);
    auto report = run(program, {}, classifierData(1, 6, 5, 7, 1), options(1));
    ASSERT_TRUE(report) << report.error().message;
    first.push_back(report->steps[0].loss);
    EXPECT_NEAR(first.back(), first.front(), 1e-14);
  }
  RunOptions other = options(1);
  other.seed = 1;
  EXPECT_NE(run(classifier(1, 6, 5, 7, DType::F64), {}, classifierData(1, 6, 5, 7, 1), other)->steps[0].loss,
            first.front());
}

TEST(Run, ARankThatFailsEndsAll) {
  auto report = run(classifier(3, 4, 5, 7, DType::F32), {}, classifierData(3, 4, 5, 7, 4, 2, 1), options(4));
  ASSERT_FALSE(bool(report));
  EXPECT_EQ(report.error().message.find("rank 1: loss (cross_entropy): "), 0u) << report.error().message;
  EXPECT_NE(report.error().message.find("12"), std::string::npos) << report.error().message; // the label
  EXPECT_NE(report.error().message.find("7"), std::string::npos) << report.error().message;  // the classes
}

TEST(Run, AThrowingCallbackEndsAll) {
  RunOptions throwing = options(4);
  throwing.onStep = [](const StepResult &) -> Status { throw std::runtime_error("the log is full"); };
  auto report = run(classifier(3, 4, 5, 7, DType::F32), {}, classifierData(3, 4, 5, 7, 4), throwing);
  ASSERT_FALSE(bool(report));
  EXPECT_NE(report.error().message.find("the log is full"), std::string::npos);
}

TEST(Run, ACallbackThatFailsEndsAll) {
  RunOptions failing = options(4);
  failing.onStep = [](const StepResult &step) { return step.step < 2 ? ok() : Status(Error{"the disk is full"}); };
  auto report = run(classifier(3, 4, 5, 7, DType::F32), {}, classifierData(3, 4, 5, 7, 4), failing);
  ASSERT_FALSE(bool(report));
  EXPECT_EQ(report.error().message, "the disk is full");
}

TEST(Run, ASignalEndsItAfterItsStep) {
  RunOptions stopped = options(6);
  std::atomic<int64_t> steps = 0;
  stopped.onStep = [&](const StepResult &) { return ++steps, ok(); };
  stopped.stopSignal = [&] { return steps >= 2 ? SIGTERM : 0; };
  auto report = run(classifier(3, 4, 5, 7, DType::F32), {}, classifierData(3, 4, 5, 7, 6), stopped);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->stoppedBy, SIGTERM);
  EXPECT_EQ(report->steps.size(), 3u);
}

TEST(Run, BadInputsAreMessagesWithBothSides) {
  auto program = classifier(2, 3, 5, 7, DType::F32);
  TensorMap data = classifierData(2, 3, 5, 7, 4);
  auto message = [&](const TensorMap &weights, const TensorMap &given, RunOptions how) {
    auto report = run(program, weights, given, how);
    return report ? std::string("no error") : report.error().message;
  };
  auto expect = [](const std::string &text, std::vector<std::string> parts) {
    for (const std::string &part : parts)
      EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect(message({{"layer.weight", makeTensor({7, 5}, std::vector<double>(35))}}, data, options(1)),
         {"layer.weight", "[7, 5]", "[5, 7]"});
  expect(message({{"layer.weight", data.at("labels")}}, data, options(1)), {"layer.weight"});
  TensorMap renamed = {{"y", data.at("x")}, {"labels", data.at("labels")}};
  expect(message({}, renamed, options(1)), {"'x'", "'y'", "'labels'"});
  TensorMap transposed = {{"x", makeTensor({4, 5, 6}, std::vector<double>(120))}, {"labels", data.at("labels")}};
  expect(message({}, transposed, options(1)), {"'x'", "[4, 5, 6]", "[6, 5]", "[steps, 6, 5]"});
  TensorMap floating = {{"x", data.at("x")}, {"labels", makeTensor({4, 6}, std::vector<double>(24))}};
  expect(message({}, floating, options(1)), {"'labels'", "f64", "i64"});
  TensorMap fewer = {{"x", makeTensor({3, 6, 5}, std::vector<double>(90))}, {"labels", data.at("labels")}};
  expect(message({}, fewer, options(1)), {"'x' has 3 steps", "'labels' has 4"});
  RunOptions unwritable = options(1);
  unwritable.savePath = "/no/such/folder/out.safetensors";
  expect(message({}, data, unwritable), {"/no/such/folder", "No such file"});
  auto alone = createThreadCommunicators(1);
  RunOptions wrongRanks = options(1);
  wrongRanks.communicator = alone[0].get();
  expect(message({}, data, wrongRanks), {"2 ranks", "1 processes"});
}

} // namespace
} // namespace kerf::runtime::test
