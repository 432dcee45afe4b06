// SPDX-License-Identifier: Apache-2.0

// The package of a compiled model as plain data: the device program that every rank runs, with local shapes and
// collectives, and functions that check, write and read it (JSON format: docs/package.md). The package is all that the
// runtime needs from the compiler.
#pragma once

#include "kerf/Sharding/Sharding.h"
#include "kerf/Support/Result.h"
#include <memory>
#include <nlohmann/json.hpp>

namespace kerf {

/// Element type of a tensor.
enum class DType { F64, F32, BF16, F16, I64, I32, I16, I8, U64, U32, U16, U8, Bool, F8E4M3FN, F8E5M2 };
/// Returns the name of an element type: "f64", "bf16", "i64", "u8", "bool", "f8e4m3fn", ...
std::string_view toString(DType dtype);
/// Parses the name of an element type; returns nothing if there is no such type.
std::optional<DType> parseDType(std::string_view text);
/// Returns the size of one element in bytes; a Bool has 1.
int64_t bytesOf(DType dtype);
/// Returns the number of elements of a shape: the product of its sizes, 1 for a scalar.
int64_t elementsOf(const Shape &shape);
/// Returns a shape as text, e.g. "[2, 3]".
std::string shapeText(const Shape &shape);

} // namespace kerf

namespace kerf::package {

/// Type of a value of a function: a tensor with the shape that it has on one rank.
struct Value {
  DType dtype = DType::F32;
  Shape shape;          // local shape, that of one rank's shard
  bool pending = false; // true if the value is the result of a started collective or copy, usable only after `wait`
};

/// Part of a training step in which an instruction of a program with a schedule runs. `Prepare` runs once at the start
/// of the step, `Update` once at its end, and the others once for each microbatch. A schedule that splits the backward
/// pass (zero bubble) has `InputGradient` and `WeightGradient`; every other schedule has `Backward`.
enum class Phase { Prepare, Forward, Backward, InputGradient, WeightGradient, Update };
/// Returns the name of a phase: "prepare", "forward", "backward", "input_gradient", "weight_gradient" or "update".
std::string_view toString(Phase phase);
/// Parses the name of a phase; returns nothing if there is no such phase.
std::optional<Phase> parsePhase(std::string_view text);
/// Returns true for the phases that run once in a step, Prepare and Update.
bool isOncePerStep(Phase phase);

/// Phase, pipeline stage and model chunk in which an instruction of the entry function runs. Instructions of the same
/// task run in the order of the function's body.
struct ProgramTask {
  Phase phase = Phase::Prepare;
  int64_t stage = 0; // pipeline stage
  int64_t chunk = 0; // model chunk of an interleaved schedule; 0 for other schedules
  auto operator<=>(const ProgramTask &) const = default;
};

/// One op of a device program.
struct Instruction {
  std::string op; // name in the dialect, e.g. "dot_general"; "call" calls the function that attrs["callee"] names
  std::vector<int> operands, results;                              // indices into Function::values
  nlohmann::ordered_json attrs = nlohmann::ordered_json::object(); // attributes, by names of docs/operators.md
  std::string name;                               // node of the user's model that it comes from, for errors and traces
  std::optional<ProgramTask> task = std::nullopt; // set exactly in the entry function of a program with a schedule
  std::string update = {}; // for an instruction of the optimizer: name of the parameter that it updates; otherwise ""
};

/// A function of a device program, e.g. one repeated layer. A kernel is a function of pointwise ops and reductions that
/// a device with native code for it runs as one instruction (kerf/Package/Native.h).
struct Function {
  std::string name;
  std::vector<Value> values;      // types of all values: arguments, results and intermediates
  std::vector<int> args, results; // indices into `values`
  std::vector<Instruction> body;
  bool kernel = false; // true if the function is a kernel
};

/// Role of an argument of the entry function. A `State` belongs to the optimizer, and an `Input` is a part of
/// the batch.
enum class ArgKind { Parameter, Buffer, Constant, State, Input, LearningRate, Step, Seed };
/// Returns the name of an argument kind: "parameter", ..., "learning_rate", "step", "seed".
std::string_view toString(ArgKind kind);

/// One argument of the entry function.
struct Arg {
  ArgKind kind = ArgKind::Input;
  std::string name; // name in the model, e.g. "transformer.wte.weight"; a state: "exp_avg/transformer.wte.weight"
  DType dtype = DType::F32; // type in the program; weights of another floating type are converted when they are loaded
  Shape shape;              // global shape in the program
  Shape exportedShape;      // global shape in weight files: the same elements in the same row-major order
  Sharding sharding;        // sharding over Program::mesh; never partial
  int updatedBy = -1;       // index of the entry result that replaces the argument after a step; -1: none does
  bool trainable = false;   // true if the optimizer updates the argument
  int64_t stage = -1;       // pipeline stage that holds the argument; -1: every stage that uses the argument
};

/// One result of the entry function: the loss, a metric, or the new value of an argument.
struct EntryResult {
  std::string name;   // "loss", "gradient_norm_squared/NAME", or the name of the argument that it replaces
  Sharding sharding;  // sharding over Program::mesh; never partial
  Shape shape;        // global shape; may be empty where the result replaces an argument, whose shape it then has
  int64_t stage = -1; // pipeline stage that holds the result; -1: every stage
};

/// Pipeline schedule of a program, by the names of kerf/Schedule/Schedule.h.
struct ScheduleChoice {
  std::string name, variant; // e.g. "1f1b"; "zero-bubble" with variant "h1"; variant "": the default
  int64_t chunks = 1;        // model chunks on each stage; above 1 for an interleaved schedule
  /// Zero-bubble 1p, 2p and by-memory: the most microbatches that each stage holds; one number: all stages; empty: as
  /// many as the variant says.
  std::vector<int64_t> inFlight = {};
  bool operator==(const ScheduleChoice &) const = default;
};

/// Names of the mesh axes with a special meaning. `stage` numbers the pipeline stages and shards no tensor;
/// `microbatch` numbers the microbatches, which a rank runs one after the other. A program with either axis has
/// a schedule.
inline constexpr std::string_view kStageAxis = "stage", kMicrobatchAxis = "microbatch";

/// An instruction in one microbatch, as a member of a StepEntry (StepEntry::members).
struct StepMember {
  int op = 0;             // index of the instruction in the expanded program (kerf/Package/FlatProgram.h)
  int64_t microbatch = 0; // index of the microbatch in which the instruction runs, from 0
  bool operator==(const StepMember &) const = default;
};

/// One entry of a list of steps: what the ranks of one pipeline stage execute next. `first`, `last` and StepMember::op
/// are numbers of instructions in the expanded program (kerf/Package/FlatProgram.h). There, calls are inlined, but each
/// instruction stands once for all microbatches, so an entry also names the microbatch.
struct StepEntry {
  /// `Run` executes the instructions from `first` to `last`, one after the other. `Add` executes the product `first`
  /// and its sum over microbatches, the `accumulate` `last`, as one instruction. `Join` executes `members`, a product
  /// and instructions after it, one after the other, or as one where the device can (kerf/Package/Epilogue.h). `Start`
  /// starts `members`: several
  /// collectives that run as one (a bucket), or a single collective or host copy. `Send` and `Receive` begin one side
  /// of the transfer `first`; `Sent` and `Received` wait until that side is done.
  enum class Kind { Run, Add, Join, Start, Send, Sent, Receive, Received } kind = Kind::Run;
  /// Index of a Run's first instruction, an Add's product, or the transfer; unused by a Join and a Start.
  int first = 0;
  int last = 0;           // index of the last instruction of a Run, or of an Add's `accumulate`
  int64_t microbatch = 0; // microbatch of the entry; unused by a Start, whose members name their own
  /// The instructions of a Join, all in the entry's microbatch, or the collectives or the host copy of a Start; empty
  /// for other kinds.
  std::vector<StepMember> members = {};
  std::string stream = {}; // stream on which a Start or Receive runs; "": the stream of kernels
  bool operator==(const StepEntry &) const = default;
};
/// Returns the name of an entry's kind: "run", "add", "join", "start", "send", "sent", "receive" or "received".
std::string_view toString(StepEntry::Kind kind);
/// The list of steps of one pipeline stage: everything that its ranks execute in one step, in order.
using StepList = std::vector<StepEntry>;

/// Version of the format of program.json. The runtime refuses a program of another version.
inline constexpr int kVersion = 3;

struct NativeCode;

/// The device program: one training step, the same for all ranks.
struct Program {
  int version = kVersion;                 // version of the format of program.json
  Mesh mesh;                              // includes the axis of microbatches: its product is not the number of ranks
  std::optional<ScheduleChoice> schedule; // set exactly when the mesh has an axis `stage` or `microbatch`
  std::vector<Function> functions;
  std::string entry;                // name of the function that is one training step
  std::vector<Arg> args;            // arguments of the entry function
  std::vector<EntryResult> results; // results of the entry function
  /// For each pipeline stage, its list of steps. Empty until `makeSteps` (kerf/Steps/Steps.h) has filled it.
  std::vector<StepList> steps;
  std::string stepPasses; // names and options of the passes that made the lists of steps, in order; for people
  std::shared_ptr<const NativeCode> native; // machine code of the kernels; null: there is none
  /// Facts for people and reports: the plan, the model's name, predictions. The runtime reads only the key
  /// kAccumulateKey (kerf/Package/Accumulation.h).
  nlohmann::ordered_json info = nlohmann::ordered_json::object();
};

/// Returns the number of ranks that run the program: the product of the mesh's axes without `microbatch`.
int64_t ranksOf(const Program &program);
/// Returns the number of pipeline stages; 1 for a mesh without the axis `stage`.
int64_t stagesOf(const Program &program);
/// Returns the number of microbatches of a step; 1 for a mesh without the axis `microbatch`.
int64_t microbatchesOf(const Program &program);
/// Returns the pipeline stage of `rank`, a number below ranksOf(program).
int64_t stageOf(const Program &program, int64_t rank);
/// Returns the rank of stage `stage` whose other mesh coordinates are those of `rank`.
int64_t rankOnStage(const Program &program, int64_t rank, int64_t stage);
/// Returns the position in the whole mesh, the axis `microbatch` included, of `rank` while it runs `microbatch`.
/// Kernels that depend on the rank, such as random numbers, take this position.
int64_t virtualRank(const Program &program, int64_t rank, int64_t microbatch);
/// Returns the rank of a position in the whole mesh: the inverse of virtualRank without the microbatch.
int64_t realRank(const Mesh &mesh, int64_t virtualRank);

/// Returns true if `op` is a collective. A collective has one operand and one result, which is pending.
bool isCollective(std::string_view op);

/// Ops that occur only in the entry function of a program with a schedule. `transfer` sends a value from stage
/// attrs["from"] to stage attrs["to"], and its task is the sender's. `accumulate` sums a value over all microbatches,
/// in the order in which the stage runs them, in the value's type or a wider one.
inline constexpr std::string_view kTransfer = "transfer", kAccumulate = "accumulate";
/// The op of matrix products, which can be added to a sum over microbatches (StepEntry::Kind::Add).
inline constexpr std::string_view kProduct = "dot_general";

/// Parses a number of an attribute, where "inf", "-inf" and "nan" stand for the values that JSON numbers cannot have.
/// Returns nothing if `json` is no number.
std::optional<double> parseNumber(const nlohmann::ordered_json &json);

/// Checks everything that a damaged or hand-edited program can get wrong, except the kernels' own attributes, which are
/// checked when kernels are bound: counts, indices, shapes and names agree, and every operand is defined before its
/// use, in functions and in lists of steps. Lists of steps may be missing.
Status checkProgram(const Program &program);
/// Returns the text of program.json; the same program always gives the same bytes.
std::string writeProgram(const Program &program);
/// Parses the text of program.json. Fails if the text is malformed, of another version, or fails checkProgram.
Result<Program> readProgram(std::string_view json);
/// Returns the JSON text of one function as it stands in program.json.
std::string writeFunction(const Function &function);

/// Name of the file in a package folder that holds the program.
inline constexpr const char *kProgramFile = "program.json";
/// Name of the file in a package folder that holds the initial parameters, buffers and constants, under their names.
/// Parameters are missing from it when the model came without weights.
inline constexpr const char *kWeightsFile = "weights.safetensors";

} // namespace kerf::package
