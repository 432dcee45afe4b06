// SPDX-License-Identifier: Apache-2.0
// The entry function with its calls expanded: one list of instructions, each call's values its own. And which buffer
// each value has.
#pragma once

#include "MemoryPlan.h"
#include "kerf/Runtime/Kernels.h"

namespace kerf::runtime {

struct FlatInstruction {
  const package::Instruction *source = nullptr;
  std::vector<int> operands, results; // indices into FlatProgram::values
};

struct FlatProgram {
  std::vector<package::Value> values;
  std::vector<int> args, results;
  std::vector<FlatInstruction> body; // no calls
};

/// The program must have passed checkProgram; instructions point into it.
FlatProgram flatten(const package::Program &program);

/// `Argument` and `Constant` buffers keep their content between steps; `Working` ones share the arena.
enum class BufferKind { Argument, Constant, Working };

struct Buffer {
  BufferKind kind = BufferKind::Working;
  Lifetime lifetime; // positions are instructions; one after the last is the end of the step
};

/// From one buffer to another, at the end of the step.
struct EndCopy {
  int from = 0, to = 0;
};

/// Constants of up to this size are computed once, when the program is loaded.
inline constexpr int64_t kKeptConstantBytes = 64 * 1024;

struct BufferPlan {
  std::vector<Buffer> buffers;
  std::vector<int> bufferOf;      // of each flat value
  std::vector<int> resultBuffers; // of each result of the entry
  /// In this order: arguments' updates that were not computed in their place, after the old content that they or
  /// results still need was saved.
  std::vector<EndCopy> copies;
  std::vector<int64_t>
      waitedAt; // for each collective, the position of its first wait (or the end); -1 for other instructions
};

/// How buffers may be shared: `Views` for reshape and wait alone, `InPlace` also by writing results over operands and
/// arguments.
enum class Sharing { Views, InPlace };

Result<BufferPlan> planBuffers(const package::Program &program, const FlatProgram &flat, Sharing sharing);

/// True when nothing is computed: the result is the operand's memory.
bool isView(std::string_view op);

} // namespace kerf::runtime
