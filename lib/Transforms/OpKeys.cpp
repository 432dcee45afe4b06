// SPDX-License-Identifier: Apache-2.0
#include "kerf/Transforms/OpKeys.h"

#include "kerf/Support/Glob.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringExtras.h"
#include <map>

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

namespace {

StringRef scopeOf(StringRef node) {
  size_t slash = node.rfind('/');
  return slash == StringRef::npos ? StringRef() : node.take_front(slash);
}

/// The scopes of the calls of a shared function ("h.0", "h.1"), and the pattern that stands for them in keys ("h.*").
struct SharedScope {
  std::vector<std::string> concrete;
  std::string pattern;
};

std::map<std::string, SharedScope> sharedScopes(ModuleOp module) {
  std::map<std::string, std::vector<std::string>> scopes;
  module.walk([&](CallOp call) { scopes[call.getCallee().str()].push_back(nodeName(call.getLoc())); });
  std::map<std::string, SharedScope> shared;
  for (const auto &[callee, names] : scopes) {
    SmallVector<StringRef> parts;
    StringRef(names.front()).split(parts, '.');
    SmallVector<std::string> pattern(parts.begin(), parts.end());
    bool alike = true;
    for (const std::string &name : names) {
      SmallVector<StringRef> other;
      StringRef(name).split(other, '.');
      alike &= other.size() == parts.size();
      for (size_t i = 0; alike && i < parts.size(); ++i)
        if (other[i] != parts[i])
          pattern[i] = "*";
    }
    if (alike && names.size() > 1 && !names.front().empty())
      shared[callee] = {names, llvm::join(pattern, ".")};
  }
  return shared;
}

} // namespace

llvm::MapVector<Operation *, OpKey> opKeys(ModuleOp module) {
  std::map<std::string, SharedScope> shared = sharedScopes(module);
  llvm::MapVector<Operation *, OpKey> keys;
  std::map<std::string, int> count, next;
  for (auto function : module.getOps<func::FuncOp>()) {
    auto scope = shared.find(function.getName().str());
    for (Operation &op : function.getOps()) {
      if (!isa<ShardingRuleOpInterface>(op))
        continue;
      std::string node = nodeName(op.getLoc());
      std::string module = scopeOf(node).str();
      if (scope != shared.end())
        for (const std::string &concrete : scope->second.concrete)
          if (StringRef rest = module; rest.consume_front(concrete) && (rest.empty() || rest.front() == '.')) {
            module = scope->second.pattern + rest.str();
            break;
          }
      std::string key = module.empty() ? "" : module + "/";
      key += op.getName().stripDialect();
      if (op.hasAttr(KerfDialect::kBackwardAttr))
        key += "@backward";
      ++count[key];
      keys[&op] = {std::move(key), std::move(node)};
    }
  }
  for (auto &[op, key] : keys)
    if (count[key.key] > 1) {
      int k = next[key.key]++;
      key.key += "#" + std::to_string(k);
    }
  return keys;
}

bool matchesKey(StringRef pattern, const OpKey &key) {
  StringRef full = key.key, node = key.node;
  if (globMatch(pattern, full))
    return true;
  if (full.contains("@backward"))
    return false; // ops of the backward pass share the node of their forward op, so only their keys name them
  return globMatch(pattern, full.split('#').first) || globMatch(pattern, node) ||
         globMatch(pattern, node.substr(node.rfind('/') + 1));
}

/// Returns the module scope of one layer of a call that stands for several: "h.3" for layer 3 of a call at "h.0".
static std::string layerName(CallOp call, int64_t layer) {
  std::string own = nodeName(call.getLoc());
  StringRef module = StringRef(own).rtrim("0123456789");
  int64_t first = 0;
  if (layer == 0 || StringRef(own).drop_front(module.size()).getAsInteger(10, first))
    return own;
  return (module + Twine(first + layer)).str();
}

std::string nodeInCall(Operation *op, CallOp call, ArrayRef<CallOp> calls, int64_t layer) {
  std::string node = nodeName(op->getLoc()), own = layerName(call, layer);
  // kerf-outline-layers stores the op's names in all calls as one fused location, in the order of the calls.
  auto all = dyn_cast<FusedLoc>(op->getLoc());
  if (all && layer == 0 && all.getLocations().size() == calls.size())
    node = nodeName(all.getLocations()[llvm::find(calls, call) - calls.begin()]);
  for (CallOp other : calls) {
    std::string scope = nodeName(other.getLoc());
    if (StringRef rest = node;
        !scope.empty() && rest.consume_front(scope) && (rest.empty() || rest.front() == '.' || rest.front() == '/'))
      return (own + rest).str();
  }
  return own.empty() ? node : own + "/" + node;
}

std::vector<NamedOp> namedOps(ModuleOp module) {
  SymbolTable symbols(module);
  auto keys = opKeys(module);
  std::map<Operation *, SmallVector<CallOp>> callsOf;
  module.walk([&](CallOp call) { callsOf[symbols.lookup(call.getCallee())].push_back(call); });
  std::vector<NamedOp> names;
  for (Operation &op : symbols.lookup<func::FuncOp>(KerfDialect::kEntryName).front().without_terminator()) {
    if (auto found = keys.find(&op); found != keys.end())
      names.push_back({found->second, &op});
    auto call = dyn_cast<CallOp>(op);
    if (!call)
      continue;
    auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
    auto repeat = call->getAttrOfType<IntegerAttr>(KerfDialect::kRepeatAttr);
    for (int64_t layer = 0; layer < (repeat ? repeat.getInt() : 1); ++layer) {
      std::map<std::string, int> count, next;
      size_t first = names.size();
      for (Operation &inner : callee.getOps()) {
        if (!keys.contains(&inner))
          continue;
        std::string node = nodeInCall(&inner, call, callsOf[callee], layer);
        std::string key = node.substr(0, node.rfind('/') + 1) + inner.getName().stripDialect().str();
        ++count[key];
        names.push_back({{std::move(key), std::move(node)}, &inner, call, layer});
      }
      for (size_t i = first; i < names.size(); ++i)
        if (std::string &key = names[i].name.key; count[key] > 1)
          key += "#" + std::to_string(next[key]++);
    }
  }
  return names;
}

std::string argumentKey(BlockArgument argument) {
  auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  auto name = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), KerfDialect::kNameAttr);
  if (name && function.getName() == KerfDialect::kEntryName)
    return name.str();
  return "@" + function.getName().str() + "#" + std::to_string(argument.getArgNumber());
}

} // namespace kerf
