// SPDX-License-Identifier: Apache-2.0
// Branches and loops whose course is known at import: of a branch the nodes that are taken, of a loop those of each
// round stand in the graph, one after the other.
#include "Formula.h"

#include <fmt/format.h>

namespace kerf::frontend {

/// A truth value that is known at import.
static Result<bool> knownTruth(const Term &condition, std::string_view what) {
  if (!condition.isConstant())
    return Error{
        fmt::format("{} is computed from the inputs or parameters; what is known at import is supported: shapes "
                    "and constants",
                    what)};
  if (elementsOf(condition.shape) != 1)
    return Error{fmt::format("{} has the shape {}, it must be one truth value", what, shapeText(condition.shape))};
  return !isAll(*condition.literal, 0);
}

Status importIf(OnnxNode &node) {
  KERF_TRY(holds, knownTruth(node.input(0), "its condition"));
  KERF_TRY(outputs, node.writtenOut(holds ? "then_branch" : "else_branch", {}));
  if (int(outputs.size()) < node.outputCount())
    return Error{fmt::format("a branch has {} outputs, the node {}", outputs.size(), node.outputCount())};
  for (int i = 0; i < node.outputCount(); ++i)
    KERF_CHECK(node.setEntry(i, outputs[size_t(i)]));
  return ok();
}

/// What each round gave, along a new first dimension.
static Result<Term> stacked(TermBuilder &b, const std::vector<Term> &rounds) {
  std::vector<Term> rows;
  for (const Term &term : rounds) {
    Shape shape = term.shape;
    shape.insert(shape.begin(), 1);
    KERF_TRY(row, b.reshape(term, shape));
    rows.push_back(row);
  }
  return b.concatenate(rows, 0);
}

Status importLoop(OnnxNode &node) {
  constexpr int kVariables = 2; // operands before them: the number of rounds, whether there is a first one
  int64_t most = std::numeric_limits<int64_t>::max();
  bool goesOn = true;
  if (node.hasInput(0)) {
    KERF_TRY(rounds, node.constantInput(0));
    if (rounds.size() != 1)
      return Error{fmt::format("its number of rounds has {} elements, one is needed", rounds.size())};
    most = rounds[0];
  }
  if (node.hasInput(1)) {
    KERF_TRY(begins, knownTruth(node.input(1), "its condition"));
    goesOn = begins;
  }
  std::vector<Entry> variables;
  for (int i = kVariables; i < node.inputCount(); ++i) {
    if (!node.hasInput(i))
      return Error{fmt::format("operand {} is absent", i)};
    variables.push_back(node.entry(i));
  }
  std::vector<std::vector<Term>> scanned(size_t(std::max(0, node.outputCount() - int(variables.size()))));
  for (int64_t round = 0; round < most && goesOn; ++round) {
    std::vector<Entry> inputs = {Entry{{node.b.integer(DType::I64, round)}}, Entry{{node.b.integer(DType::Bool, 1)}}};
    inputs.insert(inputs.end(), variables.begin(), variables.end());
    KERF_TRY(outputs, node.writtenOut("body", inputs));
    size_t wanted = 1 + variables.size() + scanned.size();
    if (outputs.size() < wanted)
      return Error{fmt::format("its body has {} outputs, the node needs {}", outputs.size(), wanted)};
    KERF_TRY(again, knownTruth(outputs[0].terms.front(), fmt::format("its condition after round {}", round)));
    goesOn = again;
    std::copy_n(outputs.begin() + 1, variables.size(), variables.begin());
    for (size_t i = 0; i < scanned.size(); ++i) {
      const Entry &gave = outputs[1 + variables.size() + i];
      if (gave.sequence)
        return Error{"its body stacks sequences of tensors"};
      scanned[i].push_back(gave.terms.front());
    }
  }
  for (int i = 0; i < node.outputCount(); ++i) {
    if (i < int(variables.size())) {
      KERF_CHECK(node.setEntry(i, variables[size_t(i)]));
      continue;
    }
    const std::vector<Term> &rounds = scanned[size_t(i) - variables.size()];
    if (rounds.empty())
      return Error{fmt::format("it has no round, so output {} has no known shape", i)};
    KERF_CHECK(node.set(i, stacked(node.b, rounds)));
  }
  return ok();
}

} // namespace kerf::frontend
