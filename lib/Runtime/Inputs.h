// SPDX-License-Identifier: Apache-2.0
// What each argument of the step is given: found and checked once, before ranks start.
#pragma once

#include "kerf/Runtime/Checkpoint.h"

namespace kerf::runtime {

/// Where an argument's content comes from.
struct ArgSource {
  enum class Kind { Tensor, Zeros, Initialize, Resume, Data, LearningRate, Step, Seed } kind = Kind::Zeros;
  Tensor tensor; // Tensor: whole, as the file has it. Data: all steps, in the program's element type
};

struct Inputs {
  std::vector<ArgSource> sources; // of each argument
  int64_t dataSteps = 1;
  int lossResult = -1;
  std::vector<std::string> initialized, unused;
};

/// With `resume`, what stays between steps comes from there.
Result<Inputs> findInputs(const package::Program &program, const TensorMap &weights, const TensorMap &data,
                          const Checkpoint *resume);

} // namespace kerf::runtime
