// SPDX-License-Identifier: Apache-2.0
// A session gives the same results, step by step, as a run of the same program. It continues a checkpoint with the same
// bits, and it reports errors of a batch or a rank.
#include "kerf/Runtime/Session.h"
#include "TestPrograms.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <gtest/gtest.h>
#include <limits>
#include <thread>

namespace kerf::runtime::test {
namespace {

constexpr int64_t kRows = 3, kWidth = 5, kClasses = 7;
constexpr double kRate = 0.5;

/// A folder that is removed at the end of the test.
class SessionFolder {
public:
  SessionFolder() {
    char pattern[] = "/tmp/kerf-session-XXXXXX";
    path = mkdtemp(pattern);
  }
  ~SessionFolder() { std::filesystem::remove_all(path); }
  std::string path;
};

package::Program programOf(int64_t ranks) { return classifier(ranks, kRows, kWidth, kClasses, DType::F64); }

TensorMap startWeights() {
  std::vector<double> w;
  for (int64_t i = 0; i < kWidth * kClasses; ++i)
    w.push_back(std::sin(double(i)));
  return {{"layer.weight", makeTensor({kWidth, kClasses}, w)}};
}

/// Returns batch `number` of data whose first axis counts batches.
TensorMap batchOf(const TensorMap &data, int64_t number) {
  TensorMap batch;
  for (const auto &[name, all] : data) {
    Tensor one = all;
    one.shape.erase(one.shape.begin());
    one.data += number * one.bytes();
    batch.emplace(name, std::move(one));
  }
  return batch;
}

SessionOptions sessionOptions() {
  SessionOptions options;
  options.learningRate.peak = kRate;
  return options;
}

RunReport runOf(const package::Program &program, const TensorMap &data, int64_t steps) {
  RunOptions options;
  options.steps = steps;
  options.learningRate = [](int64_t) { return kRate; };
  auto report = run(program, startWeights(), data, options);
  EXPECT_TRUE(report) << report.error().message;
  return report ? std::move(*report) : RunReport();
}

TEST(Session, StepsAsARunDoes) {
  for (int64_t ranks : {1, 4}) {
    TensorMap data = classifierData(ranks, kRows, kWidth, kClasses, 4);
    RunReport expected = runOf(programOf(ranks), data, 4);
    auto session = Session::create(programOf(ranks), startWeights(), sessionOptions());
    ASSERT_TRUE(session) << session.error().message;
    EXPECT_EQ(session->inputs().size(), 2u);
    for (int64_t step = 0; step < 4; ++step) {
      auto result = session->step(batchOf(data, step));
      ASSERT_TRUE(result) << result.error().message;
      EXPECT_EQ(result->loss, expected.steps[size_t(step)].loss);
      EXPECT_EQ(result->learningRate, kRate);
      EXPECT_EQ(result->step, step);
    }
    EXPECT_EQ(session->nextStep(), 4);
    EXPECT_EQ(session->memory().totalBytes(), expected.memory.totalBytes());
  }
}

TEST(Session, GoesOnFromACheckpointBitForBit) {
  SessionFolder folder;
  TensorMap data = classifierData(2, kRows, kWidth, kClasses, 6);
  RunReport expected = runOf(programOf(2), data, 6);
  auto first = Session::create(programOf(2), startWeights(), sessionOptions());
  ASSERT_TRUE(first);
  for (int64_t step = 0; step < 3; ++step)
    ASSERT_TRUE(first->step(batchOf(data, step)));
  Status saved = first->save(folder.path);
  ASSERT_TRUE(saved) << saved.error().message;
  ASSERT_TRUE(first->step(batchOf(data, 5))); // something else

  auto checkpoint = openCheckpoint(folder.path);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  auto second = Session::create(programOf(2), startWeights(), sessionOptions());
  ASSERT_TRUE(second);
  for (Session *session : {&*first, &*second}) { // one that has trained, and a new one
    Status loaded = session->load(*checkpoint);
    ASSERT_TRUE(loaded) << loaded.error().message;
    EXPECT_EQ(session->nextStep(), 3);
    for (int64_t step = 3; step < 6; ++step) {
      auto result = session->step(batchOf(data, step));
      ASSERT_TRUE(result);
      EXPECT_EQ(result->loss, expected.steps[size_t(step)].loss) << step;
    }
  }
  // A checkpoint of a later step is not overwritten.
  ASSERT_TRUE(first->save(folder.path));
  ASSERT_TRUE(first->load(*checkpoint));
  Status older = first->save(folder.path);
  ASSERT_FALSE(older);
  EXPECT_NE(older.error().message.find("has checkpoints up to step 6"), std::string::npos) << older.error().message;
  EXPECT_FALSE(first->ended());
}

TEST(Session, GivesAndTakesParameters) {
  TensorMap data = classifierData(2, kRows, kWidth, kClasses, 1);
  auto session = Session::create(programOf(2), startWeights(), sessionOptions());
  ASSERT_TRUE(session);
  auto before = session->evaluate(dataOf(data));
  ASSERT_TRUE(before) << before.error().message;
  ASSERT_TRUE(session->step(batchOf(data, 0)));
  auto trained = session->parameters();
  ASSERT_TRUE(trained);
  EXPECT_NE(valuesOf(trained->at("layer.weight")), valuesOf(startWeights().at("layer.weight")));
  Status assigned = session->assign(startWeights());
  ASSERT_TRUE(assigned) << assigned.error().message;
  EXPECT_EQ(valuesOf(session->parameters()->at("layer.weight")), valuesOf(startWeights().at("layer.weight")));
  EXPECT_EQ(session->evaluate(dataOf(data))->means.front().second, before->means.front().second);

  Status unknown = session->assign({{"layer.weights", startWeights().at("layer.weight")}});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().message, "weights: the model has no parameter 'layer.weights'; leave it out");
  Status shape = session->assign({{"layer.weight", makeTensor({1}, {0})}});
  ASSERT_FALSE(shape);
  EXPECT_EQ(shape.error().message,
            "weights: 'layer.weight' has shape [1], the model's has [5, 7]; give the weights of this model");
}

TEST(Session, EvaluatesWithoutTraining) {
  TensorMap data = classifierData(2, kRows, kWidth, kClasses, 3);
  RunReport expected = runOf(programOf(2), data, 1);
  auto session = Session::create(programOf(2), startWeights(), sessionOptions());
  ASSERT_TRUE(session);
  auto one = session->evaluate(dataOf(data), /*samples=*/false, 1), all = session->evaluate(dataOf(data));
  ASSERT_TRUE(one && all);
  EXPECT_EQ(one->means.front().first, "loss");
  EXPECT_EQ(one->means.front().second, expected.steps[0].loss);
  EXPECT_EQ(all->batches, 3);
  EXPECT_EQ(session->step(batchOf(data, 0))->loss, expected.steps[0].loss);
  auto many = session->evaluate(dataOf(data), false, 4);
  ASSERT_FALSE(many);
  EXPECT_NE(many.error().message.find("the data has 3 batches"), std::string::npos) << many.error().message;
  EXPECT_FALSE(session->ended());
}

TEST(Session, RefusesAWrongBatchAndStaysUsable) {
  TensorMap data = classifierData(2, kRows, kWidth, kClasses, 1);
  const TensorMap right = batchOf(data, 0);
  RunReport expected = runOf(programOf(2), data, 1);
  auto session = Session::create(programOf(2), startWeights(), sessionOptions());
  ASSERT_TRUE(session);
  auto message = [&](const TensorMap &batch) {
    auto result = session->step(batch);
    return result ? "" : result.error().message;
  };
  TensorMap missing = right, other = right, shape = right, type = right;
  missing.erase("labels");
  EXPECT_EQ(message(missing),
            "batch: the model's input 'labels' is missing; it takes 'x', 'labels', the batch has 'x'");
  other.emplace("mask", right.at("x"));
  EXPECT_EQ(message(other), "batch: 'mask' is no input of the model, which takes 'x', 'labels'; leave it out");
  shape.at("x").shape = {5, 6};
  EXPECT_EQ(message(shape), "batch: 'x' has shape [5, 6], a step takes [6, 5]; give that shape");
  type.at("labels") = makeTensor({6}, {0, 1, 2, 3, 4, 5});
  EXPECT_NE(message(type).find("batch: 'labels' is f64, the model takes i64"), std::string::npos) << message(type);
  EXPECT_EQ(session->nextStep(), 0);
  TensorMap narrow = right; // what can be converted is
  narrow.at("labels") = *convertTensor(right.at("labels"), DType::I32);
  EXPECT_EQ(session->step(narrow)->loss, expected.steps[0].loss);
}

TEST(Session, ErrorsInsideAStepEndIt) {
  TensorMap data = classifierData(2, kRows, kWidth, kClasses, 1, /*badStep=*/0, /*badRank=*/1);
  auto session = Session::create(programOf(2), startWeights(), sessionOptions());
  ASSERT_TRUE(session);
  auto failed = session->step(batchOf(data, 0));
  ASSERT_FALSE(failed);
  EXPECT_NE(failed.error().message.find("label"), std::string::npos) << failed.error().message;
  ASSERT_TRUE(session->ended());
  EXPECT_EQ(session->ended()->message, failed.error().message);
  EXPECT_EQ(session->step(batchOf(data, 0)).error().message, failed.error().message);
  EXPECT_FALSE(session->parameters());
}

TEST(Session, AnInfiniteLossIsAnErrorAndWeightsHealIt) {
  TensorMap data = classifierData(2, kRows, kWidth, kClasses, 1), batch = batchOf(data, 0);
  RunReport expected = runOf(programOf(2), data, 1);
  TensorMap infinite = batch;
  infinite.at("x") = makeTensor({6, 5}, std::vector<double>(30, std::numeric_limits<double>::infinity()));
  auto session = Session::create(programOf(2), startWeights(), sessionOptions());
  ASSERT_TRUE(session);
  auto failed = session->step(infinite);
  ASSERT_FALSE(failed);
  EXPECT_NE(failed.error().message.find("step 0: the loss is"), std::string::npos) << failed.error().message;
  EXPECT_FALSE(session->ended());
  ASSERT_TRUE(session->assign(startWeights()));
  EXPECT_EQ(session->evaluate(dataOf(data))->means.front().second, expected.steps[0].loss);
}

/// Runs steps until one fails, and returns the number of steps after `cancelled` was set.
int64_t stepsUntilCancelled(int64_t ranks) {
  TensorMap batch = batchOf(classifierData(ranks, kRows, kWidth, kClasses, 1), 0);
  auto session = Session::create(programOf(ranks), startWeights(), sessionOptions());
  EXPECT_TRUE(session);
  std::atomic<bool> cancelled = false, started = false;
  std::thread other([&] {
    while (!started)
      std::this_thread::yield();
    session->cancel();
    cancelled = true;
  });
  int64_t after = 0;
  for (;;) {
    const bool late = cancelled;
    auto result = session->step(batch);
    started = true;
    if (!result) {
      EXPECT_EQ(result.error().message, kCancelled);
      break;
    }
    after += late;
  }
  other.join();
  EXPECT_EQ(session->ended()->message, kCancelled);
  EXPECT_EQ(session->evaluate(dataOf({}), false).error().message, kCancelled);
  return after;
}

TEST(Session, IsCancelledFromAnotherThread) {
  for (int64_t ranks : {1, 4})
    EXPECT_EQ(stepsUntilCancelled(ranks), 0) << ranks;
}

TEST(Session, TwoInOneProcess) {
  TensorMap data = classifierData(2, kRows, kWidth, kClasses, 3);
  RunReport expected = runOf(programOf(2), data, 3);
  auto one = Session::create(programOf(2), startWeights(), sessionOptions());
  auto two = Session::create(programOf(2), startWeights(), sessionOptions());
  ASSERT_TRUE(one && two);
  for (int64_t step = 0; step < 3; ++step) {
    EXPECT_EQ(one->step(batchOf(data, step))->loss, expected.steps[size_t(step)].loss);
    EXPECT_EQ(two->step(batchOf(data, step))->loss, expected.steps[size_t(step)].loss);
    Session moved = std::move(*two); // may lie elsewhere between two calls
    *two = std::move(moved);
  }
}

TEST(Session, LearningRates) {
  LearningRate rate{"linear", 2.0, 2, 6};
  const double expected[] = {0, 1, 2, 1.5, 1, 0.5, 0, 0};
  for (int64_t step = 0; step < 8; ++step)
    EXPECT_EQ(rate.at(step), expected[step]) << step;
  rate.schedule = "cosine";
  EXPECT_NEAR(rate.at(4), 1, 1e-12);
  rate.schedule = "constant";
  EXPECT_EQ(rate.at(7), 2);
}

} // namespace
} // namespace kerf::runtime::test
