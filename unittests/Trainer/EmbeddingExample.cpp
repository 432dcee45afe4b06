// SPDX-License-Identifier: Apache-2.0
// Trains an exported model on four ranks of this process: EmbeddingExample model.onnx batches.npz trained.safetensors
#include "kerf/Trainer/Trainer.h"

#include <cstdio>

using namespace kerf;

/// Prints the error and returns its exit status.
static int failed(const Error &error) {
  std::fprintf(stderr, "error: %s\n", error.message.c_str());
  return static_cast<int>(error.status);
}

/// Returns batch `number` of arrays whose first axis counts batches, without copying their data.
static TensorMap batchAt(const TensorMap &arrays, int64_t number) {
  TensorMap batch;
  for (const auto &[name, array] : arrays) {
    Tensor one = array;
    one.shape.erase(one.shape.begin());
    one.data += number * one.bytes();
    batch.emplace(name, one);
  }
  return batch;
}

int main(int argc, char **argv) {
  if (argc != 4)
    return failed({"give a model, its batches, and a file for the trained weights"});
  auto batches = readTensors(argv[2]);
  if (!batches)
    return failed(batches.error());

  training::TrainerOptions options{argv[1]};
  options.step.optimizer.optimizer = "adamw";
  options.learningRate = {"cosine", /*peak=*/1e-3, /*warmup=*/2, /*total=*/10};
  options.ranks = 4;
  auto trainer = training::Trainer::create(options);
  if (!trainer)
    return failed(trainer.error());

  for (int64_t step = 0; step < 10; ++step) {
    auto result = trainer->step(batchAt(*batches, step));
    if (!result)
      return failed(result.error());
    std::printf("step %d  loss %.6f\n", int(result->step), result->loss);
  }
  auto evaluation = trainer->evaluate(runtime::dataOf(*batches));
  if (!evaluation)
    return failed(evaluation.error());
  std::printf("held out: %s %.6f\n", evaluation->means[0].first.c_str(), evaluation->means[0].second);
  Status saved = trainer->saveWeights(argv[3]);
  return saved ? 0 : failed(saved.error());
}
