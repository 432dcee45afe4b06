// SPDX-License-Identifier: Apache-2.0
// Conversion of the device level to a package: a plain copy of ops, local types and attributes.
#include "kerf/Transforms/EmitPackage.h"
#include "Compression.h"
#include "kerf/Package/Batches.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>
#include <fmt/format.h>

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

using Json = nlohmann::ordered_json;

std::optional<DType> dtypeOf(Type type) {
  if (type.isF64())
    return DType::F64;
  if (type.isF32())
    return DType::F32;
  if (type.isBF16())
    return DType::BF16;
  if (type.isF16())
    return DType::F16;
  if (isa<Float8E4M3FNType>(type))
    return DType::F8E4M3FN;
  if (isa<Float8E5M2Type>(type))
    return DType::F8E5M2;
  if (type.isInteger(1))
    return DType::Bool;
  bool isUnsigned = type.isUnsignedInteger();
  if (type.isInteger(64))
    return isUnsigned ? DType::U64 : DType::I64;
  if (type.isInteger(32))
    return isUnsigned ? DType::U32 : DType::I32;
  if (type.isInteger(16))
    return isUnsigned ? DType::U16 : DType::I16;
  if (type.isInteger(8))
    return isUnsigned ? DType::U8 : DType::I8;
  return std::nullopt;
}

namespace {

Json numberJson(const APFloat &value) {
  bool inexact;
  APFloat wide = value;
  wide.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &inexact);
  return wide.convertToDouble();
}

Json intJson(const APInt &value, bool isUnsigned) {
  if (value.getBitWidth() == 1 || isUnsigned)
    return value.getZExtValue();
  return value.getSExtValue();
}

/// Returns the elements in row-major order, or a single one where all are equal.
Json elementsJson(DenseElementsAttr elements) {
  Json list = Json::array();
  if (isa<FloatType>(elements.getElementType())) {
    for (const APFloat &value : elements.getValues<APFloat>()) {
      list.push_back(numberJson(value));
      if (elements.isSplat())
        break;
    }
  } else {
    for (const APInt &value : elements.getValues<APInt>()) {
      list.push_back(intJson(value, elements.getElementType().isUnsignedInteger()));
      if (elements.isSplat())
        break;
    }
  }
  return list;
}

Result<Json> attributeJson(Attribute attr, StringRef name) {
  return llvm::TypeSwitch<Attribute, Result<Json>>(attr)
      .Case([](UnitAttr) { return Json(true); })
      .Case([](BoolAttr value) { return Json(value.getValue()); })
      .Case([](IntegerAttr value) { return intJson(value.getValue(), false); })
      .Case([](FloatAttr value) { return numberJson(value.getValue()); })
      .Case([](StringAttr value) { return Json(value.str()); })
      .Case([](FlatSymbolRefAttr value) { return Json(value.getValue().str()); })
      .Case([](DenseI64ArrayAttr value) { return Json(std::vector<int64_t>(value.asArrayRef())); })
      .Case([](ReduceKindIRAttr value) { return Json(stringifyReduceKindIR(value.getValue()).str()); })
      .Case([](ComparisonAttr value) { return Json(stringifyComparison(value.getValue()).str()); })
      .Case([](DenseElementsAttr value) { return elementsJson(value); })
      .Default([&](Attribute) -> Result<Json> {
        return Error{fmt::format("attribute '{}' has a kind that packages do not hold; remove it where you wrote it, "
                                 "else report a bug of Kerf",
                                 name.str()),
                     ExitStatus::InternalCheck};
      });
}

std::optional<package::ProgramTask> taskOf(DictionaryAttr attr) {
  auto phase = attr.getAs<StringAttr>("phase");
  auto stage = attr.getAs<IntegerAttr>("stage"), chunk = attr.getAs<IntegerAttr>("chunk");
  auto parsed = phase ? package::parsePhase(phase.getValue()) : std::nullopt;
  if (!parsed || !stage || !chunk)
    return std::nullopt;
  return package::ProgramTask{*parsed, stage.getInt(), chunk.getInt()};
}

class Emitter {
public:
  explicit Emitter(const Mesh &mesh) : mesh(mesh) {}
  Result<package::Function> function(func::FuncOp function);
  Status entry(func::FuncOp main, package::Program &program);

private:
  Result<int> value(Value v, package::Function &into);
  Result<Sharding> shardingOf(Attribute attr, const Shape &shape, const std::string &what);
  const Mesh &mesh;
  DenseMap<Value, int> indices;
};

Result<int> Emitter::value(Value v, package::Function &into) {
  auto [found, isNew] = indices.try_emplace(v, static_cast<int>(into.values.size()));
  if (isNew) {
    auto pending = dyn_cast<PendingType>(v.getType());
    RankedTensorType type = pending ? pending.getTensor() : cast<RankedTensorType>(v.getType());
    std::optional<DType> dtype = dtypeOf(type.getElementType());
    if (!dtype)
      return Error{"a tensor has an element type that packages do not hold; convert it to f64, f32, f16, bf16, i1, i8, "
                   "i16, i32 or i64",
                   ExitStatus::InternalCheck};
    into.values.push_back({*dtype, Shape(type.getShape()), static_cast<bool>(pending)});
  }
  return found->second;
}

Result<package::Function> Emitter::function(func::FuncOp function) {
  indices.clear();
  package::Function made;
  made.name = function.getName().str();
  made.kernel = function->hasAttr(kKernelAttr);
  auto list = [&](ValueRange values, std::vector<int> &into) -> Status {
    for (Value v : values) {
      auto index = value(v, made);
      if (!index)
        return index.error();
      into.push_back(*index);
    }
    return ok();
  };
  if (Status status = list(function.getArguments(), made.args); !status)
    return status.error();
  for (Operation &op : function.front().without_terminator()) {
    package::Instruction instruction;
    instruction.op = op.getName().stripDialect().str();
    instruction.name = nodeName(op.getLoc());
    if (auto update = op.getAttrOfType<StringAttr>(KerfDialect::kUpdateAttr))
      instruction.update = update.str();
    if (Status status = list(op.getOperands(), instruction.operands); !status)
      return status.error();
    if (Status status = list(op.getResults(), instruction.results); !status)
      return status.error();
    for (NamedAttribute attr : op.getAttrs()) {
      if (attr.getName().getValue().contains('.')) // discardable attributes are for passes and people only
        continue;
      auto json = attributeJson(attr.getValue(), attr.getName().getValue());
      if (!json)
        return Error{fmt::format("{} ({}): {}", instruction.op, instruction.name, json.error().message),
                     json.error().status};
      instruction.attrs[attr.getName().str()] = std::move(*json);
    }
    if (auto batches = op.getAttrOfType<DenseI64ArrayAttr>(kBatchesAttr))
      instruction.attrs[package::kBatches] = batches.asArrayRef().vec();
    if (auto bytes = op.getAttrOfType<IntegerAttr>(kGradientBytesAttr))
      instruction.attrs[package::kGradientBytes] = bytes.getInt();
    if (auto task = op.getAttrOfType<DictionaryAttr>(KerfDialect::kTaskAttr)) {
      auto read = taskOf(task);
      if (!read)
        return Error{fmt::format("{} ({}): kerf.task has no known phase, stage and chunk; it needs all three, as "
                                 "kerf-assign-tasks writes them",
                                 instruction.op, instruction.name),
                     ExitStatus::InternalCheck};
      instruction.task = *read;
    }
    made.body.push_back(std::move(instruction));
  }
  if (Status status = list(function.front().getTerminator()->getOperands(), made.results); !status)
    return status.error();
  return made;
}

Result<Sharding> Emitter::shardingOf(Attribute attr, const Shape &shape, const std::string &what) {
  if (auto given = dyn_cast_or_null<ShardingAttr>(attr)) {
    // kerf-partition has already checked the shardings, so a failure here is an internal error without a diagnostic.
    MLIRContext *context = given.getContext();
    auto sharding = given.toSharding(mesh, shape, [&] { return mlir::emitError(UnknownLoc::get(context)); });
    if (failed(sharding))
      return Error{fmt::format("{} has a sharding that does not fit it; report this plan, it is a bug of Kerf", what),
                   ExitStatus::InternalCheck};
    return *sharding;
  }
  return Sharding::replicated(shape.size());
}

std::optional<package::ArgKind> parseKind(StringRef text) {
  using package::ArgKind;
  for (ArgKind kind : {ArgKind::Parameter, ArgKind::Buffer, ArgKind::Constant, ArgKind::State, ArgKind::Input,
                       ArgKind::LearningRate, ArgKind::Step, ArgKind::Seed})
    if (package::toString(kind) == text.str())
      return kind;
  return std::nullopt;
}

Status Emitter::entry(func::FuncOp main, package::Program &program) {
  program.entry = main.getName().str();
  for (BlockArgument argument : main.getArguments()) {
    unsigned i = argument.getArgNumber();
    auto name = main.getArgAttrOfType<StringAttr>(i, KerfDialect::kNameAttr);
    auto kindName = main.getArgAttrOfType<StringAttr>(i, KerfDialect::kKindAttr);
    auto kind = kindName ? parseKind(kindName.getValue()) : std::nullopt;
    if (!name || !kind)
      return Error{fmt::format("argument {} of @main has no kerf.name or no known kerf.kind; give it both", i)};
    package::Arg arg;
    arg.kind = *kind;
    arg.name = name.str();
    auto global = main.getArgAttrOfType<TypeAttr>(i, KerfDialect::kGlobalTypeAttr);
    auto type = dyn_cast<RankedTensorType>(global ? global.getValue() : argument.getType());
    if (!type)
      return Error{
          fmt::format("'{}': kerf.global_type is not a tensor; give it the type of the whole tensor", arg.name)};
    auto dtype = dtypeOf(type.getElementType());
    if (!dtype)
      return Error{fmt::format("'{}' has an element type that packages do not hold; convert it to f64, f32, f16, bf16, "
                               "i1, i8, i16, i32 or i64",
                               arg.name)};
    arg.dtype = *dtype;
    arg.shape = arg.exportedShape = Shape(type.getShape());
    if (auto exported = main.getArgAttrOfType<DenseI64ArrayAttr>(i, KerfDialect::kExportedShapeAttr))
      arg.exportedShape = Shape(exported.asArrayRef());
    auto sharding = shardingOf(main.getArgAttr(i, KerfDialect::kShardingAttr), arg.shape, arg.name);
    if (!sharding)
      return sharding.error();
    arg.sharding = *sharding;
    if (auto by = main.getArgAttrOfType<IntegerAttr>(i, KerfDialect::kUpdatedByAttr))
      arg.updatedBy = static_cast<int>(by.getInt());
    if (auto stage = main.getArgAttrOfType<IntegerAttr>(i, KerfDialect::kStageAttr))
      arg.stage = stage.getInt();
    arg.trainable = static_cast<bool>(main.getArgAttr(i, KerfDialect::kTrainableAttr));
    program.args.push_back(std::move(arg));
  }
  for (unsigned i = 0; i < main.getNumResults(); ++i) {
    package::EntryResult result;
    auto name = main.getResultAttrOfType<StringAttr>(i, KerfDialect::kNameAttr);
    result.name = name ? name.str() : fmt::format("result{}", i);
    auto global = main.getResultAttrOfType<TypeAttr>(i, KerfDialect::kGlobalTypeAttr);
    auto type = dyn_cast<RankedTensorType>(global ? global.getValue() : main.getResultTypes()[i]);
    if (!type)
      return Error{
          fmt::format("'{}': kerf.global_type is not a tensor; give it the type of the whole tensor", result.name)};
    result.shape = Shape(type.getShape());
    auto sharding = shardingOf(main.getResultAttr(i, KerfDialect::kShardingAttr), result.shape, result.name);
    if (!sharding)
      return sharding.error();
    result.sharding = *sharding;
    if (auto stage = main.getResultAttrOfType<IntegerAttr>(i, KerfDialect::kStageAttr))
      result.stage = stage.getInt();
    program.results.push_back(std::move(result));
  }
  return ok();
}

} // namespace

Result<package::Program> emitPackage(ModuleOp module) {
  package::Program program;
  program.mesh = meshOf(module);
  Emitter emitter(program.mesh);
  SymbolTable symbols(module);
  auto main = symbols.lookup<func::FuncOp>(KerfDialect::kEntryName);
  if (!main)
    return Error{"the module has no function @main; compile a module that has one"};
  for (auto function : module.getOps<func::FuncOp>()) {
    auto made = emitter.function(function);
    if (!made)
      return made.error();
    program.functions.push_back(std::move(*made));
  }
  if (Status status = emitter.entry(main, program); !status)
    return status.error();
  return program;
}

} // namespace kerf
