// SPDX-License-Identifier: Apache-2.0
// checkProgram: checks everything that the executor relies on, so that a damaged or hand-edited program gives an error
// message instead of a crash.
#include "CheckPipeline.h"
#include "CheckSteps.h"
#include "Readers.h"
#include "kerf/Package/Batches.h"
#include "kerf/Package/HostCopies.h"
#include "kerf/Package/Native.h"
#include "kerf/Support/Collectives.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <map>
#include <set>

namespace kerf::package {

namespace {
constexpr int64_t kMostRanks = int64_t(1) << 20;
/// Limit on the instructions of the expanded program in all microbatches: a few nested calls in a damaged file could
/// otherwise expand to an unbounded number.
constexpr int64_t kMostInstructions = 20'000'000;

std::string text(const Value &value) {
  return fmt::format("{}{}{}", value.pending ? "pending " : "", toString(value.dtype), shapeText(value.shape));
}
bool sameType(const Value &a, const Value &b) {
  return a.dtype == b.dtype && a.shape == b.shape && a.pending == b.pending;
}

Status checkMesh(const Mesh &mesh) {
  std::set<std::string_view> names;
  int64_t ranks = 1;
  for (const MeshAxis &axis : mesh.axes) {
    if (axis.name.empty() || !names.insert(axis.name).second)
      return Error{fmt::format("the mesh has two axes named '{}', or an axis without a name", axis.name)};
    if (axis.size < 1 || axis.size > kMostRanks || ranks * axis.size > kMostRanks)
      return Error{fmt::format("the mesh's axis '{}' of size {} makes fewer than 1 or more than {} ranks", axis.name,
                               axis.size, kMostRanks)};
    ranks *= axis.name == kMicrobatchAxis ? 1 : axis.size;
  }
  return ok();
}

/// Checks one function: every value is defined once and before its uses, and operands and results have the right types.
class FunctionCheck {
public:
  FunctionCheck(const Program &program, const std::map<std::string_view, int> &functions, const Function &function)
      : program(program), functions(functions), function(function), defined(function.values.size(), false) {}

  Status run() {
    for (size_t v = 0; v < function.values.size(); ++v)
      if (!checkedElements(function.values[v].shape))
        return fail(
            fmt::format("value {} has a negative or too large size in {}", v, shapeText(function.values[v].shape)));
    for (int arg : function.args)
      if (Status status = define(arg, "an argument"); !status)
        return status;
    for (size_t i = 0; i < function.body.size(); ++i)
      if (Status status = checkInstruction(function.body[i]); !status)
        return fail(fmt::format("instruction {} ({}{}{}): {}", i, function.body[i].op,
                                function.body[i].name.empty() ? "" : " of ", function.body[i].name,
                                status.error().message));
    for (int result : function.results)
      if (Status status = use(result); !status)
        return fail(fmt::format("results: {}", status.error().message));
    return ok();
  }

private:
  Error fail(const std::string &what) const { return {fmt::format("program, function '{}': {}", function.name, what)}; }

  Status define(int value, std::string_view what) {
    if (value < 0 || size_t(value) >= defined.size())
      return Error{fmt::format("{} is value {}, but there are {} values", what, value, defined.size())};
    if (defined[value])
      return Error{fmt::format("{} is value {}, which is defined already", what, value)};
    defined[value] = true;
    return ok();
  }

  Status use(int value) const {
    if (value < 0 || size_t(value) >= defined.size())
      return Error{fmt::format("value {} is used, but there are {} values", value, defined.size())};
    if (!defined[value])
      return Error{fmt::format("value {} is used before it is defined", value)};
    return ok();
  }

  const Value &value(int index) const { return function.values[size_t(index)]; }

  Status checkInstruction(const Instruction &instruction) {
    if (!instruction.attrs.is_object())
      return Error{"its attributes (attrs) are not a JSON object"};
    for (int operand : instruction.operands)
      if (Status status = use(operand); !status)
        return status;
    for (int result : instruction.results)
      if (Status status = define(result, "a result"); !status)
        return status;
    if (instruction.op == "call")
      return function.kernel ? Error{"a kernel must not call a function"} : checkCall(instruction);
    bool collective = isAsynchronous(instruction.op), wait = instruction.op == "wait";
    if (function.kernel && (collective || wait))
      return Error{"a kernel must not contain collectives, host copies or waits"};
    bool oneOfOne = collective || wait || instruction.op == kTransfer || instruction.op == kAccumulate;
    if (oneOfOne && (instruction.operands.size() != 1 || instruction.results.size() != 1))
      return Error{fmt::format("it takes one operand and gives one result, but has {} and {}",
                               instruction.operands.size(), instruction.results.size())};
    for (int operand : instruction.operands)
      if (value(operand).pending != wait)
        return Error{
            fmt::format("operand {} is {}: {}", operand, text(value(operand)),
                        wait ? "the operand of wait must be a pending value" : "only wait may use a pending value")};
    for (int result : instruction.results)
      if (value(result).pending != collective)
        return Error{fmt::format("result {} is {}: {}", result, text(value(result)),
                                 collective ? "the result must be a pending value"
                                            : "only collectives and copies give pending values")};
    if (wait && (value(instruction.operands[0]).dtype != value(instruction.results[0]).dtype ||
                 value(instruction.operands[0]).shape != value(instruction.results[0]).shape))
      return Error{fmt::format("its operand is {}, but its result is {}: wait changes neither type nor shape",
                               text(value(instruction.operands[0])), text(value(instruction.results[0])))};
    if (auto batches = batchesOf(instruction); collective && !batches)
      return batches.error();
    if (collective && value(instruction.operands[0]).dtype != value(instruction.results[0]).dtype)
      return Error{fmt::format("its operand is {}, but its result is {}: the element type must stay",
                               text(value(instruction.operands[0])), text(value(instruction.results[0])))};
    return ok();
  }

  Status checkCall(const Instruction &call) const {
    auto name = call.attrs.find("callee");
    if (name == call.attrs.end() || !name->is_string())
      return Error{"a call needs the attribute callee"};
    auto found = functions.find(name->get_ref<const std::string &>());
    if (found == functions.end())
      return Error{fmt::format("there is no function '{}'", name->get_ref<const std::string &>())};
    const Function &callee = program.functions[size_t(found->second)];
    if (Status status = matchTypes("operand", call.operands, callee, callee.args); !status)
      return status;
    return matchTypes("result", call.results, callee, callee.results);
  }

  Status matchTypes(std::string_view what, const std::vector<int> &ours, const Function &callee,
                    const std::vector<int> &theirs) const {
    if (ours.size() != theirs.size())
      return Error{
          fmt::format("{} {}s are given, but function '{}' has {}", ours.size(), what, callee.name, theirs.size())};
    for (size_t i = 0; i < ours.size(); ++i) {
      if (theirs[i] < 0 || size_t(theirs[i]) >= callee.values.size())
        return Error{fmt::format("{} {} of function '{}' is value {}, but it has {} values", what, i, callee.name,
                                 theirs[i], callee.values.size())};
      const Value &their = callee.values[size_t(theirs[i])];
      if (!sameType(value(ours[i]), their))
        return Error{fmt::format("{} {} is {}, but function '{}' has {}", what, i, text(value(ours[i])), callee.name,
                                 text(their))};
    }
    return ok();
  }

  const Program &program;
  const std::map<std::string_view, int> &functions;
  const Function &function;
  std::vector<bool> defined;
};

/// Counts the instructions of the entry function with its calls inlined, over all microbatches. Fails on recursion and
/// above kMostInstructions.
class CallCheck {
public:
  CallCheck(const Program &program, const std::map<std::string_view, int> &functions)
      : program(program), functions(functions), count(program.functions.size(), kUnknown) {}

  Status run() {
    // Depth-first over callees with an explicit stack: a damaged file may chain thousands of functions.
    std::vector<std::pair<int, size_t>> stack = {{functions.at(program.entry), 0}};
    count[size_t(stack[0].first)] = kOpen;
    std::vector<int64_t> sums = {0};
    while (!stack.empty()) {
      auto &[index, next] = stack.back();
      const Function &function = program.functions[size_t(index)];
      if (next == function.body.size()) {
        count[size_t(index)] = sums.back();
        stack.pop_back(), sums.pop_back();
        continue;
      }
      const Instruction &instruction = function.body[next];
      if (instruction.op != "call") {
        ++next, ++sums.back();
        continue;
      }
      int callee = functions.at(instruction.attrs["callee"].get_ref<const std::string &>());
      if (count[size_t(callee)] == kOpen)
        return Error{fmt::format("program: function '{}' calls itself, directly or through others",
                                 program.functions[size_t(callee)].name)};
      if (count[size_t(callee)] == kUnknown) {
        count[size_t(callee)] = kOpen;
        stack.emplace_back(callee, 0), sums.push_back(0);
        continue;
      }
      sums.back() += count[size_t(callee)];
      if (sums.back() > kMostInstructions)
        return Error{
            fmt::format("program: with its calls inlined, it has more than {} instructions", kMostInstructions)};
      ++next;
    }
    int64_t entry = count[size_t(functions.at(program.entry))], microbatches = microbatchesOf(program);
    if (entry > kMostInstructions / microbatches)
      return Error{fmt::format("program: {} instructions in {} microbatches are more than the limit of {}", entry,
                               microbatches, kMostInstructions)};
    return ok();
  }

private:
  static constexpr int64_t kUnknown = -1, kOpen = -2;
  const Program &program;
  const std::map<std::string_view, int> &functions;
  std::vector<int64_t> count;
};

/// Checks that `sharding` is valid for the global shape `shape` and gives the local type `local`.
Status checkLayout(const Program &program, const Shape &shape, const Sharding &sharding, const Value &local) {
  if (!checkedElements(shape))
    return Error{fmt::format("its shape {} has a negative or too large size", shapeText(shape))};
  if (sharding.dims.size() != shape.size())
    return Error{fmt::format("its sharding has {} dimensions, its shape {} has {}", sharding.dims.size(),
                             shapeText(shape), shape.size())};
  for (const DimSharding &dim : sharding.dims)
    for (const AxisRef &ref : dim.axes)
      if (ref.axis < 0 || size_t(ref.axis) >= program.mesh.axes.size())
        return Error{
            fmt::format("its sharding names axis {}, but the mesh has {} axes", ref.axis, program.mesh.axes.size())};
  if (!sharding.partial.empty())
    return Error{"its sharding is partial: arguments and results of the step must not be partial sums"};
  if (Status status = checkSharding(program.mesh, shape, sharding); !status)
    return status;
  if (local.pending || localShape(shape, sharding) != local.shape)
    return Error{fmt::format("it is {} in the entry function, but its sharding gives the local shape {} for {}",
                             text(local), shapeText(localShape(shape, sharding)), shapeText(shape))};
  return ok();
}

Status checkArg(const Program &program, const Function &entry, size_t index) {
  const Arg &arg = program.args[index];
  const Value &local = entry.values[size_t(entry.args[index])];
  if (Status status = checkLayout(program, arg.shape, arg.sharding, local); !status)
    return status;
  if (arg.dtype != local.dtype)
    return Error{
        fmt::format("its type is {}, but in the entry function it is {}", toString(arg.dtype), toString(local.dtype))};
  auto exported = checkedElements(arg.exportedShape);
  if (!exported || *exported != elementsOf(arg.shape))
    return Error{fmt::format("its exported shape {} and its shape {} have different numbers of elements",
                             shapeText(arg.exportedShape), shapeText(arg.shape))};
  bool scalar = arg.kind == ArgKind::LearningRate || arg.kind == ArgKind::Step || arg.kind == ArgKind::Seed;
  if (scalar && !arg.shape.empty())
    return Error{
        fmt::format("a {} is a scalar, but this argument has shape {}", toString(arg.kind), shapeText(arg.shape))};
  if (arg.kind == ArgKind::Seed && arg.dtype != DType::I64)
    return Error{fmt::format("a seed is i64, but this argument is {}", toString(arg.dtype))};
  if (arg.updatedBy < -1 || arg.updatedBy >= int(program.results.size()))
    return Error{fmt::format("it is updated by result {}, but there are {}", arg.updatedBy, program.results.size())};
  if (arg.updatedBy == -1)
    return ok();
  const Value &update = entry.values[size_t(entry.results[size_t(arg.updatedBy)])];
  if (!sameType(local, update) || program.results[size_t(arg.updatedBy)].sharding != arg.sharding)
    return Error{fmt::format("it is {}, but result {} that updates it is {} or has another sharding", text(local),
                             arg.updatedBy, text(update))};
  return ok();
}

Status checkEntry(const Program &program, const Function &entry) {
  if (entry.args.size() != program.args.size() || entry.results.size() != program.results.size())
    return Error{
        fmt::format("program: {} arguments and {} results are described, the entry function '{}' has {} and {}",
                    program.args.size(), program.results.size(), entry.name, entry.args.size(), entry.results.size())};
  std::set<std::pair<ArgKind, std::string_view>> names;
  std::vector<int> argOfResult(program.results.size(), -1);
  for (size_t i = 0; i < program.args.size(); ++i) {
    const Arg &arg = program.args[i];
    auto failed = [&](const std::string &what) {
      return Error{fmt::format("program, argument {} ('{}'): {}", i, arg.name, what)};
    };
    if (!names.insert({arg.kind, arg.name}).second)
      return failed("another argument of the same kind has the same name");
    if (Status status = checkArg(program, entry, i); !status)
      return failed(status.error().message);
    if (arg.updatedBy >= 0 && std::exchange(argOfResult[size_t(arg.updatedBy)], int(i)) >= 0)
      return failed(fmt::format("result {} updates another argument too", arg.updatedBy));
  }
  std::set<std::string_view> resultNames;
  for (size_t i = 0; i < program.results.size(); ++i) {
    const EntryResult &result = program.results[i];
    const Shape &shape = argOfResult[i] >= 0 ? program.args[size_t(argOfResult[i])].shape : result.shape;
    Status status = checkLayout(program, shape, result.sharding, entry.values[size_t(entry.results[i])]);
    if (!status)
      return Error{fmt::format("program, result {} ('{}'): {}", i, result.name, status.error().message)};
    if (argOfResult[i] < 0 && !resultNames.insert(result.name).second)
      return Error{fmt::format("program: two results are named '{}'", result.name)};
  }
  return ok();
}
} // namespace

bool isCollective(std::string_view op) { return findCollective(op) != nullptr; }

Result<BatchSet> batchesOf(const Instruction &collective) {
  auto given = collective.attrs.find(kBatches);
  if (given == collective.attrs.end())
    return BatchSet{{BatchRange{}}};
  auto wrong = [&](const std::string &what) {
    return Error{fmt::format("its attribute {} is {}; {}", kBatches, given->dump(), what)};
  };
  constexpr size_t kNumbers = 4;
  if (!given->is_array() || given->empty() || given->size() % kNumbers != 0)
    return wrong("it has to be a list of ranges, each of which is four integers: begin, end, every, run; "
                 "compile the model again");
  BatchSet batches;
  for (size_t i = 0; i < given->size(); i += kNumbers) {
    std::array<int64_t, kNumbers> numbers{};
    for (size_t n = 0; n < kNumbers; ++n) {
      const nlohmann::ordered_json &number = given->at(i + n);
      if (!number.is_number_integer() || (number.is_number_unsigned() && number.get<uint64_t>() > INT64_MAX))
        return wrong(fmt::format("number {} has to be an integer of 64 bits", i + n));
      numbers[n] = number.get<int64_t>();
    }
    const auto [begin, end, every, run] = numbers;
    const int64_t earliest = batches.ranges.empty() ? 0 : batches.ranges.back().end;
    if (begin < earliest || begin >= end || run < 1 || every < run)
      return wrong(
          fmt::format("its range {} has to have {} <= begin < end and 1 <= run <= every", i / kNumbers, earliest));
    batches.ranges.push_back({begin, end, every, run});
  }
  return batches;
}

bool isAsynchronous(std::string_view op) { return isCollective(op) || isHostCopy(op); }

Status checkProgram(const Program &program) {
  if (Status status = checkMesh(program.mesh); !status)
    return status;
  if (Status status = checkSchedule(program); !status)
    return status;
  std::map<std::string_view, int> functions;
  for (size_t f = 0; f < program.functions.size(); ++f)
    if (!functions.emplace(program.functions[f].name, int(f)).second)
      return Error{fmt::format("program: two functions are named '{}'", program.functions[f].name)};
  auto entry = functions.find(program.entry);
  if (entry == functions.end())
    return Error{fmt::format("program: the entry is '{}', but there is no function of that name", program.entry)};
  for (const Function &function : program.functions)
    if (Status status = FunctionCheck(program, functions, function).run(); !status)
      return status;
  if (Status status = CallCheck(program, functions).run(); !status)
    return status;
  const Function &step = program.functions[size_t(entry->second)];
  if (Status status = checkEntry(program, step); !status)
    return status;
  if (Status status = checkPipeline(program, step); !status)
    return status;
  if (!program.steps.empty())
    if (Status status = checkSteps(program); !status)
      return status;
  return program.native ? checkNative(*program.native, program) : ok();
}

} // namespace kerf::package
