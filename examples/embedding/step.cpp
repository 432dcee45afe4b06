// SPDX-License-Identifier: Apache-2.0
// Plans an exported model for two ranks of this process and trains one step: train-a-step model.onnx batches.npz
#include "kerf/Trainer/Trainer.h"

#include <cstdio>

using namespace kerf;

static int failed(const Error &error) {
  std::fprintf(stderr, "error: %s\n", error.message.c_str());
  return static_cast<int>(error.status);
}

int main(int argc, char **argv) {
  if (argc != 3)
    return failed({"give a model and its batches"});
  auto batch = readTensors(argv[2]);
  if (!batch)
    return failed(batch.error());
  for (auto &[name, array] : *batch) // the first axis counts batches: take the first one
    array.shape.erase(array.shape.begin());
  training::TrainerOptions options{argv[1]};
  options.ranks = 2;
  auto trainer = training::Trainer::create(options);
  if (!trainer)
    return failed(trainer.error());
  auto result = trainer->step(*batch);
  if (!result)
    return failed(result.error());
  std::printf("%d ranks  step %d  loss %.6f\n", int(trainer->plan().mesh().ranks()), int(result->step), result->loss);
  return 0;
}
