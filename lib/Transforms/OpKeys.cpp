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

/// For each shared function: the scopes of its calls ("h.0", "h.1") and what stands for them in keys ("h.*").
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
    return false; // differentiation's ops are meant only by their keys: they share the node of their forward op
  return globMatch(pattern, full.split('#').first) || globMatch(pattern, node) ||
         globMatch(pattern, node.substr(node.rfind('/') + 1));
}

std::string argumentKey(BlockArgument argument) {
  auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  auto name = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), KerfDialect::kNameAttr);
  if (name && function.getName() == KerfDialect::kEntryName)
    return name.str();
  return "@" + function.getName().str() + "#" + std::to_string(argument.getArgNumber());
}

} // namespace kerf
