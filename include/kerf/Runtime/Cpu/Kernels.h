// SPDX-License-Identifier: Apache-2.0
// The CPU's kernels: one for every op of the dialect, except the collectives and the ops `wait`, `call` and `reshape`,
// which the executor handles itself. A kernel is bound to fixed memory once, when a program is loaded. It is then
// called in every step and allocates nothing.
#pragma once

#include "kerf/Runtime/Device.h"
#include <functional>

namespace kerf::runtime {

class ThreadTeam;
struct NativeKernel;

/// Alignment in bytes of tensors in host memory: a cache line, which is also the widest vector register.
inline constexpr int64_t kHostAlignment = 64;

/// A KernelRequest whose addresses are in host memory, each a multiple of kHostAlignment.
struct BindRequest {
  const package::Instruction &instruction;
  std::vector<TensorView> operands, results; // the instruction's operands and results, in its order
  /// The program's mesh and this rank's number in it, for operators whose result depends on the rank.
  const Mesh &mesh;
  int64_t rank = 0;
  /// Temporary memory of scratchBytes bytes.
  void *scratch = nullptr;
  /// The threads that share the kernel's work; null: the calling thread works alone. Must be the same for scratchBytes
  /// and bindKernel. Results do not depend on the team.
  ThreadTeam *team = nullptr;
  /// The compiled kernel to run, where the instruction calls a function that is one; null for any other instruction.
  const NativeKernel *native = nullptr;
};

/// A bound kernel. Each call computes the results from the present content of the operands. A call fails only on wrong
/// input data (such as a label out of range); the message holds the value and its limit, and the executor adds the name
/// of the model's node.
using Kernel = std::function<Status()>;

/// Checks the instruction's op, attributes, types and shapes, and binds its kernel to memory. An error says what was
/// found and what is supported. The kernel keeps what it needs of the request, which need not outlive the call.
Result<Kernel> bindKernel(const BindRequest &request);

/// Returns the bytes of scratch memory that bindKernel needs for the same request, whose tensors may still have null
/// addresses. Fails where bindKernel would fail.
Result<int64_t> scratchBytes(const BindRequest &request);

/// Returns whether the instruction may write its result number `result` in place over its operand number `operand`,
/// which has as many bytes. That holds if element i of the result depends on no element of the operand but i, and is
/// written after that element's last read.
bool mayOverwrite(const package::Instruction &instruction, int operand, int result);

/// Returns the same as mayOverwrite for an instruction that may call a compiled kernel of the package: `function` is
/// the function it calls, null for any other instruction.
bool mayOverwriteOnHost(const package::Instruction &instruction, const package::Function *function, int operand,
                        int result);

/// Returns `request`, which the executor made for a device (Device::bind), as a request for bindKernel. The threads of
/// `team` share the kernel's work. Addresses are copied as they are. If the instruction calls a compiled kernel
/// (`request.function`), the result holds this kernel of `request.code`.
BindRequest hostRequest(const KernelRequest &request, ThreadTeam *team);

/// Returns the address of a function that compiled kernels may call (package::NativeCode::routines), or null if there
/// is none of that name. The function computes n elements: f(const T *x, T *y, int64_t n), or f(x, y, z, n) with two
/// operands x and y and the result z. For top_k it computes a row (kernels::pickLargestOfRow).
const void *routine(std::string_view name);

} // namespace kerf::runtime
