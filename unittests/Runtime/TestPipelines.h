// SPDX-License-Identifier: Apache-2.0
// Training steps of a small network with microbatches and stages, written by hand, and the same step told plainly.
#pragma once

#include "TestPrograms.h"

namespace kerf::runtime::test {

/// A chain of `parts` layers h = tanh(h w), the loss the mean of h^2 over the rows; SGD with momentum.
struct PipelineCase {
  int64_t parts = 2, rows = 12; // rows of the whole batch
  int64_t stages = 1, data = 1, microbatches = 1;
  std::optional<package::ScheduleChoice> schedule; // none: one rank, told plainly
  bool skip = false;                               // the first layer's output is added to the last one's
  bool tied = false;                               // after the last layer comes a product with the first one's weight
  bool norm = false;     // the learning rate is divided by 1 + the squared norm of all gradients
  int64_t firstAxis = 0; // of the mesh: stage, data, microbatch, and round again
  DType dtype = DType::F64, sumType = DType::F64;
};

inline constexpr int64_t kPipelineWidth = 5;

package::Program pipelineProgram(const PipelineCase &test);
/// The same network on one rank without schedule.
package::Program plainProgram(PipelineCase test);
TensorMap pipelineWeights(const PipelineCase &test);
TensorMap pipelineData(const PipelineCase &test, int64_t steps);
/// "1f1b, 3 stages, 4 microbatches, data 2, skip"
std::string toString(const PipelineCase &test);

/// A program of random sizes, schedule and transfers that passes checkProgram; its ops are all tanh and add.
package::Program randomPipeline(std::mt19937 &random);

} // namespace kerf::runtime::test
