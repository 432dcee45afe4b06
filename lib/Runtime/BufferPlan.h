// SPDX-License-Identifier: Apache-2.0
// Assigns a buffer to each value of a flat program, and computes each buffer's lifetime.
#pragma once

#include "MemoryPlan.h"
#include "kerf/Package/FlatProgram.h"
#include "kerf/Runtime/Device.h"

namespace kerf::runtime {

using package::FlatArg;
using package::FlatInstruction;
using package::FlatProgram;

/// The memory in which a buffer lies. `Argument` and `Constant` buffers keep their content between steps.
/// `Working` buffers share the arena in device memory. `Host` buffers hold offloaded activations and share an
/// arena in host memory.
enum class BufferKind { Argument, Constant, Working, Host };

/// The memory of one or several values.
struct Buffer {
  BufferKind kind = BufferKind::Working;
  Lifetime lifetime; // positions are instruction numbers; the number of instructions stands for the end of the step
};

/// A copy of one buffer's content to another buffer at the end of the step. Both are indices into BufferPlan::buffers.
struct EndCopy {
  int from = 0, to = 0;
};

/// The buffers of a flat program.
struct BufferPlan {
  std::vector<Buffer> buffers;    // all buffers; the other fields refer to them by index
  std::vector<int> bufferOf;      // for each flat value: index of its buffer
  std::vector<int> resultBuffers; // for each result of the entry function: index of its buffer; -1: on another stage
  /// Copies at the end of the step, in this order. The first ones save old content of arguments that is still needed.
  /// The others update the arguments whose new value was not computed in place.
  std::vector<EndCopy> copies;
  /// For each collective: the position of its first wait, or the end of the step if there is none; -1 for
  /// any other instruction.
  std::vector<int64_t> firstWait;
};

/// How values may share a buffer. With `Views`, only the results of reshape and wait share their operand's buffer. With
/// `InPlace`, a result may also be written over an operand or over the argument that it updates.
enum class Sharing { Views, InPlace };

/// Plans the buffers of a flat program. `device` decides which results may be written in place over which operands.
/// Fails if the program is malformed.
Result<BufferPlan> planBuffers(const package::Program &program, const FlatProgram &flat, Sharing sharing,
                               const Device &device);

} // namespace kerf::runtime
