// SPDX-License-Identifier: Apache-2.0
// Writer and reader of program.json. Each argument, result and instruction is one line, so that people can read and
// diff the file. Errors while reading are exceptions internally (the JSON library's and Bad); `readProgram` turns them
// into one message that names the place.
#include "Readers.h"
#include "kerf/Package/Native.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace kerf {

Status checkNesting(std::string_view json) {
  constexpr int kMost = 100;
  int depth = 0;
  bool inString = false;
  for (size_t i = 0; i < json.size(); ++i) {
    char c = json[i];
    if (inString) {
      i += c == '\\';
      inString = c != '"';
    } else if (c == '"') {
      inString = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMost)
        return Error{fmt::format("JSON nested deeper than {} at byte {}", kMost, i)};
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return ok();
}

} // namespace kerf

namespace kerf::package {

namespace {
using Json = nlohmann::ordered_json;

constexpr std::string_view kKinds[] = {"parameter", "buffer",        "constant", "state",
                                       "input",     "learning_rate", "step",     "seed"};
constexpr ReduceKind kReduceKinds[] = {ReduceKind::Sum, ReduceKind::Max, ReduceKind::Min};
constexpr std::string_view kReduceNames[] = {"sum", "max", "min"};
constexpr std::string_view kPhases[] = {"prepare",        "forward",         "backward",
                                        "input_gradient", "weight_gradient", "update"};

//===-- writing
//-------------------------------------------------------------------------------------------------------===//

/// Replaces infinities and NaN, which JSON numbers cannot be, by the strings that parseNumber reads.
Json withoutInfinities(const Json &json) {
  if (json.is_number_float() && !std::isfinite(json.get<double>()))
    return std::isnan(json.get<double>()) ? "nan" : json.get<double>() > 0 ? "inf" : "-inf";
  if (!json.is_structured())
    return json;
  Json copy = json;
  for (Json &element : copy)
    element = withoutInfinities(element);
  return copy;
}

std::string text(const Json &json) {
  return withoutInfinities(json).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string valueText(const Value &value) {
  return fmt::format("{}{}[{}]", value.pending ? "pending " : "", toString(value.dtype), fmt::join(value.shape, ","));
}

Json toJson(const std::vector<AxisRef> &refs) {
  Json list = Json::array();
  for (const AxisRef &ref : refs)
    list.push_back({ref.axis, ref.before, ref.size});
  return list;
}

Json toJson(const Sharding &sharding) {
  Json dims = Json::array();
  for (const DimSharding &dim : sharding.dims) {
    if (dim.axes.empty())
      dims.push_back(Json::array());
    else
      dims.push_back({{"axes", toJson(dim.axes)}, {"chunk", dim.chunk}});
  }
  if (sharding.partial.empty())
    return dims;
  return {{"dims", dims}, {"partial", toJson(sharding.partial)}, {"kind", kReduceNames[size_t(sharding.partialKind)]}};
}

Json toJson(const Arg &arg) {
  Json json = {{"kind", toString(arg.kind)}, {"name", arg.name}, {"dtype", toString(arg.dtype)}, {"shape", arg.shape}};
  if (arg.exportedShape != arg.shape)
    json["exported_shape"] = arg.exportedShape;
  json["sharding"] = toJson(arg.sharding);
  if (arg.updatedBy >= 0)
    json["updated_by"] = arg.updatedBy;
  if (arg.trainable)
    json["trainable"] = true;
  if (arg.stage >= 0)
    json["stage"] = arg.stage;
  return json;
}

Json toJson(const EntryResult &result) {
  Json json = {{"name", result.name}, {"sharding", toJson(result.sharding)}, {"shape", result.shape}};
  if (result.stage >= 0)
    json["stage"] = result.stage;
  return json;
}

Json toJson(const ProgramTask &task) {
  Json json = {{"phase", toString(task.phase)}, {"stage", task.stage}};
  if (task.chunk != 0)
    json["chunk"] = task.chunk;
  return json;
}

Json toJson(const ScheduleChoice &schedule) {
  Json json = {{"name", schedule.name}};
  if (!schedule.variant.empty())
    json["variant"] = schedule.variant;
  if (schedule.chunks != 1)
    json["chunks"] = schedule.chunks;
  if (!schedule.inFlight.empty())
    json["in_flight"] = schedule.inFlight;
  return json;
}

Json toJson(const Instruction &instruction) {
  Json json = {{"op", instruction.op}, {"in", instruction.operands}, {"out", instruction.results}};
  if (!instruction.attrs.empty())
    json["attrs"] = instruction.attrs;
  if (!instruction.name.empty())
    json["name"] = instruction.name;
  if (instruction.task)
    json["task"] = toJson(*instruction.task);
  if (!instruction.update.empty())
    json["update"] = instruction.update;
  return json;
}

Json toJson(const NativeCode &native) {
  Json images = Json::array();
  for (const NativeImage &image : native.images) {
    images.push_back(
        {{"kind", image.kind}, {"interface", image.interface}, {"isa", image.isa}, {"checksum", image.checksum}});
    if (image.kind == kHostImage)
      images.back()["entries"] = image.entries;
  }
  return {
      {"kernels", native.kernels}, {"checksums", native.checksums}, {"routines", native.routines}, {"images", images}};
}

/// Writes an entry of a list of steps: {"run": [0, 17], "microbatch": 2}, {"add": [18, 40], "microbatch": 2}, {"join":
/// [18, 19, 21], "microbatch": 2}, {"start": [[18, 2], [21, 2]], "stream": "gradients"}, {"send": 22}
Json toJson(const StepEntry &entry) {
  Json json = Json::object();
  Json &what = json[std::string(toString(entry.kind))];
  switch (entry.kind) {
  case StepEntry::Kind::Run:
  case StepEntry::Kind::Add:
    what = {entry.first, entry.last};
    break;
  case StepEntry::Kind::Join:
    what = Json::array();
    for (const StepMember &member : entry.members)
      what.push_back(member.op);
    break;
  case StepEntry::Kind::Start:
    what = Json::array();
    for (const StepMember &member : entry.members)
      what.push_back({member.op, member.microbatch});
    break;
  default:
    what = entry.first;
    break;
  }
  if (entry.microbatch != 0)
    json["microbatch"] = entry.microbatch;
  if (!entry.stream.empty())
    json["stream"] = entry.stream;
  return json;
}

/// Returns a JSON list with one line for each item.
template <typename Items, typename ToText>
std::string lines(const Items &items, std::string_view indent, ToText toText) {
  std::string out = "[";
  for (size_t i = 0; i < items.size(); ++i)
    out += fmt::format("{}\n{}{}", i ? "," : "", indent, toText(items[i]));
  return out + "]";
}

//===-- reading
//-------------------------------------------------------------------------------------------------------===//

/// Exception of the reader.
struct Bad {
  std::string message;
};

[[noreturn]] void fail(std::string message) { throw Bad{std::move(message)}; }

const Json &member(const Json &json, const char *key, std::string_view where) {
  if (!json.is_object())
    fail(fmt::format("{} is not an object", where));
  auto found = json.find(key);
  if (found == json.end())
    fail(fmt::format("{} lacks \"{}\"", where, key));
  return *found;
}

const Json *optionalMember(const Json &json, const char *key) {
  auto found = json.find(key);
  return found == json.end() ? nullptr : &*found;
}

std::string stringFrom(const Json &json, std::string_view where) {
  if (!json.is_string())
    fail(fmt::format("{} is not a string", where));
  return json.get<std::string>();
}

template <typename T = int64_t> T integerFrom(const Json &json, std::string_view where) {
  bool tooLarge = json.is_number_unsigned() && json.get<uint64_t>() > uint64_t(std::numeric_limits<int64_t>::max());
  if (!json.is_number_integer() || tooLarge || json.get<int64_t>() < int64_t(std::numeric_limits<T>::min()) ||
      json.get<int64_t>() > int64_t(std::numeric_limits<T>::max()))
    fail(fmt::format("{} is not an integer of {} bits", where, 8 * sizeof(T)));
  return json.get<T>();
}

const Json &listFrom(const Json &json, std::string_view where) {
  if (!json.is_array())
    fail(fmt::format("{} is not a list", where));
  return json;
}

template <typename T> std::vector<T> integersFrom(const Json &json, std::string_view where) {
  std::vector<T> numbers;
  for (const Json &number : listFrom(json, where))
    numbers.push_back(integerFrom<T>(number, where));
  return numbers;
}

DType dtypeFrom(const std::string &name, std::string_view where) {
  auto dtype = parseDType(name);
  if (!dtype)
    fail(fmt::format("{}: unknown dtype '{}'", where, name));
  return *dtype;
}

Value valueFrom(const Json &json, std::string_view where) {
  std::string whole = stringFrom(json, where);
  constexpr std::string_view kPending = "pending ";
  std::string_view rest = whole;
  Value value;
  if (rest.starts_with(kPending)) {
    value.pending = true;
    rest.remove_prefix(kPending.size());
  }
  size_t open = rest.find('[');
  if (open == std::string_view::npos || rest.back() != ']')
    fail(fmt::format("{}: '{}' is not of the form f32[2,3]", where, whole));
  value.dtype = dtypeFrom(std::string(rest.substr(0, open)), where);
  Json sizes = Json::parse(rest.substr(open), nullptr, /*allow_exceptions=*/false);
  value.shape = integersFrom<int64_t>(sizes, where);
  return value;
}

std::vector<AxisRef> axesFrom(const Json &json, std::string_view where) {
  std::vector<AxisRef> refs;
  for (const Json &ref : listFrom(json, where)) {
    auto numbers = integersFrom<int64_t>(ref, where);
    if (numbers.size() != 3 || numbers[0] < 0 || numbers[0] > std::numeric_limits<int>::max())
      fail(fmt::format("{}: an axis must be [index, before, size]", where));
    refs.push_back({int(numbers[0]), numbers[1], numbers[2]});
  }
  return refs;
}

Sharding shardingFrom(const Json &json, std::string_view where) {
  Sharding sharding;
  const Json &dims = json.is_object() ? member(json, "dims", where) : json;
  for (const Json &dim : listFrom(dims, where)) {
    DimSharding &cut = sharding.dims.emplace_back();
    if (dim.is_array() && dim.empty())
      continue;
    cut.axes = axesFrom(member(dim, "axes", where), where);
    cut.chunk = integerFrom(member(dim, "chunk", where), where);
  }
  if (json.is_array())
    return sharding;
  sharding.partial = axesFrom(member(json, "partial", where), where);
  std::string kind = stringFrom(member(json, "kind", where), where);
  for (size_t i = 0; i < std::size(kReduceNames); ++i)
    if (kind == kReduceNames[i]) {
      sharding.partialKind = kReduceKinds[i];
      return sharding;
    }
  fail(fmt::format("{}: unknown kind of reduction '{}'", where, kind));
}

/// Reads the pipeline stage that holds an argument or result; -1 if none is named.
int64_t stageFrom(const Json &json, std::string_view where) {
  const Json *stage = optionalMember(json, "stage");
  return stage ? integerFrom(*stage, where) : -1;
}

Arg argFrom(const Json &json, std::string_view where) {
  Arg arg;
  arg.name = stringFrom(member(json, "name", where), where);
  std::string kind = stringFrom(member(json, "kind", where), where);
  size_t index = size_t(std::find(std::begin(kKinds), std::end(kKinds), kind) - std::begin(kKinds));
  if (index == std::size(kKinds))
    fail(fmt::format("{}: unknown kind '{}'", where, kind));
  arg.kind = ArgKind(index);
  arg.dtype = dtypeFrom(stringFrom(member(json, "dtype", where), where), where);
  arg.shape = integersFrom<int64_t>(member(json, "shape", where), where);
  const Json *exported = optionalMember(json, "exported_shape");
  arg.exportedShape = exported ? integersFrom<int64_t>(*exported, where) : arg.shape;
  arg.sharding = shardingFrom(member(json, "sharding", where), where);
  if (const Json *updatedBy = optionalMember(json, "updated_by"))
    arg.updatedBy = integerFrom<int>(*updatedBy, where);
  if (const Json *trainable = optionalMember(json, "trainable"))
    arg.trainable = trainable->is_boolean() && trainable->get<bool>();
  arg.stage = stageFrom(json, where);
  return arg;
}

EntryResult resultFrom(const Json &json, std::string_view where) {
  EntryResult result;
  result.name = stringFrom(member(json, "name", where), where);
  result.sharding = shardingFrom(member(json, "sharding", where), where);
  result.shape = integersFrom<int64_t>(member(json, "shape", where), where);
  result.stage = stageFrom(json, where);
  return result;
}

ProgramTask taskFrom(const Json &json, std::string_view where) {
  ProgramTask task;
  std::string phase = stringFrom(member(json, "phase", where), where);
  auto parsed = parsePhase(phase);
  if (!parsed)
    fail(fmt::format("{}: unknown phase '{}'; there are {}", where, phase, fmt::join(kPhases, ", ")));
  task.phase = *parsed;
  task.stage = integerFrom(member(json, "stage", where), where);
  if (const Json *chunk = optionalMember(json, "chunk"))
    task.chunk = integerFrom(*chunk, where);
  return task;
}

ScheduleChoice scheduleFrom(const Json &json) {
  ScheduleChoice schedule;
  schedule.name = stringFrom(member(json, "name", "schedule"), "the schedule's name");
  if (const Json *variant = optionalMember(json, "variant"))
    schedule.variant = stringFrom(*variant, "the schedule's variant");
  if (const Json *chunks = optionalMember(json, "chunks"))
    schedule.chunks = integerFrom(*chunks, "the schedule's chunks");
  if (const Json *inFlight = optionalMember(json, "in_flight"))
    schedule.inFlight = integersFrom<int64_t>(*inFlight, "the schedule's microbatches in flight");
  return schedule;
}

Instruction instructionFrom(const Json &json, std::string_view where) {
  Instruction instruction;
  instruction.op = stringFrom(member(json, "op", where), where);
  instruction.operands = integersFrom<int>(member(json, "in", where), where);
  instruction.results = integersFrom<int>(member(json, "out", where), where);
  if (const Json *attrs = optionalMember(json, "attrs"))
    instruction.attrs = *attrs;
  if (!instruction.attrs.is_object())
    fail(fmt::format("{}: attrs is not an object", where));
  if (const Json *name = optionalMember(json, "name"))
    instruction.name = stringFrom(*name, where);
  if (const Json *task = optionalMember(json, "task"))
    instruction.task = taskFrom(*task, where);
  if (const Json *update = optionalMember(json, "update"))
    instruction.update = stringFrom(*update, where);
  return instruction;
}

Function functionFrom(const Json &json, std::string_view where) {
  Function function;
  function.name = stringFrom(member(json, "name", where), where);
  std::string place = fmt::format("function '{}'", function.name);
  for (const Json &value : listFrom(member(json, "values", place), place))
    function.values.push_back(valueFrom(value, fmt::format("{}, value {}", place, function.values.size())));
  function.args = integersFrom<int>(member(json, "args", place), place);
  function.results = integersFrom<int>(member(json, "results", place), place);
  for (const Json &instruction : listFrom(member(json, "body", place), place))
    function.body.push_back(
        instructionFrom(instruction, fmt::format("{}, instruction {}", place, function.body.size())));
  if (const Json *kernel = optionalMember(json, "kernel"))
    function.kernel = kernel->is_boolean() && kernel->get<bool>();
  return function;
}

StepEntry stepFrom(const Json &json, std::string_view where) {
  using Kind = StepEntry::Kind;
  StepEntry entry;
  const Json *what = nullptr;
  for (Kind kind :
       {Kind::Run, Kind::Add, Kind::Join, Kind::Start, Kind::Send, Kind::Sent, Kind::Receive, Kind::Received})
    if (const Json *found = json.is_object() ? optionalMember(json, std::string(toString(kind)).c_str()) : nullptr) {
      entry.kind = kind;
      what = found;
      break;
    }
  if (!what)
    fail(fmt::format("{}: it has none of run, add, join, start, send, sent, receive and received", where));
  if (entry.kind == Kind::Start) {
    for (const Json &member : listFrom(*what, where)) {
      auto numbers = integersFrom<int>(member, where);
      if (numbers.size() != 2)
        fail(fmt::format("{}: a member must be [instruction, microbatch]", where));
      entry.members.push_back({numbers[0], numbers[1]});
    }
  } else if (entry.kind == Kind::Join) {
    for (int op : integersFrom<int>(*what, where))
      entry.members.push_back({op, 0});
  } else if (entry.kind == Kind::Run || entry.kind == Kind::Add) {
    auto numbers = integersFrom<int>(*what, where);
    if (numbers.size() != 2)
      fail(fmt::format("{}: \"{}\" must be [{}]", where, toString(entry.kind),
                       entry.kind == Kind::Run ? "first instruction, last instruction" : "product, accumulate"));
    entry.first = numbers[0], entry.last = numbers[1];
  } else {
    entry.first = integerFrom<int>(*what, where);
  }
  if (const Json *microbatch = entry.kind == Kind::Start ? nullptr : optionalMember(json, "microbatch"))
    entry.microbatch = integerFrom(*microbatch, where);
  if (entry.kind == Kind::Join)
    for (StepMember &member : entry.members)
      member.microbatch = entry.microbatch;
  bool besides = entry.kind == Kind::Start || entry.kind == Kind::Receive;
  if (const Json *stream = besides ? optionalMember(json, "stream") : nullptr)
    entry.stream = stringFrom(*stream, where);
  return entry;
}

void readSteps(const Json &json, Program &program) {
  if (const Json *passes = json.is_object() ? optionalMember(json, "passes") : nullptr)
    program.stepPasses = stringFrom(*passes, "steps, passes");
  for (const Json &stage : listFrom(member(json, "stages", "steps"), "steps, stages")) {
    StepList list;
    for (const Json &entry : listFrom(stage, "the steps of a stage"))
      list.push_back(
          stepFrom(entry, fmt::format("the steps of stage {}, entry {}", program.steps.size(), list.size())));
    program.steps.push_back(std::move(list));
  }
}

NativeCode nativeFrom(const Json &json) {
  NativeCode native;
  auto strings = [&](const char *key) {
    std::vector<std::string> list;
    for (const Json &item : listFrom(member(json, key, "native"), fmt::format("native, {}", key)))
      list.push_back(stringFrom(item, fmt::format("native, {}", key)));
    return list;
  };
  native.kernels = strings("kernels");
  native.checksums = integersFrom<uint32_t>(member(json, "checksums", "native"), "native, checksums");
  native.routines = strings("routines");
  for (const Json &given : listFrom(member(json, "images", "native"), "native, images")) {
    NativeImage image;
    image.kind = stringFrom(member(given, "kind", "an image"), "an image's kind");
    image.interface = integerFrom(member(given, "interface", "an image"), "an image's interface");
    image.isa = stringFrom(member(given, "isa", "an image"), "an image's isa");
    if (isHostImage(image))
      image.entries = integersFrom<int64_t>(member(given, "entries", "an image"), "an image's entries");
    if (isKnownImage(image)) // images for other devices may have other keys
      image.checksum = integerFrom<uint32_t>(member(given, "checksum", "an image"), "an image's checksum");
    native.images.push_back(std::move(image));
  }
  return native;
}

Program programFrom(const Json &json) {
  Program program;
  program.version = integerFrom<int>(member(json, "kerf_package", "the program"), "kerf_package");
  if (program.version != kVersion)
    fail(fmt::format("its format is version {}, but this runtime reads version {}; compile the model again",
                     program.version, kVersion));
  for (const Json &axis : listFrom(member(json, "mesh", "the program"), "mesh")) {
    if (!axis.is_array() || axis.size() != 2)
      fail("mesh: an axis must be [name, size]");
    program.mesh.axes.push_back({stringFrom(axis[0], "mesh"), integerFrom(axis[1], "mesh")});
  }
  if (const Json *schedule = optionalMember(json, "schedule"))
    program.schedule = scheduleFrom(*schedule);
  program.entry = stringFrom(member(json, "entry", "the program"), "entry");
  for (const Json &arg : listFrom(member(json, "args", "the program"), "args"))
    program.args.push_back(argFrom(arg, fmt::format("argument {}", program.args.size())));
  for (const Json &result : listFrom(member(json, "results", "the program"), "results"))
    program.results.push_back(resultFrom(result, fmt::format("result {}", program.results.size())));
  for (const Json &function : listFrom(member(json, "functions", "the program"), "functions"))
    program.functions.push_back(functionFrom(function, fmt::format("function {}", program.functions.size())));
  readSteps(member(json, "steps", "the program"), program);
  if (const Json *native = optionalMember(json, "native"))
    program.native = std::make_shared<NativeCode>(nativeFrom(*native));
  if (const Json *info = optionalMember(json, "info"))
    program.info = *info;
  return program;
}
} // namespace

std::string_view toString(ArgKind kind) { return kKinds[static_cast<size_t>(kind)]; }
std::string_view toString(Phase phase) { return kPhases[static_cast<size_t>(phase)]; }

std::optional<Phase> parsePhase(std::string_view text) {
  auto found = std::find(std::begin(kPhases), std::end(kPhases), text);
  return found == std::end(kPhases) ? std::nullopt : std::optional(Phase(found - std::begin(kPhases)));
}

std::optional<double> parseNumber(const Json &json) {
  if (json.is_number())
    return json.get<double>();
  if (json == "inf")
    return std::numeric_limits<double>::infinity();
  if (json == "-inf")
    return -std::numeric_limits<double>::infinity();
  if (json == "nan")
    return std::numeric_limits<double>::quiet_NaN();
  return std::nullopt;
}

std::string writeFunction(const Function &function) {
  Json values = Json::array();
  for (const Value &value : function.values)
    values.push_back(valueText(value));
  return fmt::format("{{\"name\": {}, {}\"args\": {}, \"results\": {},\n   \"values\": {},\n   \"body\": {}}}",
                     text(function.name), function.kernel ? "\"kernel\": true, " : "", text(function.args),
                     text(function.results), text(values),
                     lines(function.body, "    ", [](const Instruction &item) { return text(toJson(item)); }));
}

std::string writeProgram(const Program &program) {
  Json mesh = Json::array();
  for (const MeshAxis &axis : program.mesh.axes)
    mesh.push_back({axis.name, axis.size});
  auto asLine = [](const auto &item) { return text(toJson(item)); };
  std::string native =
      program.native ? fmt::format("\"native\": {},\n ", text(toJson(*program.native))) : std::string();
  std::string schedule = program.schedule ? fmt::format("\"schedule\": {},\n ", text(toJson(*program.schedule))) : "";
  return fmt::format("{{\"kerf_package\": {},\n \"mesh\": {},\n {}\"entry\": {},\n \"args\": {},\n \"results\": {},\n "
                     "\"functions\": {},\n \"steps\": {{\"passes\": {}, \"stages\": {}}},\n {}"
                     "\"info\": {}}}\n",
                     program.version, text(mesh), schedule, text(program.entry), lines(program.args, "  ", asLine),
                     lines(program.results, "  ", asLine), lines(program.functions, "  ", writeFunction),
                     text(program.stepPasses),
                     lines(program.steps, "  ", [&](const StepList &list) { return lines(list, "   ", asLine); }),
                     native, text(program.info));
}

Result<Program> readProgram(std::string_view bytes) {
  if (Status nesting = checkNesting(bytes); !nesting)
    return errorWithWayOut(fmt::format("cannot read the program: {}", nesting.error().message), kCompileAgain);
  try {
    Program program = programFrom(Json::parse(bytes));
    if (Status status = checkProgram(program); !status)
      return errorWithWayOut(status.error().message, kCompileAgain);
    return program;
  } catch (const Json::exception &error) { // its text may have a "; " that names no way out
    return Error{fmt::format("cannot read the program: {}; {}", error.what(), kCompileAgain)};
  } catch (const Bad &bad) {
    return errorWithWayOut(fmt::format("cannot read the program: {}", bad.message), kCompileAgain);
  }
}

} // namespace kerf::package
