// SPDX-License-Identifier: Apache-2.0
// kerf-separate-layers: gives a layer a function of its own where a plan's patterns treat it differently from most
// layers of its kind.
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

/// A layer: its call, and its index where the call stands for several layers.
using Layer = std::pair<Operation *, int64_t>;
/// For each op of a layer and each pattern, whether the pattern matches the op.
using Treatment = std::vector<bool>;

StringRef scopeOf(StringRef name) { return name.contains('/') ? name.take_front(name.rfind('/')) : StringRef(); }

StringRef withoutNumber(StringRef key) { return key.split('#').first; }

/// A pattern, split so that it can be compared with the ops of one layer. The pass runs before the backward ops exist,
/// so a pattern for them is compared by its scope.
struct LayerPattern {
  StringRef forward; // "h.0.up/dot_general"
  StringRef scope;   // "h.0.up", of an op of the backward pass

  explicit LayerPattern(StringRef pattern) {
    auto [name, pass] = withoutNumber(pattern).split('@');
    if (pass.empty())
      forward = name;
    else
      scope = scopeOf(name);
  }
  bool means(const OpKey &name) const {
    return scope.empty() ? matchesKey(forward, name) : globMatch(scope, scopeOf(name.node));
  }
  /// An op in @main that all layers share has the name that it had in the first layer.
  bool isOfMain(const OpKey &name) const {
    return scope.empty() ? forward == withoutNumber(name.key) : scope == scopeOf(name.node);
  }
};

/// Finds the layers that a plan with an entry for every op treats separately: at least half of their ops have entries
/// with the layer's number, where ops of a shared function have `*`. Ops of @main may have the same names (the backward
/// ops of a whole train step), so a name counts only where it has more entries than @main has ops of that name.
std::map<Layer, Treatment> namedApart(ModuleOp module, ArrayRef<std::string> patterns) {
  auto keys = opKeys(module);
  std::map<StringRef, int> entries; // by name, those that no op of @main accounts for
  for (const std::string &pattern : patterns)
    ++entries[withoutNumber(pattern)];
  for (const auto &[op, key] : keys)
    if (op->getParentOfType<func::FuncOp>().getName() == KerfDialect::kEntryName)
      --entries[withoutNumber(key.key)];
  std::map<Layer, std::pair<int, int>> count; // number of ops, and of those with an entry
  for (const NamedOp &op : namedOps(module))
    if (op.call) {
      auto &[all, apart] = count[{op.call, op.layer}];
      ++all;
      auto found = entries.find(withoutNumber(op.name.key));
      apart += StringRef(keys[op.op].key).contains('*') && found != entries.end() && found->second > 0;
    }
  std::map<Layer, Treatment> found;
  for (auto &[layer, ops] : count) // a layer that is treated separately is unlike all others
    found[layer] = Treatment(2 * ops.second >= ops.first ? found.size() + 1 : 0);
  return found;
}

std::map<Layer, Treatment> treatments(ModuleOp module, ArrayRef<std::string> patterns, bool ofAllOps) {
  if (ofAllOps)
    return namedApart(module, patterns);
  const std::vector<NamedOp> names = namedOps(module);
  std::vector<LayerPattern> ofLayers;
  for (const std::string &text : patterns) {
    LayerPattern pattern(text);
    if (llvm::none_of(names, [&](const NamedOp &named) { return !named.call && pattern.isOfMain(named.name); }))
      ofLayers.push_back(pattern);
  }
  std::map<Layer, Treatment> found;
  for (const NamedOp &named : names)
    if (named.call)
      for (const LayerPattern &pattern : ofLayers)
        found[{named.call, named.layer}].push_back(pattern.means(named.name));
  return found;
}

/// Splits calls that stand for several layers, where these layers are treated differently.
LogicalResult splitRepeats(ModuleOp module, func::FuncOp main, ArrayRef<std::string> patterns, bool ofAllOps) {
  std::map<Operation *, std::vector<Treatment>> ofCall;
  for (auto &[layer, treatment] : treatments(module, patterns, ofAllOps))
    ofCall[layer.first].push_back(treatment);
  for (CallOp call : llvm::make_early_inc_range(main.front().getOps<CallOp>()))
    if (!llvm::all_equal(ofCall[call]))
      if (failed(splitRepeat(call, main)))
        return failure();
  return success();
}

/// Returns the position in the imported text that an op has in layer number `layer` of `layers`, if it is known.
Location placeInLayer(Operation *op, size_t layer, size_t layers) {
  auto all = dyn_cast<FusedLoc>(op->getLoc());
  if (all && all.getLocations().size() == layers)
    if (auto name = dyn_cast<NameLoc>(all.getLocations()[layer]))
      return name.getChildLoc();
  return UnknownLoc::get(op->getContext());
}

/// Gives the ops of `function` the names that they have in `calls`, which are some of the calls `all` of
/// the function `named`.
void rename(func::FuncOp function, func::FuncOp named, ArrayRef<CallOp> calls, ArrayRef<CallOp> all) {
  for (auto [op, its] : llvm::zip(function.front(), named.front())) {
    SmallVector<Location> names;
    for (CallOp call : calls)
      if (std::string name = nodeInCall(&its, call, all); !name.empty())
        names.push_back(NameLoc::get(StringAttr::get(op.getContext(), name),
                                     placeInLayer(&its, size_t(llvm::find(all, call) - all.begin()), all.size())));
    op.setLoc(FusedLoc::get(op.getContext(), names));
  }
}

/// Calls that are treated like most keep `function`; each other one gets a copy.
void separate(ModuleOp module, func::FuncOp function, std::map<Layer, Treatment> &treatments) {
  const SmallVector<CallOp> calls = callsOf(module, function);
  std::map<Treatment, int> count;
  for (CallOp call : calls)
    ++count[treatments[{call, 0}]];
  if (count.size() < 2)
    return;
  const Treatment *most = nullptr; // of equally frequent ones, that of the first call
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
    symbols.insert(own); // under a name that is not in use
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
    if (failed(splitRepeats(getOperation(), main, all, ofAllOps)))
      return signalPassFailure();
    std::map<Layer, Treatment> its = treatments(getOperation(), all, ofAllOps);
    for (auto function : llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>()))
      separate(getOperation(), function, its);
  }
};

} // namespace
} // namespace kerf
