// SPDX-License-Identifier: Apache-2.0
// The device programs of a compiled model as plain data, with reader and writer (JSON: docs/package.md). It is what the
// compiler hands to the runtime: local shapes, collectives, one program for all ranks. The runtime needs nothing else.
#pragma once

#include "kerf/Sharding/Sharding.h"
#include "kerf/Support/Result.h"
#include <memory>
#include <nlohmann/json.hpp>

namespace kerf {

enum class DType { F64, F32, BF16, F16, I64, I32, I16, I8, U64, U32, U16, U8, Bool };
std::string_view toString(DType dtype); // "f64", "bf16", "i64", "u8", "bool", ...
std::optional<DType> parseDType(std::string_view text);
int64_t bytesOf(DType dtype);
int64_t elementsOf(const Shape &shape);
std::string shapeText(const Shape &shape); // "[2, 3]"

} // namespace kerf

namespace kerf::package {

/// A value of a function: a local tensor. `pending`: the result of a started collective, usable after `wait`.
struct Value {
  DType dtype = DType::F32;
  Shape shape;
  bool pending = false;
};

/// When an instruction of a step with a schedule runs: `Prepare` once at the step's start, `Update` once at its end,
/// the others once for each microbatch. A schedule that splits the backward has `InputGradient` and `WeightGradient`,
/// any other `Backward`.
enum class Phase { Prepare, Forward, Backward, InputGradient, WeightGradient, Update };
std::string_view toString(Phase phase); // "prepare", ..., "input_gradient", "weight_gradient", "update"
std::optional<Phase> parsePhase(std::string_view text);
bool isOnce(Phase phase); // Prepare and Update

/// Where and when an instruction of the entry function runs. Those of one task run in the order of the body.
struct Task {
  Phase phase = Phase::Prepare;
  int64_t stage = 0, chunk = 0;
  auto operator<=>(const Task &) const = default;
};

/// One op of the device level: `op` is its name in the dialect ("dot_general", "all_reduce"), `attrs` its attributes
/// under their names in the dialect (docs/operators.md); operands and results index the function's values. op ==
/// "call": attrs.callee names a function. `name` is the user's node, for errors and traces. `task`: in the entry
/// function of a program with a schedule.
struct Instruction {
  std::string op;
  std::vector<int> operands, results;
  nlohmann::ordered_json attrs = nlohmann::ordered_json::object();
  std::string name;
  std::optional<Task> task = std::nullopt;
  std::string update = {}; // of an instruction of the optimizer: the name of the parameter that it updates
};

/// `kernel`: a chain of pointwise ops that is one instruction where there is code for it (kerf/Package/Native.h).
struct Function {
  std::string name;
  std::vector<Value> values;
  std::vector<int> args, results; // indices into values
  std::vector<Instruction> body;
  bool kernel = false;
};

enum class ArgKind { Parameter, Buffer, Constant, State, Input, LearningRate, Step, Seed };
std::string_view toString(ArgKind kind); // "parameter", ..., "learning_rate", "step", "seed"

/// One argument of the entry function.
struct Arg {
  ArgKind kind = ArgKind::Input;
  std::string name;         // as exported: "transformer.wte.weight"; a state: "exp_avg/transformer.wte.weight"
  DType dtype = DType::F32; // in the program; a file may hold another floating type and is converted
  Shape shape;              // global, as the program sees it
  Shape exportedShape;      // as files hold it: the same elements in the same (row-major) order
  Sharding sharding;        // over Program::mesh; never partial
  int updatedBy = -1;       // the entry's result that replaces it after the step, or -1
  bool trainable = false;
  int64_t stage = -1; // that holds it; -1: every stage that uses it
};

struct EntryResult {
  std::string name;   // "loss", "gradient_norm_squared/NAME", or the name of the argument that it replaces
  Sharding sharding;  // never partial
  Shape shape;        // global; may be left empty where the result replaces an argument, whose shape it has
  int64_t stage = -1; // that holds it; -1: every stage
};

/// The order of microbatches on stages, in the words of kerf/Schedule/Schedule.h.
struct ScheduleChoice {
  std::string name, variant;
  int64_t chunks = 1;
  bool operator==(const ScheduleChoice &) const = default;
};

/// Axes of the mesh with a meaning of their own: no tensor is cut by `stage`; `microbatch` is an axis in time. A
/// program with either has a schedule.
inline constexpr std::string_view kStageAxis = "stage", kMicrobatchAxis = "microbatch";

/// An instruction in one microbatch, under its number in the expanded program (kerf/Package/FlatProgram.h).
struct StepMember {
  int op = 0;
  int64_t microbatch = 0;
  bool operator==(const StepMember &) const = default;
};

/// An entry of the list that a stage's ranks run.
struct StepEntry {
  /// `Run`: the instructions from `first` to `last`, one after the other. `Start`: `members`, collectives that are one,
  /// or one copy to or from the host. `Send`, `Receive`: begins one side of the transfer `first`; `Sent`, `Received`:
  /// waits until that side is done.
  enum class Kind { Run, Start, Send, Sent, Receive, Received } kind = Kind::Run;
  int first = 0, last = 0; // last: of a Run
  int64_t microbatch = 0;  // of all but a Start
  std::vector<StepMember> members = {};
  std::string stream = {}; // of Start and Receive: the stream that they run on; "": that of kernels
  bool operator==(const StepEntry &) const = default;
};
std::string_view toString(StepEntry::Kind kind); // "run", "start", "send", "sent", "receive", "received"
using StepList = std::vector<StepEntry>;

inline constexpr int kVersion = 3;

struct NativeCode;

struct Program {
  int version = kVersion;
  Mesh mesh; // Mesh::ranks() counts microbatches too: see ranksOf
  std::optional<ScheduleChoice> schedule;
  std::vector<Function> functions;
  std::string entry; // name of the function that is one training step
  std::vector<Arg> args;
  std::vector<EntryResult> results;
  /// The instructions that the ranks of each stage run, in order. The list is empty until kerf/Steps/Steps.h has made
  /// it.
  std::vector<StepList> steps;
  std::string stepPasses;                   // that made the lists, in order: for people
  std::shared_ptr<const NativeCode> native; // code for functions that are kernels; none without
  /// For people and for `kerf run`'s report: the plan, the model's name, predictions. The runtime does not depend on
  /// it.
  nlohmann::ordered_json info = nlohmann::ordered_json::object();
};

/// Ranks that run the program: the mesh without its microbatches.
int64_t ranksOf(const Program &program);
int64_t stagesOf(const Program &program);
int64_t microbatchesOf(const Program &program);
/// Coordinate of a rank (of ranksOf) on the axis `stage`.
int64_t stageOf(const Program &program, int64_t rank);
/// The rank at the same place of stage `stage`.
int64_t rankOnStage(const Program &program, int64_t rank, int64_t stage);
/// The rank as kernels that ask for a position see it: one of the whole mesh, microbatches included.
int64_t virtualRank(const Program &program, int64_t rank, int64_t microbatch);
int64_t realRank(const Mesh &mesh, int64_t virtualRank);

/// The ops that communicate: one operand, one result, and that is `pending`.
bool isCollective(std::string_view op);

/// Ops of the entry function of a program with a schedule alone. `transfer`: the value of stage attrs.from on stage
/// attrs.to; its task is the sender's. `accumulate`: the sum of a microbatch's value over all microbatches, in the
/// order in which the stage runs them, perhaps in a wider type.
inline constexpr std::string_view kTransfer = "transfer", kAccumulate = "accumulate";

/// Numbers in attributes: JSON has no infinities, so `writeProgram` writes "inf", "-inf" and "nan". Nothing where it is
/// no number.
std::optional<double> numberFrom(const nlohmann::ordered_json &json);

/// Counts, indices, shapes and names agree; each instruction's operands are defined before it, in the functions and in
/// the lists of steps, where there are lists. Everything that a hand-edited or damaged file can get wrong is found here
/// (kernels check their own attributes when they are bound).
Status checkProgram(const Program &program);
std::string writeProgram(const Program &program); // the bytes of program.json: deterministic
Result<Program> readProgram(std::string_view json);
/// One function as it stands there.
std::string writeFunction(const Function &function);

/// A package is a folder: program.json, weights.safetensors with the initial parameters, buffers and constants under
/// their names (parameters are absent when the model came without weights), and the files of native code.
inline constexpr const char *kProgramFile = "program.json";
inline constexpr const char *kWeightsFile = "weights.safetensors";

} // namespace kerf::package
