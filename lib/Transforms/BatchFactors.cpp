// SPDX-License-Identifier: Apache-2.0
#include "BatchFactors.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

int leadingFactor(const Rule &rule, const std::vector<int> &factors) {
  for (int factor : factors)
    if (rule.factors[factor].size > 1)
      return factor;
  return factors.empty() ? -1 : factors.front();
}

bool isConstant(Value value) {
  Operation *op = value.getDefiningOp();
  return op && (isa<ConstantOp>(op) || (isa<BroadcastInDimOp>(op) && isConstant(op->getOperand(0))));
}

std::vector<bool> BatchDims::batchFactors(const Rule &rule, ValueRange operands, ValueRange results) const {
  std::vector<bool> batch(rule.factors.size(), false);
  auto read = [&](ValueRange values, const std::vector<FactorMap> &maps) {
    for (size_t i = 0; i < maps.size(); ++i)
      for (size_t d = 0; d < maps[i].size(); ++d)
        if (int factor = leadingFactor(rule, maps[i][d]); factor >= 0 && isBatch(values[i], d))
          batch[factor] = true;
  };
  read(operands, rule.operands);
  read(results, rule.results);
  return batch;
}

bool BatchDims::spread(const Rule &rule, ValueRange operands, ValueRange results) {
  std::vector<bool> batch = batchFactors(rule, operands, results);
  bool changed = false;
  auto write = [&](ValueRange values, const std::vector<FactorMap> &maps) {
    for (size_t i = 0; i < maps.size(); ++i)
      for (size_t d = 0; d < maps[i].size(); ++d)
        if (int factor = leadingFactor(rule, maps[i][d]); factor >= 0 && batch[factor])
          changed |= tag(values[i], d);
  };
  write(operands, rule.operands);
  write(results, rule.results);
  return changed;
}

BatchDims::BatchDims(ModuleOp module) {
  SymbolTable symbols(module);
  auto main = symbols.lookup<func::FuncOp>(KerfDialect::kEntryName);
  if (!main)
    return;
  for (BlockArgument argument : main.getArguments()) {
    auto kind = main.getArgAttrOfType<StringAttr>(argument.getArgNumber(), KerfDialect::kKindAttr);
    if (kind && kind.getValue() == "input" && tensorType(argument).getRank() > 0)
      tag(argument, 0);
  }
  // An operand of a call and the callee's argument have the same dimensions, and so have a result and a returned value.
  auto join = [&](Value a, Value b) {
    bool changed = false;
    for (int64_t d = 0; d < tensorType(a).getRank(); ++d) {
      if (isBatch(a, d) || isBatch(b, d)) {
        changed |= tag(a, d);
        changed |= tag(b, d);
      }
    }
    return changed;
  };
  const std::vector<std::pair<Operation *, Rule>> ops = opsWithRules(module);
  for (bool changed = true; changed;) {
    changed = false;
    for (auto &[op, rule] : ops)
      changed |= spread(rule, op->getOperands(), op->getResults());
    module.walk([&](CallOp call) {
      auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
      if (!callee)
        return;
      for (auto [outer, inner] : llvm::zip(call.getInputs(), callee.getArguments()))
        changed |= join(outer, inner);
      for (auto [outer, inner] : llvm::zip(call.getOutputs(), callee.front().getTerminator()->getOperands()))
        changed |= join(outer, inner);
    });
  }
}

} // namespace kerf
