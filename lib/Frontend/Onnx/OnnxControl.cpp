// SPDX-License-Identifier: Apache-2.0
// Imports branches, loops and optionals whose control flow is known at import. The nodes of the taken branch, and the
// nodes of each loop iteration, become part of the graph. An optional is represented by its content.
#include "Common/Formula.h"
#include "Common/Half.h"

#include <fmt/format.h>

namespace kerf::frontend {

/// Returns a boolean that must be constant at import.
static Result<bool> knownTruth(const GraphValue &entry, std::string_view what) {
  if (!entry.isTensor())
    return Error{fmt::format("{} is {}, but one boolean is needed", what, toString(entry.kind))};
  const Term &condition = entry.terms.front();
  if (!condition.isConstant())
    return Error{fmt::format(
        "{} depends on inputs or parameters, but it must be known at import, from shapes and constants", what)};
  if (elementsOf(condition.shape) != 1)
    return Error{fmt::format("{} has the shape {}, but one boolean is needed", what, shapeText(condition.shape))};
  return !allElementsEqual(*condition.literal, 0);
}

Status importIf(OnnxNode &node) {
  KERF_TRY(holds, knownTruth(node.value(0), "its condition"));
  KERF_TRY(outputs, node.writeSubgraph(holds ? "then_branch" : "else_branch", {}));
  if (int(outputs.size()) < node.outputCount())
    return Error{fmt::format("a branch has {} outputs, but the node has {}", outputs.size(), node.outputCount())};
  for (int i = 0; i < node.outputCount(); ++i)
    KERF_CHECK(node.setValue(i, outputs[size_t(i)]));
  return ok();
}

/// Stacks output `output` of all iterations along a new dimension `axis`.
static Result<Term> stacked(TermBuilder &b, const std::vector<Term> &rounds, int64_t axis, size_t output) {
  if (rounds.empty())
    return Error{fmt::format("the loop has no iteration, so the shape of output {} is unknown", output)};
  KERF_TRY(place, normalizeAxis(axis, rounds[0].rank() + 1));
  std::vector<Term> slices;
  for (const Term &term : rounds) {
    Shape shape = term.shape;
    shape.insert(shape.begin() + std::min(place, term.rank()), 1);
    KERF_TRY(slice, b.reshape(term, shape));
    slices.push_back(slice);
  }
  return b.concatenate(slices, place);
}

/// Imports one iteration of a loop and returns the outputs of the body, at least `count`.
static Result<std::vector<GraphValue>> roundOf(OnnxNode &node, const std::vector<GraphValue> &inputs, size_t count) {
  KERF_TRY(outputs, node.writeSubgraph("body", inputs));
  if (outputs.size() < count)
    return Error{fmt::format("its body has {} outputs, but the node needs {}", outputs.size(), count)};
  return std::move(outputs);
}

/// Returns the tensor that one iteration gives for a stacked output. Fails for other kinds of values and for narrow
/// formats.
static Result<Term> tensorOf(const GraphValue &entry) {
  if (!entry.isTensor())
    return Error{fmt::format("its body stacks {}, but only tensors can be stacked", toString(entry.kind))};
  if (const NarrowFormat *format = entry.terms.front().narrow; format && !isHalf(format))
    return Error{fmt::format("its body stacks tensors of {}; cast them to float or int8 in the body", format->name)};
  return entry.terms.front();
}

Status importLoop(OnnxNode &node) {
  constexpr int kVariables = 2; // number of operands before the loop variables: trip count and initial condition
  int64_t most = std::numeric_limits<int64_t>::max();
  bool goesOn = true;
  if (node.hasInput(0)) {
    if (!node.value(0).isTensor())
      return Error{fmt::format("its trip count is {}, which is not supported", toString(node.value(0).kind))};
    KERF_TRY(rounds, node.constantInput(0));
    if (rounds.size() != 1)
      return Error{fmt::format("its trip count has {} elements, but one is needed", rounds.size())};
    most = rounds[0];
  }
  if (node.hasInput(1)) {
    KERF_TRY(begins, knownTruth(node.value(1), "its condition"));
    goesOn = begins;
  }
  std::vector<GraphValue> variables;
  for (int i = kVariables; i < node.inputCount(); ++i) {
    if (!node.hasInput(i))
      return Error{fmt::format("operand {} is absent", i)};
    variables.push_back(node.value(i));
  }
  std::vector<std::vector<Term>> scanned(size_t(std::max(0, node.outputCount() - int(variables.size()))));
  for (int64_t round = 0; round < most && goesOn; ++round) {
    std::vector<GraphValue> inputs = {GraphValue{{node.b.integer(DType::I64, round)}},
                                      GraphValue{{node.b.integer(DType::Bool, 1)}}};
    inputs.insert(inputs.end(), variables.begin(), variables.end());
    KERF_TRY(outputs, roundOf(node, inputs, 1 + variables.size() + scanned.size()));
    KERF_TRY(again, knownTruth(outputs[0], fmt::format("its condition after iteration {}", round)));
    goesOn = again;
    std::copy_n(outputs.begin() + 1, variables.size(), variables.begin());
    for (size_t i = 0; i < scanned.size(); ++i) {
      KERF_TRY(gave, tensorOf(outputs[1 + variables.size() + i]));
      scanned[i].push_back(gave);
    }
  }
  for (size_t i = 0; i < size_t(node.outputCount()); ++i)
    KERF_CHECK(i < variables.size() ? node.setValue(int(i), variables[i])
                                    : node.set(int(i), stacked(node.b, scanned[i - variables.size()], 0, i)));
  return ok();
}

namespace {

/// The dimension along which a Scan goes through a tensor, and whether it starts at the end.
struct ScanDirection {
  int64_t axis = 0;
  bool isBackward = false;
};

Result<std::vector<ScanDirection>> scanDirections(const OnnxNode &node, const std::string &which, size_t count) {
  std::vector<ScanDirection> directionOf(count);
  std::vector<int64_t> axes = node.integers(which + "_axes"), directions = node.integers(which + "_directions");
  if ((!axes.empty() && axes.size() != count) || (!directions.empty() && directions.size() != count))
    return Error{fmt::format("{} axes and {} directions are given, but {} of each are needed", axes.size(),
                             directions.size(), count)};
  for (size_t i = 0; i < count; ++i)
    directionOf[i] = {axes.empty() ? 0 : axes[i], !directions.empty() && directions[i] != 0};
  return directionOf;
}

} // namespace

Status importScan(OnnxNode &node) {
  int64_t inputs = node.inputCount(), sliced = node.integer("num_scan_inputs", 0);
  if (sliced < 1 || sliced > inputs)
    return Error{fmt::format("num_scan_inputs is {}, but the node has {} operands", sliced, inputs)};
  size_t states = size_t(inputs - sliced);
  std::vector<GraphValue> variables;
  for (int i = 0; i < inputs; ++i) {
    if (!node.hasInput(i))
      return Error{fmt::format("operand {} is absent", i)};
    if (size_t(i) < states)
      variables.push_back(node.value(i));
  }
  size_t given = size_t(std::max<int64_t>(0, node.outputCount() - int64_t(states)));
  KERF_TRY(in, scanDirections(node, "scan_input", size_t(sliced)));
  KERF_TRY(out, scanDirections(node, "scan_output", given));
  int64_t rounds = -1;
  for (size_t i = 0; i < in.size(); ++i) {
    const Term &x = node.input(int(states + i));
    KERF_TRY(axis, normalizeAxis(in[i].axis, x.rank()));
    in[i].axis = axis;
    if (rounds >= 0 && x.shape[size_t(axis)] != rounds)
      return Error{
          fmt::format("its scan inputs have {} and {} slices, which must be equal", rounds, x.shape[size_t(axis)])};
    rounds = x.shape[size_t(axis)];
  }
  std::vector<std::vector<Term>> scanned(given);
  for (int64_t round = 0; round < rounds; ++round) {
    std::vector<GraphValue> now = variables;
    for (size_t i = 0; i < in.size(); ++i) {
      const Term &x = node.input(int(states + i));
      int64_t at = in[i].isBackward ? rounds - 1 - round : round;
      KERF_TRY(slice, node.b.slice(x, in[i].axis, at, at + 1));
      Shape shape = x.shape;
      shape.erase(shape.begin() + in[i].axis);
      KERF_TRY(element, node.b.reshape(slice, shape));
      now.push_back(GraphValue{{element}});
    }
    KERF_TRY(outputs, roundOf(node, now, states + given));
    std::copy_n(outputs.begin(), states, variables.begin());
    for (size_t i = 0; i < given; ++i) {
      KERF_TRY(gave, tensorOf(outputs[states + i]));
      scanned[i].insert(out[i].isBackward ? scanned[i].begin() : scanned[i].end(), gave);
    }
  }
  for (size_t i = 0; i < size_t(node.outputCount()); ++i)
    KERF_CHECK(i < states ? node.setValue(int(i), variables[i])
                          : node.set(int(i), stacked(node.b, scanned[i - states], out[i - states].axis, i)));
  return ok();
}

Status importSequenceMap(OnnxNode &node) {
  std::vector<GraphValue> given;
  for (int i = 0; i < node.inputCount(); ++i) {
    if (!node.hasInput(i))
      return Error{fmt::format("operand {} is absent", i)};
    given.push_back(node.value(i));
    if (given[size_t(i)].isSequence() ? given[size_t(i)].terms.size() != given[0].terms.size()
                                      : i == 0 || !given[size_t(i)].isTensor())
      return Error{fmt::format("operand {} is {} (length {}); the first operand must be a sequence, and the others "
                               "tensors or sequences of its length",
                               i, toString(given[size_t(i)].kind), given[size_t(i)].terms.size())};
  }
  std::vector<std::vector<Term>> results(size_t(node.outputCount()));
  for (size_t at = 0; at < given[0].terms.size(); ++at) {
    std::vector<GraphValue> now;
    for (const GraphValue &entry : given)
      now.push_back(entry.isSequence() ? GraphValue{{entry.terms[at]}} : entry);
    KERF_TRY(outputs, roundOf(node, now, results.size()));
    for (size_t i = 0; i < results.size(); ++i) {
      KERF_TRY(gave, tensorOf(outputs[i]));
      results[i].push_back(gave);
    }
  }
  for (int i = 0; i < node.outputCount(); ++i)
    KERF_CHECK(node.setSequence(i, results[size_t(i)]));
  return ok();
}

Status importOptional(OnnxNode &node) {
  return node.setValue(0, node.hasInput(0) ? node.value(0) : GraphValue{{}, GraphValueKind::Nothing});
}

Status importOptionalHasElement(OnnxNode &node) {
  bool holds = node.hasInput(0) && node.value(0).kind != GraphValueKind::Nothing;
  return node.set(0, node.b.integer(DType::Bool, holds));
}

Status importOptionalGetElement(OnnxNode &node) {
  if (node.value(0).kind == GraphValueKind::Nothing)
    return Error{"its optional is empty"};
  return node.setValue(0, node.value(0));
}

} // namespace kerf::frontend
