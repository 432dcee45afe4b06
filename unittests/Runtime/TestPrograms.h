// SPDX-License-Identifier: Apache-2.0
// Programs and collectives that several tests run: on threads, under MPI, with and without shared memory.
#pragma once

#include "kerf/Package/TensorFile.h"
#include "kerf/Runtime/Cpu/Collectives.h"
#include "kerf/Runtime/Run.h"
#include "kerf/Steps/Steps.h"
#include <random>

namespace kerf::runtime::test {

/// Builds a function value by value.
struct FunctionBuilder {
  package::Function function;
  int value(DType dtype, Shape shape, bool pending = false);
  int arg(DType dtype, Shape shape);
  /// One result.
  int op(const std::string &op, std::vector<int> operands, DType dtype, Shape shape,
         nlohmann::ordered_json attrs = nlohmann::ordered_json::object());
  /// SGD with momentum 0.9 and weight decay 0.01 in six instructions: the new parameter and velocity.
  std::pair<int, int> sgd(int parameter, int velocity, int gradient, int rate,
                          const std::optional<package::Task> &task = std::nullopt);
  /// A collective, started; `wait` makes it usable.
  int start(const std::string &op, int operand, Shape shape, nlohmann::ordered_json attrs);
  int wait(int pending);
  int allReduce(int operand, const std::vector<int64_t> &axes);
};

/// The program with its lists of steps; fails the process where they can't be made.
package::Program withSteps(package::Program program, const steps::StepOptions &options = {});

/// Every rank holds `rows` rows of x [rows * ranks, width] and of the labels; logits = x w; mean cross entropy; SGD
/// with momentum on w through an outlined function. Trains w of `width` x `classes`.
package::Program classifier(int64_t ranks, int64_t rows, int64_t width, int64_t classes, DType dtype);
/// `steps` batches of it; labels below `classes` but for one bad label in step `badStep` in the rows of rank `badRank`
/// (-1: none).
TensorMap classifierData(int64_t ranks, int64_t rows, int64_t width, int64_t classes, int64_t steps,
                         int64_t badStep = -1, int64_t badRank = -1);

Tensor makeTensor(const Shape &shape, const std::vector<double> &values, DType dtype = DType::F64);
std::vector<double> valuesOf(const Tensor &tensor);

/// One collective on random sizes.
struct CollectiveCase {
  Mesh mesh;
  package::Instruction instruction;
  DType dtype = DType::F32;
  Shape operand, result;
  uint32_t seed = 0;
};
CollectiveCase randomCase(std::mt19937 &random, int64_t ranks);
/// The operand of `rank`.
std::vector<std::byte> operandOf(const CollectiveCase &test, int64_t rank);
/// What `communicator`'s rank gets, twice the same way; fails the process on an Error.
std::vector<std::byte> runCase(const CollectiveCase &test, Communicator &communicator);
/// The same on all ranks as threads.
std::vector<std::vector<std::byte>> runCaseOnThreads(const CollectiveCase &test);

} // namespace kerf::runtime::test
