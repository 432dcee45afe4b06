// SPDX-License-Identifier: Apache-2.0
// What each argument of the step is given: found and checked once, before ranks start.
#pragma once

#include "BatchReader.h"
#include "kerf/Runtime/Checkpoint.h"
#include "kerf/Runtime/Run.h"

namespace kerf::runtime {

/// Where an argument's content comes from.
struct ArgSource {
  enum class Kind { Tensor, Zeros, Initialize, Resume, Data, LearningRate, RateFactor, Step, Seed } kind = Kind::Zeros;
  Tensor tensor;    // Tensor: whole, as the file has it
  size_t input = 0; // Data: index into Inputs::batch
};

struct Inputs {
  std::vector<ArgSource> sources; // of each argument
  std::vector<BatchInput> batch;  // what the program takes of each batch
  int64_t dataSteps = 1;          // batches in one pass through the data
  int64_t batchesOfStep = 1;
  int64_t evaluationBatches = 0; // of each evaluation
  int64_t evaluationData = 0;    // batches in one pass through the evaluation's data
  int lossResult = -1;
  std::vector<int> metricResults; // scalars that an evaluation reports, the loss first
  std::vector<std::string> initialized, unused;
};

/// Finds the sources of arguments, the batch and the results, for which no data is needed. With `resume`, values that
/// stay between steps come from the checkpoint.
Result<Inputs> findInputs(const package::Program &program, const TensorMap &weights, const Checkpoint *resume);
/// The same, and the batches of one pass through the data.
Result<Inputs> findInputs(const package::Program &program, const TensorMap &weights, const DataSet &data,
                          const DataOrder &order, const Checkpoint *resume);

/// Finds the batches of an evaluation; nothing where there is none.
Status findEvaluation(const EvaluationOptions &evaluation, Inputs &inputs);

/// Every tensor is one that steps leave in the program, a parameter or a buffer, in its exported shape.
Status checkAssigned(const package::Program &program, const TensorMap &tensors);

/// What the program takes of each batch, in the order of its inputs.
std::vector<BatchInput> batchInputs(const package::Program &program);

} // namespace kerf::runtime
