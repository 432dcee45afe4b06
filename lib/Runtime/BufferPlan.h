// SPDX-License-Identifier: Apache-2.0
// Which buffer each value of a flat program has, and how long each buffer is alive.
#pragma once

#include "MemoryPlan.h"
#include "kerf/Package/FlatProgram.h"
#include "kerf/Runtime/Device.h"

namespace kerf::runtime {

using package::FlatArg;
using package::FlatInstruction;
using package::FlatProgram;

/// `Argument` and `Constant` buffers keep their content between steps; `Working` ones share the arena, `Host` ones a
/// pool of the host's.
enum class BufferKind { Argument, Constant, Working, Host };

struct Buffer {
  BufferKind kind = BufferKind::Working;
  Lifetime lifetime; // positions are instructions; one after the last is the end of the step
};

/// From one buffer to another, at the end of the step.
struct EndCopy {
  int from = 0, to = 0;
};

struct BufferPlan {
  std::vector<Buffer> buffers;
  std::vector<int> bufferOf;      // of each flat value
  std::vector<int> resultBuffers; // of each result of the entry, -1 where the stage does not have it
  /// In this order: arguments' updates that were not computed in their place, after the old content that they or
  /// results still need was saved.
  std::vector<EndCopy> copies;
  std::vector<int64_t>
      waitedAt; // for each collective, the position of its first wait (or the end); -1 for other instructions
};

/// How buffers may be shared: `Views` for reshape and wait alone, `InPlace` also by writing results over operands and
/// arguments.
enum class Sharing { Views, InPlace };

/// `device`: whose kernels say what they may write over.
Result<BufferPlan> planBuffers(const package::Program &program, const FlatProgram &flat, Sharing sharing,
                               const Device &device);

} // namespace kerf::runtime
