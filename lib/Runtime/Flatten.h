// SPDX-License-Identifier: Apache-2.0
// A stage's step as one list of instructions: the entry function with its calls expanded and, where there is a
// schedule, the stage's tasks unrolled in its order, each microbatch's values its own.
#pragma once

#include "kerf/Package/HostCopies.h"
#include "kerf/Package/Package.h"
#include "kerf/Runtime/Device.h"

namespace kerf::runtime {

struct FlatInstruction {
  /// `Send`, `Receive` and `WaitForSend` are a transfer's two sides and its end: see StepOrder.h.
  enum class Kind { Op, Send, Receive, WaitForSend };

  const package::Instruction *source = nullptr;
  std::vector<int> operands, results; // indices into FlatProgram::values
  Kind kind = Kind::Op;
  int64_t microbatch = 0;
  /// Instructions of one origin are the same but for their microbatch.
  int origin = 0;
  int64_t peerStage = -1, message = -1; // of a transfer: who sends or receives, and which of FlatProgram::messages
  /// Of several collectives that are one: the sources after the first, each with an operand and a result.
  std::vector<const package::Instruction *> others = {};
  int call = -1; // of the entry function in which it lies, counted as they run: a layer's forward or backward
  const package::Function *kernel = nullptr; // of a call that is one kernel
};

/// An argument of the program that the stage has, in a microbatch where it is cut by them.
struct FlatArg {
  size_t arg = 0;
  int64_t microbatch = 0;
  int value = -1;
};

struct FlatProgram {
  std::vector<package::Value> values;
  std::vector<FlatArg> args;         // in the program's order
  std::vector<int> results;          // of each result of the program: its value, -1 where the stage does not have it
  std::vector<FlatInstruction> body; // no calls, no transfers
  int origins = 0;
  int64_t messages = 0; // of all stages in a step
};

/// Calls of functions that `code` has stay instructions. The program must have passed checkProgram; instructions point
/// into it. `accumulate` has one operand (a microbatch's value) the first time, then two (the sum so far, the value).
Result<FlatProgram> flatten(const package::Program &program, int64_t stage, const DeviceCode *code = nullptr);

/// A reduction that nothing waits for but the update (kerf-partition names its stream).
bool reducesGradients(const package::Instruction &instruction);
/// The stream that a collective names.
std::string streamNamed(const package::Instruction &collective);

/// Constants of up to this size are computed once, when the program is loaded, for all microbatches.
inline constexpr int64_t kKeptConstantBytes = 64 * 1024;
bool isKeptConstant(const package::Instruction &instruction, const package::Value &result);

/// The op, or the kernel that a call is of.
std::string opOf(const FlatInstruction &instruction);
/// True when nothing is computed: the result is the operand's memory.
bool isView(const FlatProgram &flat, const FlatInstruction &instruction);

/// Values that an argument has: one in each microbatch where it is cut by them.
int64_t piecesOf(const package::Program &program, size_t arg);
/// True when the stage has the argument: it is its home or, without one, uses it.
bool hasArg(const package::Program &program, size_t arg, int64_t stage);
bool hasResult(const package::Program &program, size_t result, int64_t stage);
DType resultType(const package::Program &program, size_t result);

} // namespace kerf::runtime
