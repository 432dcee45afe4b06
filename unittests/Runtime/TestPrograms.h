// SPDX-License-Identifier: Apache-2.0
// Programs and collectives that several tests run: on threads, under MPI, and with and without shared buffers.
#pragma once

#include "kerf/Package/TensorFile.h"
#include "kerf/Runtime/Cpu/Collectives.h"
#include "kerf/Runtime/Run.h"
#include "kerf/Steps/Steps.h"
#include <random>

namespace kerf::runtime::test {

/// Builds a function of a program. Its functions return indices into Function::values.
struct FunctionBuilder {
  package::Function function;
  /// Adds a value.
  int value(DType dtype, Shape shape, bool pending = false);
  /// Adds an argument.
  int arg(DType dtype, Shape shape);
  /// Adds an instruction with one result.
  int op(const std::string &op, std::vector<int> operands, DType dtype, Shape shape,
         nlohmann::ordered_json attrs = nlohmann::ordered_json::object());
  /// Adds an update by SGD with momentum 0.9 and weight decay 0.01, in six instructions. Returns the new parameter and
  /// the new velocity.
  std::pair<int, int> sgd(int parameter, int velocity, int gradient, int rate,
                          const std::optional<package::ProgramTask> &task = std::nullopt);
  /// Adds the start of a collective. `wait` turns the pending result into a usable value.
  int start(const std::string &op, int operand, Shape shape, nlohmann::ordered_json attrs);
  /// Adds the wait for a pending value.
  int wait(int pending);
  /// Adds an all_reduce by sum over sub-axes of the mesh, given as flat triples, and the wait for it.
  int allReduce(int operand, const std::vector<int64_t> &axes);
};

/// Returns the program with its lists of steps. Ends the process if they cannot be made.
package::Program withSteps(package::Program program, const steps::StepOptions &options = {});

/// Returns the training step of a linear classifier with the weight w of `width` x `classes`: logits = x w, mean cross
/// entropy, and SGD with momentum in an outlined function. Each rank holds `rows` rows of x [rows * ranks, width] and
/// of the labels.
package::Program classifier(int64_t ranks, int64_t rows, int64_t width, int64_t classes, DType dtype);
/// Returns `steps` random batches for the classifier. All labels are valid, except for one in step `badStep` in the
/// rows of rank `badRank` (-1: all are valid).
TensorMap classifierData(int64_t ranks, int64_t rows, int64_t width, int64_t classes, int64_t steps,
                         int64_t badStep = -1, int64_t badRank = -1);

/// Returns a tensor with the given elements, converted to `dtype`.
Tensor makeTensor(const Shape &shape, const std::vector<double> &values, DType dtype = DType::F64);
/// Returns the elements of a tensor.
std::vector<double> valuesOf(const Tensor &tensor);

/// Returns why the ranks of a test cannot each have a device, such as the GPU that this machine lacks; empty if they
/// can. Tests are skipped with this text.
std::string missingDevices(std::string_view kind, int64_t ranks);

/// A collective instruction with its mesh, types and shapes.
struct CollectiveCase {
  Mesh mesh;
  package::Instruction instruction;
  DType dtype = DType::F32;
  Shape operand, result;
  uint32_t seed = 0; // seed of the operands
};
/// Returns a random collective for `ranks` ranks.
CollectiveCase randomCase(std::mt19937 &random, int64_t ranks);
/// Returns the bytes of the operand of rank `rank`.
std::vector<std::byte> operandOf(const CollectiveCase &test, int64_t rank);
/// Runs the collective twice on the communicator's rank, and returns the bytes of the result. Ends the process on an
/// error, or if the two results differ.
std::vector<std::byte> runCase(const CollectiveCase &test, Communicator &communicator);
/// Runs the collective on all ranks as threads, and returns the bytes of each rank's result.
std::vector<std::vector<std::byte>> runCaseOnThreads(const CollectiveCase &test);

} // namespace kerf::runtime::test
