// SPDX-License-Identifier: Apache-2.0
// kerf-separate-layers: a function of its own for each layer that a plan's patterns treat otherwise than most layers of
// its kind.
#include "Calls.h"
#include "kerf/Support/Glob.h"
#include "kerf/Transforms/OpKeys.h"
#include "kerf/Transforms/Passes.h"

#include <map>

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

#define GEN_PASS_DEF_SEPARATELAYERS
#include "kerf/Transforms/Passes.h.inc"

namespace {

/// One layer: a call, and which one where the call stands for several.
using Layer = std::pair<Operation *, int64_t>;
/// Whether each pattern means each op of a layer.
using Treatment = std::vector<bool>;

StringRef scopeOf(StringRef name) { return name.contains('/') ? name.take_front(name.rfind('/')) : StringRef(); }

/// Ops that later passes make (of the backward pass, in 16 bits) are not there yet: for them the scope counts.
bool means(StringRef pattern, const OpKey &name) {
  StringRef forward = pattern.take_until([](char c) { return c == '@' || c == '#'; });
  StringRef scope = scopeOf(forward);
  return matchesKey(forward, name) || (!scope.empty() && globMatch(scope, scopeOf(name.node)));
}

std::map<Layer, Treatment> treatments(ModuleOp module, ArrayRef<std::string> patterns) {
  std::map<Layer, Treatment> found;
  for (const NamedOp &named : namedOps(module))
    if (named.call)
      for (const std::string &pattern : patterns)
        found[{named.call, named.layer}].push_back(means(pattern, named.name));
  return found;
}

/// Splits calls that stand for several layers, where these are not treated alike.
LogicalResult splitRepeats(ModuleOp module, func::FuncOp main, ArrayRef<std::string> patterns) {
  std::map<Operation *, std::vector<Treatment>> ofCall;
  for (auto &[layer, treatment] : treatments(module, patterns))
    ofCall[layer.first].push_back(treatment);
  for (CallOp call : llvm::make_early_inc_range(main.front().getOps<CallOp>()))
    if (!llvm::all_equal(ofCall[call]))
      if (failed(splitRepeat(call, main)))
        return failure();
  return success();
}

/// Names the ops of `function` as they are named in `calls`, some of the calls `all` that `named` had.
void rename(func::FuncOp function, func::FuncOp named, ArrayRef<CallOp> calls, ArrayRef<CallOp> all) {
  for (auto [op, its] : llvm::zip(function.front(), named.front())) {
    SmallVector<Location> names;
    for (CallOp call : calls)
      if (std::string name = nodeInCall(&its, call, all); !name.empty())
        names.push_back(NameLoc::get(StringAttr::get(op.getContext(), name)));
    op.setLoc(FusedLoc::get(op.getContext(), names));
  }
}

/// The calls that are treated as most are keep `function`; each other one gets a copy.
void separate(ModuleOp module, func::FuncOp function, std::map<Layer, Treatment> &treatments) {
  const SmallVector<CallOp> calls = callsOf(module, function);
  std::map<Treatment, int> count;
  for (CallOp call : calls)
    ++count[treatments[{call, 0}]];
  if (count.size() < 2)
    return;
  const Treatment *most = nullptr; // of equally many, that of the first call
  for (CallOp call : calls)
    if (const Treatment &its = treatments[{call, 0}]; !most || count[its] > count[*most])
      most = &its;
  SymbolTable symbols(module);
  OpBuilder builder(function);
  builder.setInsertionPointAfter(function);
  auto original = cast<func::FuncOp>(function->clone());
  SmallVector<CallOp> kept;
  for (CallOp call : calls) {
    if (treatments[{call, 0}] == *most) {
      kept.push_back(call);
      continue;
    }
    auto own = cast<func::FuncOp>(builder.clone(*function));
    symbols.insert(own); // under a name that is not taken
    rename(own, original, call, calls);
    call.setCallee(own.getSymName());
  }
  rename(function, original, kept, calls);
  original->destroy();
}

struct SeparateLayers : impl::SeparateLayersBase<SeparateLayers> {
  using SeparateLayersBase::SeparateLayersBase;
  void runOnOperation() override {
    auto main = getOperation().lookupSymbol<func::FuncOp>(KerfDialect::kEntryName);
    std::vector<std::string> all(patterns.begin(), patterns.end());
    if (!main || all.empty())
      return;
    if (failed(splitRepeats(getOperation(), main, all)))
      return signalPassFailure();
    std::map<Layer, Treatment> its = treatments(getOperation(), all);
    for (auto function : llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>()))
      separate(getOperation(), function, its);
  }
};

} // namespace
} // namespace kerf
