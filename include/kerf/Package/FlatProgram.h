// SPDX-License-Identifier: Apache-2.0

// Two flattened forms of a package's program. The *expanded program* is the entry function with every call replaced by
// the body of its callee, except calls of kernels; its instructions are numbered from 0, those of all pipeline stages
// together. A *flat program* is the list of steps of one pipeline stage, with the operands and results of each
// instruction filled in: a value of the expanded program becomes one flat value for each microbatch.
#pragma once

#include "kerf/Package/HostCopies.h"
#include "kerf/Package/Package.h"

#include <span>

namespace kerf::package {

/// One instruction of the expanded program. Its index in Expansion::ops is the number that lists of steps use.
struct ExpandedOp {
  const Instruction *source = nullptr; // the instruction in its function's body
  std::vector<int> operands, results;  // indices into Expansion::values
  size_t entry = 0; // index in the entry function's body of the instruction (perhaps a call) from which this op comes
  int call = -1;    // index, below Expansion::calls, of the outermost call that contains the op; -1: no call
  const Function *kernel = nullptr; // the callee, if the instruction calls a kernel; otherwise null
  int64_t message = -1; // for a transfer: index of its message in microbatch 0, below Expansion::messages; otherwise -1
};

/// The expanded program: the entry function with calls inlined. Its pointers refer to the Program that was expanded,
/// which must outlive the Expansion.
struct Expansion {
  const Function *entry = nullptr; // the entry function
  std::vector<Value> values;       // types of all values
  std::vector<bool> ofMicrobatch;  // for each of `values`: true if each microbatch has its own value
  std::vector<int> args, results;  // indices into `values` of the entry function's arguments and results
  std::vector<ExpandedOp> ops;     // in execution order of the entry function
  int calls = 0;                   // number of calls in the entry function that were inlined
  int64_t messages = 0;            // number of messages that all stages together send in one step
};
/// Inlines the calls of the entry function. The program must have passed checkProgram; its lists of steps are not used.
Expansion expand(const Program &program);
/// Returns when and on which stage instruction `op` of the expanded program runs. Without a schedule, the result is
/// a default ProgramTask, on stage 0.
ProgramTask taskOf(const Expansion &expansion, int op);

/// One instruction of a flat program: an op, a product that is added to a sum, a bucket of collectives, or one side of
/// a message between stages.
struct FlatInstruction {
  /// `Op` is an instruction or a bucket; the other kinds begin or await one side of a message, as in StepEntry::Kind.
  enum class Kind { Op, Send, Sent, Receive, Received };

  const Instruction *source = nullptr; // the instruction in its function's body
  std::vector<int> operands, results;  // indices into FlatProgram::values
  Kind kind = Kind::Op;
  int64_t microbatch = 0; // index of the microbatch in which the instruction runs, from 0
  /// Index in Expansion::ops of the instruction of the expanded program from which this one comes. Instructions with
  /// the same origin differ only in their microbatch.
  int origin = 0;
  int64_t peerStage = -1; // for a transfer: the stage at the other end; otherwise -1
  int64_t message = -1;   // for a transfer: the message's number, below FlatProgram::messages; otherwise -1
  /// A collective of a bucket. A bucket is several collectives that run as one.
  struct Member {
    const Instruction *source = nullptr; // the collective in its function's body
    int origin = 0;                      // index of this collective in Expansion::ops
    int64_t microbatch = 0;              // index of the microbatch in which the collective runs, from 0
  };
  /// The members of a bucket after the first, each with one operand and one result; empty for other instructions.
  std::vector<Member> others = {};
  /// For a product that is added to a sum over microbatches: index in Expansion::ops of the `accumulate` that it
  /// replaces; otherwise -1. Its last operand is the sum so far, and its result is the new sum.
  int sum = -1;
  /// Number of instructions directly after this product that a device may run together with it as one instruction
  /// (kerf/Package/Epilogue.h); 0 for any other instruction.
  int joined = 0;
  /// The instructions that this one stands for, the product first, where a group has been joined; otherwise
  /// empty. Its operands and results are those of the group, without the values that are used only inside of it.
  std::vector<FlatInstruction> parts = {};
  /// An operand or result that is a part of the rows of a wider value. A row is an index of its first two dimensions.
  struct RowPart {
    int value = -1;                 // index into FlatProgram::values of the part, which has no memory of its own
    int64_t offset = 0, stride = 0; // elements to the first row, and from a row to the next one
  };
  /// Where a device lets attention read parts of rows: one for each operand, with the value -1 for an operand that is
  /// no part. Empty for other instructions.
  std::vector<RowPart> operandParts = {};
  /// Where a device lets attention write its gradients as parts of the rows of results[0]: one for each gradient.
  std::vector<RowPart> resultParts = {};
  int call = -1;                    // ExpandedOp::call * microbatches + microbatch; -1: not in a call
  const Function *kernel = nullptr; // the callee, if the instruction calls a kernel; otherwise null
  std::string stream = {};          // name of the stream on which the instruction runs; "": the stream of kernels
};

/// An argument of the program that a pipeline stage holds. An argument that is sharded over microbatches has one
/// FlatArg for each microbatch.
struct FlatArg {
  size_t arg = 0;         // index into Program::args
  int64_t microbatch = 0; // index of the microbatch; 0 for an argument that is not sharded over microbatches
  int value = -1;         // index into FlatProgram::values
};

/// Everything that the ranks of one pipeline stage execute in one step, in order.
struct FlatProgram {
  std::vector<Value> values;         // types of all values
  std::vector<FlatArg> args;         // in the order of Program::args
  std::vector<int> results;          // for each of Program::results: index into `values`; -1: not held by this stage
  std::vector<FlatInstruction> body; // without calls, except calls of kernels
  int origins = 0;                   // size of Expansion::ops; each FlatInstruction::origin is less than this number
  int64_t messages = 0;              // number of messages that all stages together send in one step
};

/// Follows a stage's list of steps and gives each instruction its operands and results. An `accumulate` gets one
/// operand (the microbatch's value) when it first runs, then two (the sum so far and the value). Fails if the list uses
/// a value before it exists, runs an instruction of another stage, or runs an instruction twice in a microbatch.
Result<FlatProgram> flatten(const Program &program, const Expansion &expansion, int64_t stage, const StepList &list);
/// Flattens the list of steps that the program itself holds for `stage`. Fails if the program has no such list.
Result<FlatProgram> flatten(const Program &program, int64_t stage);
/// Returns a list of steps from which `flatten` would make `flat`.
StepList stepListOf(const FlatProgram &flat);
/// Appends instruction `op` of the expanded program to a list of steps, extending the last entry where that entry is a
/// Run of the same microbatch that ends at `op` - 1.
void appendRun(StepList &list, int op, int64_t microbatch);

/// Returns true if the instruction computes nothing because its result is its operand's memory: `reshape`, `wait`, and
/// the first `accumulate` where the type stays.
bool isView(const FlatProgram &flat, const FlatInstruction &instruction);
/// Returns true if the instruction belongs to the optimizer's update of one parameter.
bool isUpdate(const FlatInstruction &instruction);
/// Returns the indices of the values that are gradients: non-scalars that optimizer updates read and that are neither
/// arguments of the program, views of arguments, nor results of updates.
std::vector<int> gradientsOf(const FlatProgram &flat);
/// Returns the instruction's op name, or the kernel's name for a call of a kernel. The names of joined instructions
/// have " + " between them.
std::string operatorName(const FlatInstruction &instruction);

/// Largest size, in bytes, of a constant that is computed once when the program is loaded and kept for all
/// microbatches. Larger constants are computed again in each microbatch.
inline constexpr int64_t kKeptConstantBytes = 64 * 1024;
/// Returns true if the instruction is a `constant` whose result has at most kKeptConstantBytes bytes.
bool isKeptConstant(const Instruction &instruction, const Value &result);

/// Returns how many values argument `arg` has in a step: the number of microbatches if its sharding contains the axis
/// `microbatch`, otherwise 1.
int64_t microbatchPieces(const Program &program, size_t arg);
/// Returns true if `stage` holds argument `arg`: because the argument names that stage, or names none and is
/// used there.
bool hasArg(const Program &program, size_t arg, int64_t stage);
/// Returns true if `stage` holds result `result`: because the result names that stage or no stage.
bool hasResult(const Program &program, size_t result, int64_t stage);
/// Returns the element type of result `result` of the entry function.
DType resultType(const Program &program, size_t result);

} // namespace kerf::package
