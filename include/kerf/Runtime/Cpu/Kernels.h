// SPDX-License-Identifier: Apache-2.0
// The CPU kernels of the device level: one for every op of the dialect but the collectives, `wait`, `call` and
// `reshape`, which the executor does itself. A kernel is bound once, when a program is loaded, to fixed memory; then it
// is called every step and allocates nothing.
#pragma once

#include "kerf/Runtime/Device.h"
#include <functional>

namespace kerf::runtime {

class Team;
struct NativeKernel;

inline constexpr int64_t kHostAlignment = 64; // bytes: a cache line, and the widest vector register

/// A KernelRequest whose addresses are the host's, each a multiple of kHostAlignment. `team`: the threads that share
/// the work, the same ones for both calls below; none is the calling thread alone. Results do not depend on it.
struct BindRequest {
  const package::Instruction &instruction;
  std::vector<TensorView> operands, results;
  const Mesh &mesh;
  int64_t rank = 0;
  void *scratch = nullptr;
  Team *team = nullptr;
  /// Of a call of a kernel: its code.
  const NativeKernel *native = nullptr;
};

/// One call computes the results from the operands; both may have changed since the last call. Fails on input's fault
/// alone (label out of range), with the value and the bound in the message; the executor adds the user's node.
using Kernel = std::function<Status()>;

/// Checks op, attributes, dtypes and shapes; an Error names what it found and what it can do. The request does not
/// outlive the call: the kernel captures what it needs.
Result<Kernel> bindKernel(const BindRequest &request);

/// Bytes of scratch for `bindKernel` of the same instruction (operands and results as there, but `data` is null). An
/// Error where `bindKernel` would give one.
Result<int64_t> scratchBytes(const BindRequest &request);

/// True when result `result` may be written over operand `operand` of the same bytes: element i of the result needs, of
/// that operand, element i alone, and is written after its last read.
bool mayOverwrite(const package::Instruction &instruction, int operand, int result);

/// The same for an instruction that may be one kernel of the package.
bool mayOverwriteOnHost(const package::Instruction &instruction, const package::Function *function, int operand,
                        int result);
/// Returns the request for `bindKernel`: with the team, and the package's code where the request names a function.
BindRequest hostRequest(const KernelRequest &request, Team *team);

/// A function of package::NativeCode::routines, which computes n elements: (const T *x, T *y, int64_t n), or with two
/// operands (x, y, z, n). Null where there is none of that name.
const void *routine(std::string_view name);

} // namespace kerf::runtime
