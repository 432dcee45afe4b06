// SPDX-License-Identifier: Apache-2.0
// Writes the MLP of a layer, or its router and experts.
#include "Config/TransformerLayer.h"

namespace kerf::frontend {

using mlir::Value;

namespace {

class FeedForwardWriter {
public:
  FeedForwardWriter(FunctionWriter &w, const TransformerModel &m, const ModuleNames &n)
      : w(w), m(m), n(n), emit(w.emitter()) {}

  struct Modules {
    std::string gate, up, down;
  };
  Value mlp(Value x, int64_t inner, const Modules &names) {
    auto activated = [&](const std::string &module) {
      Value y = w.linear(x, 1, {inner}, module, m.layout, m.mlpBias);
      w.at(module, "activation");
      return w.activation(y, m.activation);
    };
    if (!m.gated)
      return w.linear(activated(names.up), 1, {m.hidden}, names.down, m.layout, m.mlpBias);
    Value gate = activated(names.gate), up = w.linear(x, 1, {inner}, names.up, m.layout, m.mlpBias);
    w.at(names.up, "gated");
    return w.linear(emit.multiply(gate, up), 1, {m.hidden}, names.down, m.layout, m.mlpBias);
  }

  /// Dispatches each token to the slots of its experts [E, B, slots, hidden], applies their MLPs, and sums the results.
  /// The router's probability multiplies the activations instead of the results, which gives the same numbers without
  /// saving the results for the backward pass.
  Value mixture(Value x) {
    auto [weights, choices] = route(x);
    Shape shape = ir::shapeOf(weights);
    w.at(n.experts, "dispatch");
    mlir::IntegerAttr experts = w.opBuilder().getI64IntegerAttr(m.experts);
    const Shape slots = {m.experts, shape[0], m.slots};
    auto dispatch = [&](Value tokens, Value each) -> Value {
      mlir::Type type = w.type({slots[0], slots[1], slots[2], ir::shapeOf(tokens)[2]});
      return ir::DispatchOp::create(w.opBuilder(), w.location(), type, tokens, choices, each, Value(), experts);
    };
    Value ones = emit.splat(1.0, weights), copies = dispatch(x, ones);
    Value one = emit.broadcast(w.constant({1.0}), {shape[0], shape[1], 1}, {2});
    Value ofSlots = emit.reshape(dispatch(one, weights), slots);
    w.at(n.experts, "linear");
    Value first = w.parameter(n.experts + ".gate_up_proj", {m.experts, 2 * m.expertInner, m.hidden},
                              {m.experts, 2, m.expertInner, m.hidden});
    Value both = emit.dot(copies, first, {0}, {0}, {3}, {3}); // [E, B, slots, 2, inner]
    const Shape activations = {slots[0], slots[1], slots[2], m.expertInner};
    auto half = [&](int64_t at) { return emit.reshape(w.slice(both, 3, at, at + 1), activations); };
    w.at(n.experts, "activation");
    Value gated = emit.multiply(w.activation(half(0), m.activation), half(1));
    gated = emit.multiply(gated, emit.broadcast(ofSlots, activations, {0, 1, 2}));
    w.at(n.experts, "linear");
    Value second = w.parameter(n.experts + ".down_proj", {m.experts, m.hidden, m.expertInner});
    Value made = emit.dot(gated, second, {0}, {0}, {3}, {2});
    w.at(n.experts, "combine");
    Value y = ir::CombineOp::create(w.opBuilder(), w.location(), x.getType(), made, choices, ones, Value(), experts);
    return m.sharedInner ? emit.add(y, shared(x)) : y;
  }

private:
  struct Picked {
    Value values, indices; // [B, S, choices]
  };

  Picked largest(Value scores, int64_t count) {
    Shape shape = ir::shapeOf(scores);
    shape.back() = count;
    llvm::SmallVector<mlir::Type> types = {w.type(shape),
                                           mlir::RankedTensorType::get(shape, w.opBuilder().getI64Type())};
    auto picked = ir::TopKOp::create(w.opBuilder(), w.location(), types, scores);
    return {picked.getValues(), picked.getIndices()};
  }

  /// Returns a mask that is true at the elements of the last dimension of `scores` that were chosen.
  Value isPicked(const Picked &picked, Value scores) {
    Value hits = ir::TopKBackwardOp::create(w.opBuilder(), w.location(), scores.getType(), picked.indices,
                                            emit.splat(1.0, picked.values));
    return emit.compare(hits, emit.splat(0.0, hits), ir::Comparison::GT);
  }

  /// Returns the scores of the experts in the best groups, and `fallback` elsewhere. The score of a group is the best
  /// score of its experts, or the sum of the two best scores if scores are corrected.
  Value ofBestGroups(Value scores, double fallback) {
    Shape shape = ir::shapeOf(scores), grouped = {shape[0], shape[1], m.expertGroups, m.experts / m.expertGroups};
    Value groups = emit.reshape(scores, grouped);
    Value best = m.router == Router::Softmax ? emit.reduce(groups, ir::ReduceKindIR::max, {3})
                                             : emit.sum(largest(groups, 2).values, {3});
    Value chosen = emit.broadcast(isPicked(largest(best, m.chosenGroups), best), grouped, {0, 1, 2});
    return emit.select(emit.reshape(chosen, shape), scores, emit.splat(fallback, scores));
  }

  /// Chooses the experts of each token and the weights of their results.
  Picked route(Value x) {
    Value scores = w.linear(x, 1, {m.experts}, n.router, m.layout, /*hasBias=*/false);
    w.at(n.router, "top_k");
    if (m.router == Router::Softmax) {
      scores = ir::SoftmaxOp::create(w.opBuilder(), w.location(), scores.getType(), scores,
                                     w.opBuilder().getI64IntegerAttr(2));
      if (m.chosenGroups < m.expertGroups)
        scores = ofBestGroups(scores, 0);
    } else {
      scores = ir::LogisticOp::create(w.opBuilder(), w.location(), scores.getType(), scores);
      Value correction = w.frozen(n.router + ".e_score_correction_bias", {m.experts});
      Value corrected = emit.add(scores, emit.broadcastLast(correction, scores));
      if (m.chosenGroups < m.expertGroups)
        corrected = ofBestGroups(corrected, kHiddenScore);
      // The choice has no gradients. Sigmoids of chosen experts are greater than the value that replaces the other
      // scores.
      scores = emit.select(isPicked(largest(corrected, m.choices), scores), scores, emit.splat(-1.0, scores));
    }
    Picked picked = largest(scores, m.choices);
    Value &weights = picked.values;
    if (m.choicesAddToOne)
      weights = emit.divide(weights, emit.broadcastAlong(emit.sum(weights, {2}), weights, 2));
    if (m.routedScale != 1)
      weights = emit.multiply(weights, emit.splat(m.routedScale, weights));
    return picked;
  }

  /// Applies the shared expert to all tokens, multiplied by a gate value for each token if it has a gate.
  Value shared(Value x) {
    auto module = [&](const std::string &name) { return n.sharedExpert + "." + name; };
    Value all = mlp(x, m.sharedInner, {module(n.expertGate), module(n.expertUp), module(n.expertDown)});
    if (n.sharedGate.empty())
      return all;
    Value gate = w.linear(x, 1, {1}, n.sharedGate, m.layout, /*hasBias=*/false);
    w.at(n.sharedGate, "logistic");
    gate = ir::LogisticOp::create(w.opBuilder(), w.location(), gate.getType(), gate);
    Shape shape = ir::shapeOf(all);
    gate = emit.broadcast(emit.reshape(gate, {shape[0], shape[1]}), shape, {0, 1});
    return emit.multiply(gate, all);
  }

  FunctionWriter &w;
  const TransformerModel &m;
  const ModuleNames &n;
  ir::Emitter &emit;
};

} // namespace

Value feedForward(FunctionWriter &writer, const TransformerModel &model, const ModuleNames &names, Value x) {
  FeedForwardWriter body(writer, model, names);
  return model.experts ? body.mixture(x) : body.mlp(x, model.inner, {names.gate, names.up, names.down});
}

} // namespace kerf::frontend
