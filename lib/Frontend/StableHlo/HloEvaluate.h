// SPDX-License-Identifier: Apache-2.0
// Evaluates a StableHLO function on terms. Calls are inlined, loops with a known condition are unrolled, and branches
// become selections. Values that depend on no argument are computed; all others become IR operators.
#pragma once

#include "StableHlo/HloOps.h"

#include <unordered_map>

namespace kerf::frontend::hlo {

/// An evaluator of the functions of one module.
class Evaluator {
public:
  /// Evaluates functions of `module` and writes IR with `b`.
  Evaluator(const Module &module, TermBuilder &b) : module(module), b(b) {}

  /// Evaluates `function` with the given arguments and returns its results. Results that are not `wanted` are empty
  /// terms, and operations that only these results need are skipped. Fails for unsupported operations.
  Result<Terms> run(const Function &function, const Terms &arguments, const std::vector<bool> &wanted);
  /// Fails with one message on all unsupported operations that the wanted results need.
  Status checkOperations(const Function &function, const std::vector<bool> &wanted);

private:
  /// The values that operations of a region can read.
  struct Scope {
    std::unordered_map<std::string, Terms> values;
    const Scope *parent = nullptr;
  };
  Result<Terms> region(const Region &region, const Terms &arguments, const Scope *parent,
                       const std::vector<bool> *wanted);
  Status operation(const Operation &op, Scope &scope);
  Result<Terms> results(const Operation &op, const Terms &operands, const Scope &scope);
  Result<Terms> call(const Operation &op, const Terms &operands);
  Result<Terms> loop(const Operation &op, Terms values, const Scope &scope);
  Result<Terms> branch(const Operation &op, const Terms &operands, const Scope &scope);
  Result<Terms> plain(const Operation &op, const Terms &operands);
  Result<Term> lookup(const std::string &name, const Scope &scope) const;
  Status checkTypes(const std::vector<Type> &types, const Terms &terms, const char *which) const;
  mlir::Location locationOf(const Operation &op) const;

  const Module &module;
  TermBuilder &b;
  std::vector<std::string> path; // functions and loops under evaluation, for messages
  int64_t operations = 0;        // number of evaluated operations, which has a limit
};

} // namespace kerf::frontend::hlo
