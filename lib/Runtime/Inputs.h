// SPDX-License-Identifier: Apache-2.0
// Determines where the content of each argument of the program comes from. This is done and checked once,
// before ranks start.
#pragma once

#include "BatchReader.h"
#include "kerf/Runtime/Checkpoint.h"
#include "kerf/Runtime/Run.h"

namespace kerf::runtime {

/// The source of an argument's content.
struct ArgSource {
  /// Before the first step, an argument gets a `Tensor` of a file, `Zeros`, an initial value (`Initialize`), the
  /// content of a checkpoint (`Resume`) or the `Seed`. Before each step, it gets a part of the batch (`Data`), the
  /// `LearningRate`, its schedule's factor (`RateFactor`) or the number of the `Step`.
  enum class Kind { Tensor, Zeros, Initialize, Resume, Data, LearningRate, RateFactor, Step, Seed } kind = Kind::Zeros;
  Tensor tensor;    // for Kind::Tensor: the global tensor as the file holds it
  size_t input = 0; // for Kind::Data: index into Inputs::batch
};

/// The sources of all arguments, and the results that a run reads.
struct Inputs {
  std::vector<ArgSource> sources;       // for each argument of the program
  std::vector<BatchInput> batch;        // the tensors that the program takes from each batch
  int64_t dataSteps = 1;                // batches in one pass through the training data
  int64_t batchesOfStep = 1;            // batches of each step (gradient accumulation)
  int64_t evaluationBatches = 0;        // batches of each evaluation
  int64_t evaluationData = 0;           // batches in one pass through the evaluation's data
  int lossResult = -1;                  // index of the program's result "loss"
  std::vector<int> metricResults;       // indices of the scalar results that an evaluation reports, the loss first
  std::vector<std::string> initialized; // parameters that no file gave (RunReport::initialized)
  std::vector<std::string> unused;      // names in the weights that the program does not have (RunReport::unused)
};

/// Determines everything that needs no data: the sources of arguments, the inputs and the results. With `resume`, the
/// values that stay between steps come from that checkpoint. Fails if a weight is missing or has another shape or type
/// than the program's.
Result<Inputs> findInputs(const package::Program &program, const TensorMap &weights, const Checkpoint *resume);
/// Determines the same as the function above, and the number of batches in one pass through `data`. Fails also if the
/// data does not fit the inputs.
Result<Inputs> findInputs(const package::Program &program, const TensorMap &weights, const DataSet &data,
                          const DataOrder &order, const Checkpoint *resume);

/// Sets the numbers of evaluation batches in `inputs`, unless `evaluation` has no data. Fails if the data does not fit
/// or has fewer batches than requested.
Status findEvaluation(const EvaluationOptions &evaluation, Inputs &inputs);

/// Checks that each of `tensors` has the name of a parameter or buffer of the program, that one's exported shape, and
/// a compatible type.
Status checkAssigned(const package::Program &program, const TensorMap &tensors);

/// Returns the tensors that the program takes from each batch, in the order of its inputs.
std::vector<BatchInput> batchInputs(const package::Program &program);

} // namespace kerf::runtime
