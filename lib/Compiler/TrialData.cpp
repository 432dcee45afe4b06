// SPDX-License-Identifier: Apache-2.0
#include "kerf/Compiler/TrialData.h"

#include "kerf/Dialect/Kerf/KerfDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <algorithm>
#include <limits>
#include <random>
#include <set>

using namespace mlir;

namespace kerf {

namespace {

constexpr int64_t kNoBound = std::numeric_limits<int64_t>::max(), kFewestValues = 2;

/// Finds the bound of an integer input by following it to the operators that use it as an index of table rows or
/// classes.
class IndexBound {
public:
  explicit IndexBound(ModuleOp module) : functions(module) {}

  int64_t of(Value value) {
    follow(value);
    return bound == kNoBound ? kFewestValues : bound;
  }

private:
  void follow(Value value) {
    if (!isa<RankedTensorType>(value.getType()) || !ir::tensorType(value).getElementType().isInteger() ||
        !seen.insert(value.getAsOpaquePointer()).second)
      return;
    for (OpOperand &use : value.getUses())
      followUse(use);
  }

  void followUse(OpOperand &use) {
    Operation *user = use.getOwner();
    if (auto lookup = dyn_cast<ir::EmbeddingOp>(user)) {
      if (use.get() == lookup.getIndices())
        bound = std::min(bound, ir::shapeOf(lookup.getTable()).front());
    } else if (auto loss = dyn_cast<ir::CrossEntropyOp>(user)) {
      bound = std::min(bound, ir::shapeOf(loss.getLogits()).back());
    } else if (auto call = dyn_cast<ir::CallOp>(user)) {
      if (auto callee = functions.lookup<func::FuncOp>(call.getCallee()))
        follow(callee.getArgument(use.getOperandNumber()));
    } else {
      for (Value result : user->getResults())
        follow(result);
    }
  }

  SymbolTable functions;
  std::set<const void *> seen;
  int64_t bound = kNoBound;
};

std::map<std::string, int64_t> boundsOfInputs(ModuleOp module) {
  auto main = module.lookupSymbol<func::FuncOp>(ir::KerfDialect::kEntryName);
  std::map<std::string, int64_t> bounds;
  for (BlockArgument argument : main.getArguments())
    if (auto name = main.getArgAttrOfType<StringAttr>(argument.getArgNumber(), ir::KerfDialect::kNameAttr))
      bounds[name.str()] = IndexBound(module).of(argument);
  return bounds;
}

} // namespace

TensorMap randomBatches(ModuleOp module, const package::Program &program, int64_t steps) {
  std::map<std::string, int64_t> bounds = boundsOfInputs(module);
  std::mt19937_64 random(0);
  TensorMap data;
  for (const package::Arg &arg : program.args) {
    if (arg.kind != package::ArgKind::Input)
      continue;
    Shape shape = arg.exportedShape;
    shape.insert(shape.begin(), steps);
    bool floating = arg.dtype == DType::F64 || arg.dtype == DType::F32;
    auto [tensor, bytes] = allocateTensor(floating ? DType::F64 : arg.dtype, shape);
    auto below = static_cast<uint64_t>(bounds.contains(arg.name) ? bounds.at(arg.name) : kFewestValues);
    for (int64_t i = 0; i < elementsOf(shape); ++i) {
      if (floating)
        reinterpret_cast<double *>(bytes)[i] = double(random() >> 11) * 0x1p-52 - 1;
      else if (arg.dtype == DType::I64)
        reinterpret_cast<int64_t *>(bytes)[i] = static_cast<int64_t>(random() % below);
      else if (arg.dtype == DType::I32)
        reinterpret_cast<int32_t *>(bytes)[i] = static_cast<int32_t>(random() % below);
      else if (arg.dtype == DType::Bool)
        bytes[i] = std::byte(1);
    }
    data.emplace(arg.name, std::move(tensor));
  }
  return data;
}

} // namespace kerf
