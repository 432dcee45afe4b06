// SPDX-License-Identifier: Apache-2.0
// Runs a StableHLO function on terms: calls are inlined, loops whose condition is known are unrolled, branches become
// selections. What depends on no argument is computed, the rest becomes ops.
#pragma once

#include "StableHlo/HloOps.h"

#include <unordered_map>

namespace kerf::frontend::hlo {

class Evaluator {
public:
  Evaluator(const Module &module, TermBuilder &b) : module(module), b(b) {}

  /// Values of the results that are `wanted`; the others are empty terms, and what only they need is left out.
  Result<Terms> run(const Function &function, const Terms &arguments, const std::vector<bool> &wanted);
  /// One message for everything that is not supported in what those results need.
  Status checkOperations(const Function &function, const std::vector<bool> &wanted);

private:
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
  std::vector<std::string> path; // of functions and loops that are being run
  int64_t operations = 0;
};

} // namespace kerf::frontend::hlo
