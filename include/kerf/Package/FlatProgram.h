// SPDX-License-Identifier: Apache-2.0
// The full form of a package's list of steps. The expanded program is the entry function with the bodies of its callees
// in place of calls; calls of kernels stay. Its instructions are numbered from 0 in the order of the bodies, those of
// all stages together. A flat program is one stage's list with the values that each instruction reads and makes: a
// value of the expanded program is one flat value in each microbatch.
#pragma once

#include "kerf/Package/HostCopies.h"
#include "kerf/Package/Package.h"

#include <span>

namespace kerf::package {

struct ExpandedOp {
  const Instruction *source = nullptr;
  std::vector<int> operands, results; // indices into Expansion::values
  size_t entry = 0;                   // the instruction of the entry function that it is part of
  int call = -1;                      // the outermost call that it lies in, a layer's forward or backward; -1: in none
  const Function *kernel = nullptr;   // of a call that is one kernel
  int64_t message = -1;               // of a transfer: the number of its message in microbatch 0
};

/// Its pointers are into the program.
struct Expansion {
  const Function *entry = nullptr;
  std::vector<Value> values;
  std::vector<bool> ofMicrobatch; // of each value: there is one in each microbatch
  std::vector<int> args, results; // of the entry function: values
  std::vector<ExpandedOp> ops;
  int calls = 0;
  int64_t messages = 0; // of all stages in a step
};
/// The program must have passed checkProgram, but for its lists of steps.
Expansion expand(const Program &program);
/// When an instruction runs; stage 0 of a program without a schedule.
Task taskOf(const Expansion &expansion, int op);

struct FlatInstruction {
  /// `Send`, `Sent`, `Receive` and `Received` are what StepEntry::Kind says.
  enum class Kind { Op, Send, Sent, Receive, Received };

  const Instruction *source = nullptr;
  std::vector<int> operands, results; // indices into FlatProgram::values
  Kind kind = Kind::Op;
  int64_t microbatch = 0;
  /// The number in the expanded program: instructions of one origin are the same but for their microbatch.
  int origin = 0;
  int64_t peerStage = -1, message = -1; // of a transfer: who sends or receives, and which of FlatProgram::messages
  /// A bucket is several collectives that run as one. These are its members after the first; each has an operand and a
  /// result.
  struct Member {
    const Instruction *source = nullptr;
    int origin = 0;
    int64_t microbatch = 0;
  };
  std::vector<Member> others = {};
  int call = -1;                    // a call in a microbatch, as ExpandedOp::call
  const Function *kernel = nullptr; // of a call that is one kernel
  std::string stream = {};          // "": that of kernels
};

/// An argument of the program that the stage has, in a microbatch where it is cut by them.
struct FlatArg {
  size_t arg = 0;
  int64_t microbatch = 0;
  int value = -1;
};

struct FlatProgram {
  std::vector<Value> values;
  std::vector<FlatArg> args;         // in the program's order
  std::vector<int> results;          // of each result of the program: its value, -1 where the stage does not have it
  std::vector<FlatInstruction> body; // no calls but of kernels
  int origins = 0;
  int64_t messages = 0; // of all stages in a step
};

/// Gives a list's instructions their values. `accumulate` has one operand (a microbatch's value) the first time, then
/// two (the sum so far, the value). An Error where the list uses what is not there, runs what is not the stage's, or
/// runs anything twice.
Result<FlatProgram> flatten(const Program &program, const Expansion &expansion, int64_t stage, const StepList &list);
/// The same of the program's own list. An Error where it has none.
Result<FlatProgram> flatten(const Program &program, int64_t stage);
/// The list that `flatten` makes this of.
StepList listOf(const FlatProgram &flat);
/// Adds an instruction of the expanded program to a list, to its last entry where it goes on there.
void appendRun(StepList &list, int op, int64_t microbatch);

/// True when nothing is computed: the result is the operand's memory.
bool isView(const FlatProgram &flat, const FlatInstruction &instruction);
/// True of an instruction of an optimizer's update of one parameter.
bool isUpdate(const FlatInstruction &instruction);
/// The values that are gradients: updates read them, and nothing of an update or from outside of the step makes them.
std::vector<int> gradientsOf(const FlatProgram &flat);
/// The op, or the kernel that a call is of.
std::string opOf(const FlatInstruction &instruction);

/// Constants of up to this size are computed once, when the program is loaded, for all microbatches.
inline constexpr int64_t kKeptConstantBytes = 64 * 1024;
bool isKeptConstant(const Instruction &instruction, const Value &result);

/// Values that an argument has: one in each microbatch where it is cut by them.
int64_t piecesOf(const Program &program, size_t arg);
/// True when the stage has the argument: it is its home or, without one, uses it.
bool hasArg(const Program &program, size_t arg, int64_t stage);
bool hasResult(const Program &program, size_t result, int64_t stage);
DType resultType(const Program &program, size_t result);

} // namespace kerf::package
