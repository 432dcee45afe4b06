// SPDX-License-Identifier: Apache-2.0
// Imports RNN, GRU and LSTM, unrolled over their steps. The contribution of the inputs to the gates is one matrix
// product for all steps.
#include "Common/Formula.h"

#include <array>

namespace kerf::frontend {

namespace {

using Activation = Term (*)(Formula &, const Term &);

Term sigmoidOf(Formula &f, const Term &x) { return f.unary(Unary::Logistic, x); }
Term tanhOf(Formula &f, const Term &x) { return f.unary(Unary::Tanh, x); }
Term reluOf(Formula &f, const Term &x) { return f.maximum(x, f.number(0)); }

struct State {
  Term hidden, cell; // [batch, hidden]; only the LSTM has a cell state
};

/// The weights of one direction of a node.
struct Layer {
  int64_t hidden = 0;
  Term recurrent;     // [gates * hidden, hidden]
  Term recurrentBias; // [gates * hidden]; used only by a GRU that multiplies it, otherwise part of the inputs'
                      // contribution
  Term peepholes;     // LSTM: optional peephole weights [3 * hidden] of the input, output and forget gates
  bool hasPeepholes = false,
       resetsBehind = false; // resetsBehind: whether a GRU applies its reset gate after the recurrent product
  std::vector<Activation> activations;
};

/// A function that computes one step; `input` [batch, gates * hidden] is the contribution of the inputs to the gates.
using Step = State (*)(Formula &, const Layer &, const Term &input, const State &before);

Term gate(Formula &f, const Layer &layer, const Term &x, int64_t index) {
  return f.slice(x, x.rank() - 1, index * layer.hidden, (index + 1) * layer.hidden);
}

/// Multiplies x [batch, hidden] by the transposed rows of the gates [from, to).
Term recurrentPart(Formula &f, const Layer &layer, const Term &x, int64_t from, int64_t to) {
  Term rows = f.slice(layer.recurrent, 0, from * layer.hidden, to * layer.hidden);
  return f.unwrap(f.b.dot(x, {{}, {1}}, rows, {{}, {1}}));
}

State rnnStep(Formula &f, const Layer &layer, const Term &input, const State &before) {
  return {layer.activations[0](f, f.add(input, recurrentPart(f, layer, before.hidden, 0, 1))), {}};
}

/// Computes a step of a GRU. The gates are update, reset and hidden.
State gruStep(Formula &f, const Layer &layer, const Term &input, const State &before) {
  const Term &h = before.hidden;
  Activation sigma = layer.activations[0], tau = layer.activations[1];
  Term both = f.add(f.slice(input, 1, 0, 2 * layer.hidden), recurrentPart(f, layer, h, 0, 2));
  Term update = sigma(f, gate(f, layer, both, 0)), reset = sigma(f, gate(f, layer, both, 1));
  Term past = layer.resetsBehind
                  ? f.multiply(reset, f.add(recurrentPart(f, layer, h, 2, 3), gate(f, layer, layer.recurrentBias, 2)))
                  : recurrentPart(f, layer, f.multiply(reset, h), 2, 3);
  Term fresh = tau(f, f.add(gate(f, layer, input, 2), past));
  // (1 - update) * fresh + update * h
  return {f.add(fresh, f.multiply(update, f.subtract(h, fresh))), {}};
}

/// Computes a step of an LSTM. The gates are input, output, forget and cell.
State lstmStep(Formula &f, const Layer &layer, const Term &input, const State &before) {
  Term sums = f.add(input, recurrentPart(f, layer, before.hidden, 0, 4));
  auto at = [&](int64_t index, int64_t peephole, const Term &cell) {
    Term sum = gate(f, layer, sums, index);
    return layer.hasPeepholes ? f.add(sum, f.multiply(gate(f, layer, layer.peepholes, peephole), cell)) : sum;
  };
  Activation sigma = layer.activations[0], tau = layer.activations[1], out = layer.activations[2];
  Term enters = sigma(f, at(0, 0, before.cell)), stays = sigma(f, at(2, 2, before.cell));
  Term cell = f.add(f.multiply(stays, before.cell), f.multiply(enters, tau(f, gate(f, layer, sums, 3))));
  return {f.multiply(sigma(f, at(1, 1, cell)), out(f, cell)), cell};
}

struct Kind {
  const char *name;
  int64_t gates;
  Step step;
  std::vector<Activation> activations; // default activations
};

const Kind &kindOf(const OnnxNode &node) {
  static const std::array<Kind, 3> kKinds = {Kind{"RNN", 1, rnnStep, {tanhOf}},
                                             Kind{"GRU", 3, gruStep, {sigmoidOf, tanhOf}},
                                             Kind{"LSTM", 4, lstmStep, {sigmoidOf, tanhOf, tanhOf}}};
  return node.opType() == "RNN" ? kKinds[0] : node.opType() == "GRU" ? kKinds[1] : kKinds[2];
}

// Numbers of the inputs of the node.
constexpr int kWeights = 1, kRecurrence = 2, kBias = 3, kLengths = 4, kHidden = 5, kCell = 6, kPeepholes = 7;

/// Returns the activation functions of all directions, one after the other.
Result<std::vector<Activation>> activationsOf(const OnnxNode &node, const Kind &kind, int64_t directions) {
  std::vector<Activation> chosen;
  const onnx::AttributeProto *names = node.find("activations");
  for (int i = 0; names && i < names->strings_size(); ++i) {
    const std::string &name = names->strings(i);
    if (name != "Sigmoid" && name != "Tanh" && name != "Relu")
      return Error{fmt::format("the activation '{}' is not supported; supported are Sigmoid, Tanh and Relu", name)};
    chosen.push_back(name == "Sigmoid" ? sigmoidOf : name == "Tanh" ? tanhOf : reluOf);
  }
  if (chosen.empty())
    for (int64_t d = 0; d < directions; ++d)
      chosen.insert(chosen.end(), kind.activations.begin(), kind.activations.end());
  if (int64_t wanted = directions * int64_t(kind.activations.size()); int64_t(chosen.size()) != wanted)
    return Error{fmt::format("{} activations are given, but {} directions need {}", chosen.size(), directions, wanted)};
  return chosen;
}

/// Returns operand `i`, which must have `shape`; zeros if it is absent.
Result<Term> operand(OnnxNode &node, int i, const char *what, const Shape &shape) {
  if (!node.hasInput(i))
    return node.b.broadcast(node.b.scalar(node.input(0).dtype, 0), shape);
  if (node.input(i).shape != shape)
    return Error{
        fmt::format("{} has the shape {}, but {} is needed", what, shapeText(node.input(i).shape), shapeText(shape))};
  return node.input(i);
}

/// The checked operands of a recurrent node. A state has the shape [directions, batch, hidden], or [batch, directions,
/// hidden] with `batchFirst`.
struct Operands {
  bool batchFirst = false, backwards = false; // backwards: the single direction is "reverse"
  int64_t directions = 1, steps = 0, batch = 0, hidden = 0;
  Shape stateShape;
  Term x; // [steps, batch, size]
  Term weights, recurrence, biases, firstHidden, firstCell, peepholes;
  std::optional<Term> lengths; // [batch, 1]
  std::vector<Activation> activations;
};

Result<Operands> operandsOf(OnnxNode &node, const Kind &kind, Formula &f) {
  std::string direction = node.text("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    return Error{fmt::format("direction '{}'", direction)};
  if (node.has("clip") || node.integer("input_forget", 0))
    return Error{"clip and input_forget are not supported"};
  Operands o;
  o.backwards = direction == "reverse";
  o.batchFirst = node.integer("layout", 0) != 0;
  o.directions = direction == "bidirectional" ? 2 : 1;
  if (node.input(0).rank() != 3 || node.input(kRecurrence).rank() != 3)
    return Error{fmt::format("inputs and recurrence weights have the shapes {} and {}, but three dimensions are needed",
                             shapeText(node.input(0).shape), shapeText(node.input(kRecurrence).shape))};
  o.x = o.batchFirst ? f.transpose(node.input(0), {1, 0, 2}) : node.input(0);
  o.steps = o.x.shape[0], o.batch = o.x.shape[1], o.hidden = node.input(kRecurrence).shape[2];
  if (int64_t said = node.integer("hidden_size", o.hidden); said != o.hidden)
    return Error{fmt::format("hidden_size is {}, but the recurrence weights have {}", said, o.hidden)};
  if (o.steps == 0)
    return Error{"the sequence has no steps"};
  const int64_t gates = kind.gates * o.hidden;
  o.stateShape = o.batchFirst ? Shape{o.batch, o.directions, o.hidden} : Shape{o.directions, o.batch, o.hidden};
  KERF_TRY(activations, activationsOf(node, kind, o.directions));
  o.activations = std::move(activations);
  KERF_TRY(weights, operand(node, kWeights, "W", {o.directions, gates, o.x.shape[2]}));
  KERF_TRY(recurrence, operand(node, kRecurrence, "R", {o.directions, gates, o.hidden}));
  KERF_TRY(biases, operand(node, kBias, "B", {o.directions, 2 * gates}));
  KERF_TRY(firstHidden, operand(node, kHidden, "initial_h", o.stateShape));
  KERF_TRY(firstCell, operand(node, kCell, "initial_c", o.stateShape));
  KERF_TRY(peepholes, operand(node, kPeepholes, "P", {o.directions, 3 * o.hidden}));
  o.weights = weights, o.recurrence = recurrence, o.biases = biases;
  o.firstHidden = firstHidden, o.firstCell = firstCell, o.peepholes = peepholes;
  if (node.hasInput(kLengths)) {
    KERF_TRY(given, operand(node, kLengths, "sequence_lens", {o.batch}));
    o.lengths = f.reshape(given, {o.batch, 1});
  }
  return o;
}

/// Returns slice `d` of dimension `dim`, without this dimension.
Term entryOf(Formula &f, const Term &x, int64_t dim, int64_t d) {
  Shape shape = x.shape;
  shape.erase(shape.begin() + dim);
  return f.reshape(f.slice(x, dim, d, d + 1), shape);
}

/// Returns the weights of direction `d`, and the contribution of the inputs to the gates [steps, batch, gates *
/// hidden].
std::pair<Layer, Term> layerOf(OnnxNode &node, const Kind &kind, Formula &f, const Operands &o, int64_t d) {
  const int64_t gates = kind.gates * o.hidden;
  Layer layer;
  layer.hidden = o.hidden;
  layer.recurrent = entryOf(f, o.recurrence, 0, d);
  layer.hasPeepholes = node.hasInput(kPeepholes);
  layer.peepholes = entryOf(f, o.peepholes, 0, d);
  layer.resetsBehind = node.integer("linear_before_reset", 0) != 0;
  size_t count = kind.activations.size();
  layer.activations.assign(o.activations.begin() + d * count, o.activations.begin() + (d + 1) * count);
  Term bias = entryOf(f, o.biases, 0, d), own = f.slice(bias, 0, 0, gates);
  layer.recurrentBias = f.slice(bias, 0, gates, 2 * gates);
  // A GRU that applies its reset gate after the product adds the last part of the bias itself.
  int64_t added = layer.resetsBehind ? 2 * o.hidden : gates;
  Term joined = f.add(f.slice(own, 0, 0, added), f.slice(layer.recurrentBias, 0, 0, added));
  if (layer.resetsBehind)
    joined = f.concatenate({joined, f.slice(own, 0, added, gates)}, 0);
  Term brought = f.unwrap(node.b.dot(o.x, {{}, {2}}, entryOf(f, o.weights, 0, d), {{}, {1}}));
  if (node.hasInput(kBias))
    brought = f.add(brought, joined);
  return {std::move(layer), brought};
}

} // namespace

Status importRecurrent(OnnxNode &node) {
  const Kind &kind = kindOf(node);
  KERF_CHECK(checkFloat(node.input(0)));
  Formula f(node.b, node.input(0).dtype);
  KERF_TRY(o, operandsOf(node, kind, f));
  int64_t along = o.batchFirst ? 1 : 0;        // dimension of the directions in a state
  std::vector<Term> all, lastHidden, lastCell; // one for each direction
  for (int64_t d = 0; d < o.directions; ++d) {
    auto [layer, brought] = layerOf(node, kind, f, o, d);
    State state{entryOf(f, o.firstHidden, along, d), entryOf(f, o.firstCell, along, d)};
    std::vector<Term> outputs(static_cast<size_t>(o.steps));
    bool backwards = o.backwards || d == 1;
    for (int64_t i = 0; i < o.steps && !f.fault; ++i) {
      int64_t at = backwards ? o.steps - 1 - i : i;
      Term input = f.reshape(f.slice(brought, 0, at, at + 1), {o.batch, kind.gates * o.hidden});
      State next = kind.step(f, layer, input, state);
      Term output = next.hidden;
      if (o.lengths) { // after its end, a sequence keeps its state and outputs zeros
        Term runs = f.compare(Order::Less, node.b.integer(o.lengths->dtype, at), *o.lengths);
        output = f.select(runs, next.hidden, f.number(0));
        next.hidden = f.select(runs, next.hidden, state.hidden);
        if (kind.gates == 4)
          next.cell = f.select(runs, next.cell, state.cell);
      }
      outputs[size_t(at)] = f.reshape(output, {1, 1, o.batch, o.hidden});
      state = next;
    }
    if (f.fault)
      return *f.fault;
    all.push_back(f.concatenate(outputs, 0)); // [steps, 1, batch, hidden]
    Shape one = o.stateShape;
    one[size_t(along)] = 1;
    lastHidden.push_back(f.reshape(state.hidden, one));
    if (kind.gates == 4)
      lastCell.push_back(f.reshape(state.cell, one));
  }
  Term whole = f.concatenate(all, 1);
  KERF_CHECK(f.set(node, 0, o.batchFirst ? f.transpose(whole, {2, 0, 1, 3}) : whole));
  KERF_CHECK(f.set(node, 1, f.concatenate(lastHidden, along)));
  return kind.gates == 4 ? f.set(node, 2, f.concatenate(lastCell, along)) : ok();
}

} // namespace kerf::frontend
