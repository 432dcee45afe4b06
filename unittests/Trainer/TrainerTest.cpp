// SPDX-License-Identifier: Apache-2.0
// Checks that a trainer gives bit-identical results to `kerf train` in every step, for models from files and from
// memory, on one rank and on several.
#include "kerf/Trainer/Trainer.h"

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <thread>

namespace kerf::training {
namespace {

const std::string kRoot = KERF_SOURCE_DIR;
const std::string kMlp = kRoot + "/test/models/mlp/model.onnx", kMlpData = kRoot + "/test/models/mlp/batches.npz";
const std::string kGpt = kRoot + "/examples/gpt2/model.onnx", kGptData = kRoot + "/examples/gpt2/batches.npz";

class TrainerFolder {
public:
  TrainerFolder() {
    char pattern[] = "/tmp/kerf-trainer-XXXXXX";
    path = mkdtemp(pattern);
  }
  ~TrainerFolder() { std::filesystem::remove_all(path); }
  std::string write(const std::string &name, const std::string &text) const {
    EXPECT_TRUE(writeFile(path + "/" + name, text));
    return path + "/" + name;
  }
  std::string path;
};

TensorMap arraysOf(const std::string &file) {
  auto arrays = readTensors(file);
  EXPECT_TRUE(arrays) << file;
  return arrays ? *arrays : TensorMap();
}

/// Returns batch `number` of arrays whose first axis counts batches.
TensorMap batchAt(const TensorMap &arrays, int64_t number) {
  TensorMap batch;
  for (const auto &[name, array] : arrays) {
    Tensor one = array;
    one.shape.erase(one.shape.begin());
    one.data += number * one.bytes();
    batch.emplace(name, one);
  }
  return batch;
}

/// Runs `kerf train` and returns the losses that it prints.
std::vector<double> kerfTrain(const std::string &arguments) {
  std::string text, command = fmt::format("{} train {} --json 2>/dev/null", KERF_PROGRAM, arguments);
  std::FILE *pipe = popen(command.c_str(), "r");
  char buffer[4096];
  while (size_t count = pipe ? std::fread(buffer, 1, sizeof buffer, pipe) : 0)
    text.append(buffer, count);
  EXPECT_EQ(pipe ? pclose(pipe) : -1, 0) << command;
  auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  return json.is_object() ? json["losses"].get<std::vector<double>>() : std::vector<double>();
}

std::vector<double> lossesOf(Trainer &trainer, const TensorMap &arrays, int64_t from, int64_t to) {
  std::vector<double> losses;
  for (int64_t step = from; step < to; ++step) {
    auto result = trainer.step(batchAt(arrays, step));
    EXPECT_TRUE(result) << result.error().message;
    if (!result)
      break;
    EXPECT_EQ(result->step, step);
    losses.push_back(result->loss);
  }
  return losses;
}

Trainer trainerOf(const TrainerOptions &options) {
  auto trainer = Trainer::create(options);
  if (!trainer)
    throw std::runtime_error(trainer.error().message); // fails the test with it
  return std::move(*trainer);
}

TrainerOptions mlp() {
  TrainerOptions options{kMlp};
  options.step.optimizer.optimizer = "adamw";
  return options;
}

TEST(Trainer, LossesAreThoseOfTheCommandLine) {
  Trainer trainer = trainerOf(mlp());
  EXPECT_EQ(lossesOf(trainer, arraysOf(kMlpData), 0, 5),
            kerfTrain(fmt::format("{} --data {} --optimizer adamw --steps 5", kMlp, kMlpData)));
  EXPECT_EQ(trainer.nextStep(), 5);
  EXPECT_EQ(trainer.plan().mesh().ranks(), 1);
  EXPECT_EQ(trainer.report().model, kMlp);
}

TEST(Trainer, LossesOfATensorParallelPlanToo) {
  TrainerFolder folder;
  const std::string text = R"({"kerf": 1, "mesh": {"data": 1, "model": 4}})", file = folder.write("pins.json", text);
  TrainerOptions options{kGpt};
  options.step.optimizer.optimizer = "adamw";
  options.learningRate = {"linear", 2e-3, 1, 4};
  options.ranks = 4;
  options.plan = *parsePlan(text, "pins");
  Trainer trainer = trainerOf(options);
  EXPECT_EQ(trainer.plan().meshSizes.at("model"), 4);
  EXPECT_EQ(lossesOf(trainer, arraysOf(kGptData), 0, 4),
            kerfTrain(fmt::format("{} --data {} --optimizer adamw --lr 2e-3 --lr-schedule linear --warmup 1 --total 4 "
                                  "--steps 4 --ranks 4 --plan {}",
                                  kGpt, kGptData, file)));
}

TEST(Trainer, OnnxInMemoryIsTheFile) {
  Trainer file = trainerOf(mlp());
  TrainerOptions options = mlp();
  options.model = ModelSource::inMemory(ModelFormat::Onnx, *readFile(kMlp));
  Trainer memory = trainerOf(options);
  const TensorMap arrays = arraysOf(kMlpData);
  EXPECT_EQ(lossesOf(memory, arrays, 0, 3), lossesOf(file, arrays, 0, 3)); // two trainers in one process
  EXPECT_EQ(memory.report().model, "model in memory");
}

constexpr const char *kConfig = R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 16,
  "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 24, "vocab_size": 31})";

/// Returns two sequences of eight tokens for each input.
TensorMap tokensFor(const Trainer &trainer) {
  TensorMap batch;
  for (const runtime::BatchTensor &input : trainer.inputs()) {
    auto [tensor, bytes] = allocateTensor(DType::I64, input.shape);
    for (int64_t i = 0; i < elementsOf(input.shape); ++i)
      reinterpret_cast<int64_t *>(bytes)[i] = (7 * i + 3) % 31;
    batch.emplace(input.name, tensor);
  }
  return batch;
}

TEST(Trainer, AConfigurationInMemoryIsTheFile) {
  TrainerFolder folder;
  std::vector<double> losses;
  for (ModelSource source :
       {ModelSource(folder.write("config.json", kConfig)), ModelSource::inMemory(ModelFormat::Config, kConfig)}) {
    TrainerOptions options{source};
    options.step.import.globalBatch = 2;
    options.step.import.sequence = 8;
    auto without = Trainer::create(options);
    ASSERT_FALSE(without);
    EXPECT_NE(without.error().message.find("model.safetensors', which does not exist"), std::string::npos)
        << without.error().message;
    options.seed = 5;
    Trainer trainer = trainerOf(options);
    auto result = trainer.step(tokensFor(trainer));
    ASSERT_TRUE(result) << result.error().message;
    losses.push_back(result->loss);
  }
  EXPECT_EQ(losses[0], losses[1]);
}

constexpr const char *kHlo = R"(module @jit_loss {
  func.func public @main(%arg0: tensor<3x2xf32>, %arg1: tensor<4x3xf32>) -> (tensor<f32>) {
    %0 = stablehlo.dot_general %arg1, %arg0, contracting_dims = [1] x [0] : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
    %1 = stablehlo.multiply %0, %0 : tensor<4x2xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %2 = stablehlo.reduce(%1 init: %cst) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x2xf32>, tensor<f32>) -> tensor<f32>
    return %2 : tensor<f32>
  }
})";

TEST(Trainer, StableHloAndWeightsInMemory) {
  TrainerOptions options{ModelSource::inMemory(ModelFormat::Mlir, kHlo, "square.mlir")};
  options.model.signature = R"({"arguments": [{"name": "params.w"}, {"name": "x"}]})";
  auto [weight, bytes] = allocateTensor(DType::F32, {3, 2});
  for (int i = 0; i < 6; ++i)
    reinterpret_cast<float *>(bytes)[i] = 1;
  options.weights = {{"params.w", weight}};
  options.learningRate.peak = 0.5;
  Trainer trainer = trainerOf(options);
  auto [x, values] = allocateTensor(DType::F32, {4, 3});
  reinterpret_cast<float *>(values)[0] = 1; // the loss is |w[0]|^2, and one step of 0.5 makes w[0] zero
  EXPECT_EQ(trainer.step({{"x", x}})->loss, 2);
  EXPECT_EQ(trainer.step({{"x", x}})->loss, 0);
  options.weights = {{"params.v", weight}};
  EXPECT_EQ(Trainer::create(options).error().message,
            "weights: the model has no tensor 'params.v'; leave it out or correct its name");
}

TEST(Trainer, GoesOnBitForBitHereAndOnTheCommandLine) {
  TrainerFolder folder;
  const TensorMap arrays = arraysOf(kMlpData);
  Trainer whole = trainerOf(mlp());
  const std::vector<double> losses = lossesOf(whole, arrays, 0, 6);
  TrainerOptions options = mlp();
  options.ranks = 2;
  options.plan = *parsePlan(R"({"kerf": 1, "mesh": {"data": 1, "model": 2}})", "pins");
  Trainer first = trainerOf(options), second = trainerOf(options);
  const std::vector<double> begun = lossesOf(first, arrays, 0, 3);
  Status saved = first.save(folder.path);
  ASSERT_TRUE(saved) << saved.error().message;
  const std::vector<double> ended = lossesOf(first, arrays, 3, 6);
  Status loaded = second.load(folder.path);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(lossesOf(second, arrays, 3, 6), ended);
  const std::string pins = folder.write("pins.json", R"({"kerf": 1, "mesh": {"data": 1, "model": 2}})");
  EXPECT_EQ(kerfTrain(fmt::format("{} --data {} --optimizer adamw --steps 6 --ranks 2 --plan {} --resume {}", kMlp,
                                  kMlpData, pins, folder.path)),
            ended);
  for (size_t step = 0; step < 3; ++step) { // the same training on one rank, but for rounding
    EXPECT_NEAR(begun[step], losses[step], 1e-5);
    EXPECT_NEAR(ended[step], losses[step + 3], 1e-5);
  }
  EXPECT_FALSE(second.load(folder.path + "/nowhere"));
  EXPECT_FALSE(second.ended());
}

TEST(Trainer, EvaluatesAndGivesItsWeights) {
  TrainerFolder folder;
  const TensorMap arrays = arraysOf(kMlpData);
  Trainer trainer = trainerOf(mlp());
  auto before = trainer.evaluate(runtime::dataOf(arrays), false, 1);
  ASSERT_TRUE(before) << before.error().message;
  EXPECT_EQ(before->means.front().second, lossesOf(trainer, arrays, 0, 1).front());
  ASSERT_TRUE(trainer.saveWeights(folder.path + "/w.safetensors"));
  auto parameters = trainer.parameters();
  ASSERT_TRUE(parameters);
  auto written = readTensors(folder.path + "/w.safetensors");
  ASSERT_TRUE(written);
  EXPECT_EQ(written->size(), parameters->size());
  Trainer other = trainerOf(mlp());
  ASSERT_TRUE(other.assign(*parameters));
  EXPECT_EQ(other.evaluate(runtime::dataOf(arrays))->means, trainer.evaluate(runtime::dataOf(arrays))->means);
}

TEST(Trainer, NamesAWrongBatchAndGoesOn) {
  const TensorMap arrays = arraysOf(kMlpData), right = batchAt(arrays, 0);
  Trainer trainer = trainerOf(mlp());
  TensorMap missing = right, shape = right;
  missing.erase("labels");
  EXPECT_EQ(trainer.step(missing).error().message,
            "batch: the model's input 'labels' is missing; it takes 'x', 'labels', the batch has 'x'");
  shape.at("x").shape = {37, 13};
  EXPECT_EQ(trainer.step(shape).error().message,
            "batch: 'x' has shape [37, 13], a step takes [13, 37]; give that shape");
  EXPECT_FALSE(trainer.ended());
  EXPECT_TRUE(trainer.step(right));
}

TEST(Trainer, TakesSeveralBatchesAStep) {
  const TensorMap arrays = arraysOf(kMlpData);
  TrainerOptions options = mlp();
  options.step.optimizer.accumulate = 2;
  Trainer trainer = trainerOf(options);
  TensorMap two = arrays;
  for (auto &[name, array] : two)
    array.shape[0] = 2;
  auto result = trainer.step(two);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->loss,
            kerfTrain(fmt::format("{} --data {} --optimizer adamw --accumulate 2 --steps 1", kMlp, kMlpData)).at(0));
  EXPECT_FALSE(trainer.step(batchAt(arrays, 0)));
}

TEST(Trainer, IsCancelledFromAnotherThread) {
  const TensorMap batch = batchAt(arraysOf(kMlpData), 0);
  TrainerOptions options = mlp();
  options.ranks = 2;
  options.search.allRanks = true;
  Trainer trainer = trainerOf(options);
  std::atomic<bool> running = false, cancelled = false;
  std::thread other([&] {
    while (!running)
      std::this_thread::yield();
    trainer.cancel();
    cancelled = true;
  });
  for (;;) {
    const bool late = cancelled;
    auto result = trainer.step(batch);
    running = true;
    if (!result) {
      EXPECT_EQ(result.error().message, runtime::kCancelled);
      break;
    }
    ASSERT_FALSE(late) << "no step is made after it";
  }
  other.join();
  ASSERT_TRUE(trainer.ended());
  EXPECT_EQ(trainer.parameters().error().message, runtime::kCancelled);
}

TEST(Trainer, NamesWhatCannotBe) {
  TrainerOptions options = mlp();
  options.model = kRoot + "/nowhere.onnx";
  EXPECT_NE(Trainer::create(options).error().message.find("nowhere.onnx"), std::string::npos);
  options = mlp();
  options.ranks = 1 << 20;
  EXPECT_NE(Trainer::create(options).error().message.find("give <ranks> from 1 to"), std::string::npos);
  options = mlp();
  options.search.memoryLimitBytes = 1000;
  EXPECT_EQ(Trainer::create(options).error().status, ExitStatus::Infeasible);
}

} // namespace
} // namespace kerf::training
