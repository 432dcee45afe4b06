// SPDX-License-Identifier: Apache-2.0
// Random kernels of all ops and types, and what a device computes with them. Tests of code for processors and for GPUs
// compare the bits of compiled kernels with those of the ops one by one.
#pragma once

#include "kerf/Package/Native.h"

namespace kerf::codegen {

/// Adds a value to a function, and returns its number.
int addValue(package::Function &function, DType dtype, const Shape &shape);
/// Adds an argument, and returns its value.
int addArg(package::Function &function, DType dtype, const Shape &shape);
/// Adds an instruction with one result, and returns the result's value.
int addOp(package::Function &function, const std::string &op, std::vector<int> operands, DType dtype,
          const Shape &shape, nlohmann::ordered_json attrs = nlohmann::ordered_json::object());

/// Returns a program whose step is one call of the kernel. The arguments are states, and the first result replaces the
/// first argument of its type and shape.
package::Program stepOf(const package::Function &kernel);

/// Returns a random kernel, with and without final reductions. It depends on the seed alone.
package::Function randomKernel(uint32_t seed);

/// A device that runs a program, and whether it uses the program's code.
struct Where {
  std::string device = "cpu";
  bool useNative = false;
  int64_t threads = 1;
};
/// Runs two steps on random arguments, and returns the bytes of all results and arguments, with all NaNs replaced by
/// the same one. The program ran as one kernel if and only if `ranAsOne` becomes true.
std::vector<std::string> outcome(const package::Program &program, uint32_t seed, const Where &where, bool &ranAsOne);

} // namespace kerf::codegen
