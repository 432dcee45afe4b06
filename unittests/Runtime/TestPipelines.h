// SPDX-License-Identifier: Apache-2.0
// Hand-written training steps of a small network with microbatches and pipeline stages, and the same
// steps without either.
#pragma once

#include "TestPrograms.h"

namespace kerf::runtime::test {

/// A network that is a chain of `parts` layers h = tanh(h w), trained by SGD with momentum. The loss is the mean of h^2
/// over the rows.
struct PipelineCase {
  int64_t parts = 2;                               // number of layers
  int64_t rows = 12;                               // rows of the global batch
  int64_t stages = 1, data = 1, microbatches = 1;  // sizes of the mesh's axes
  std::optional<package::ScheduleChoice> schedule; // the pipeline schedule; absent: one rank without stages
  bool skip = false;                               // whether the first layer's output is added to the last layer's
  bool tied = false;     // whether the last layer is followed by a product with the first layer's weight
  bool norm = false;     // whether the learning rate is divided by 1 + the squared norm of all gradients
  int64_t firstAxis = 0; // the mesh's first axis; the axes are stage, data, microbatch in cyclic order
  DType dtype = DType::F64, sumType = DType::F64;
};

/// Width of the layers.
inline constexpr int64_t kPipelineWidth = 5;

/// Returns the training step of the network with its stages and microbatches.
package::Program pipelineProgram(const PipelineCase &test);
/// Returns the training step of the same network on one rank, without a schedule.
package::Program plainProgram(PipelineCase test);
/// Returns random initial weights of the network.
TensorMap pipelineWeights(const PipelineCase &test);
/// Returns random batches for `steps` steps.
TensorMap pipelineData(const PipelineCase &test, int64_t steps);
/// Returns a description such as "1f1b, 3 stages, 4 microbatches, data 2, skip".
std::string toString(const PipelineCase &test);

/// Returns a program of random sizes, schedule and messages between stages that passes checkProgram. Its only ops are
/// tanh and add.
package::Program randomPipeline(std::mt19937 &random);

} // namespace kerf::runtime::test
