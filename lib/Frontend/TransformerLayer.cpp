// SPDX-License-Identifier: Apache-2.0
#include "TransformerLayer.h"

#include <cmath>

namespace kerf::frontend {

using mlir::Value;

FunctionWriter::FunctionWriter(mlir::func::FuncOp function, mlir::Type floatType, std::string scope)
    : function(function), floatType(floatType), scope(std::move(scope)),
      builder(mlir::OpBuilder::atBlockEnd(&function.getBody().front())), emit{builder, builder.getUnknownLoc()} {}

void FunctionWriter::at(const std::string &module, const char *node) {
  std::string name = scope + module;
  while (!name.empty() && name.back() == '.') // the layer itself
    name.pop_back();
  emit.loc = mlir::NameLoc::get(builder.getStringAttr(name.empty() ? node : name + "/" + node));
}

Value FunctionWriter::argument(TransformerArgument argument, mlir::Type type) {
  mlir::Location loc = argument.name.empty() ? builder.getUnknownLoc()
                                             : mlir::NameLoc::get(builder.getStringAttr(scope + argument.name));
  args.push_back(std::move(argument));
  return block().addArgument(type, loc);
}

Value FunctionWriter::parameter(const std::string &name, const Shape &exported, const Shape &viewed) {
  return argument({name, "parameter", exported}, type(viewed));
}

Value FunctionWriter::input(const std::string &name, mlir::Type element, const Shape &shape) {
  return argument({name, "input", shape}, mlir::RankedTensorType::get(shape, element));
}

Value FunctionWriter::received(Value given) { return given ? argument({"", "", {}}, given.getType()) : Value(); }

void FunctionWriter::finish(Value result) {
  mlir::func::ReturnOp::create(builder, function.getLoc(), result);
  function.setFunctionType(builder.getFunctionType(block().getArgumentTypes(), result.getType()));
}

Value FunctionWriter::linear(Value x, int64_t contracted, const Shape &out, const std::string &module,
                             WeightLayout layout, bool hasBias) {
  at(module, "linear");
  Shape shape = ir::shapeOf(x), in(shape.end() - contracted, shape.end()),
        viewed = layout == WeightLayout::OutIn ? out : in;
  const Shape &last = layout == WeightLayout::OutIn ? in : out;
  int64_t firstIn = layout == WeightLayout::OutIn ? int64_t(out.size()) : 0;
  Shape exported = {elementsOf(viewed), elementsOf(last)};
  viewed.insert(viewed.end(), last.begin(), last.end());
  Shape ofX, ofWeight;
  for (int64_t i = 0; i < contracted; ++i) {
    ofX.push_back(int64_t(shape.size()) - contracted + i);
    ofWeight.push_back(firstIn + i);
  }
  Value y = emit.dot(x, parameter(module + ".weight", exported, viewed), {}, {}, ofX, ofWeight);
  return hasBias ? bias(y, out, module + ".bias") : y;
}

Value FunctionWriter::bias(Value x, const Shape &out, const std::string &name) {
  Shape shape = ir::shapeOf(x), dims;
  for (size_t d = shape.size() - out.size(); d < shape.size(); ++d)
    dims.push_back(int64_t(d));
  return emit.add(x, emit.broadcast(parameter(name, {elementsOf(out)}, out), shape, dims));
}

Value FunctionWriter::norm(Value x, NormKind kind, double epsilon, const std::string &module) {
  at(module, "norm");
  Shape rows = ir::shapeOf(x);
  Value scale = parameter(module + ".weight", {rows.back()});
  rows.pop_back();
  mlir::FloatAttr eps = builder.getF64FloatAttr(epsilon);
  if (kind == NormKind::Layer) {
    Value bias = parameter(module + ".bias", ir::shapeOf(scale));
    return ir::LayerNormOp::create(builder, emit.loc, mlir::TypeRange{x.getType(), type(rows), type(rows)}, x, scale,
                                   bias, eps)
        .getResult();
  }
  if (kind == NormKind::RmsPlusOne)
    scale = emit.add(scale, emit.splat(1.0, scale));
  return ir::RmsNormOp::create(builder, emit.loc, mlir::TypeRange{x.getType(), type(rows)}, x, scale, eps).getResult();
}

Value FunctionWriter::activation(Value x, Activation kind) {
  switch (kind) {
  case Activation::Gelu:
    return ir::GeluOp::create(builder, emit.loc, x.getType(), x, mlir::UnitAttr());
  case Activation::GeluTanh:
    return ir::GeluOp::create(builder, emit.loc, x.getType(), x, builder.getUnitAttr());
  case Activation::Relu:
    return emit.maximum(x, emit.splat(0.0, x));
  case Activation::Silu:
    return emit.multiply(x, ir::LogisticOp::create(builder, emit.loc, x.getType(), x));
  }
  return x;
}

Value FunctionWriter::dropping(Value result, bool drops) {
  if (drops && marksDropout)
    result.getDefiningOp()->setAttr(ir::KerfDialect::kDropoutAttr, builder.getUnitAttr());
  return result;
}

Value FunctionWriter::slice(Value x, int64_t dim, int64_t from, int64_t to) {
  Shape shape = ir::shapeOf(x), start(shape.size(), 0), strides(shape.size(), 1);
  if (from == 0 && to == shape[dim])
    return x;
  start[dim] = from;
  shape[dim] = to;
  Shape size = shape;
  size[dim] = to - from;
  auto sliced = mlir::RankedTensorType::get(size, ir::tensorType(x).getElementType());
  return ir::SliceOp::create(builder, emit.loc, sliced, x, start, shape, strides);
}

Value FunctionWriter::concatenate(mlir::ValueRange parts, int64_t dim) {
  Shape shape = ir::shapeOf(parts.front());
  shape[dim] = 0;
  for (Value part : parts)
    shape[dim] += ir::shapeOf(part)[dim];
  auto joined = mlir::RankedTensorType::get(shape, ir::tensorType(parts.front()).getElementType());
  return ir::ConcatenateOp::create(builder, emit.loc, joined, parts, builder.getI64IntegerAttr(dim));
}

Value FunctionWriter::constant(llvm::ArrayRef<double> values) {
  llvm::SmallVector<mlir::Attribute> elements;
  for (double value : values)
    elements.push_back(builder.getFloatAttr(floatType, value));
  mlir::RankedTensorType vector = type({int64_t(values.size())});
  return ir::ConstantOp::create(builder, emit.loc, vector, mlir::DenseElementsAttr::get(vector, elements));
}

namespace {

class LayerWriter {
public:
  LayerWriter(FunctionWriter &w, const TransformerModel &m, const ModuleNames &names, const SharedValues &shared)
      : w(w), m(m), n(names), emit(w.emitter()),
        shared{w.received(shared.cosine), w.received(shared.sine),   w.received(shared.mask),
               w.received(shared.bias),   w.received(shared.memory), w.received(shared.memoryMask)} {}

  Value residual(Value x) {
    switch (m.residual) {
    case ResidualForm::PreNorm: {
      Value y = add(x, attention(norm(x, n.attentionNorm)));
      if (shared.memory)
        y = add(y, crossAttention(norm(y, n.crossNorm)));
      return add(y, feedForward(norm(y, n.mlpNorm)));
    }
    case ResidualForm::PostNorm: {
      Value y = norm(add(x, attention(x)), n.attentionNorm);
      return norm(add(y, feedForward(y)), n.mlpNorm);
    }
    case ResidualForm::Parallel: {
      Value attended = attention(norm(x, n.attentionNorm));
      Value inner = feedForward(norm(x, n.mlpNorm));
      return add(add(x, attended), inner);
    }
    case ResidualForm::ParallelSharedNorm: {
      Value normed = norm(x, n.attentionNorm);
      Value attended = attention(normed);
      return add(add(x, attended), feedForward(normed));
    }
    }
    return x;
  }

private:
  struct Heads {
    Value query, key, value; // [B, S, H or G, D]
  };

  Value norm(Value x, const std::string &module) { return w.norm(x, m.norm, m.epsilon, module); }

  Value add(Value x, Value y) {
    w.at("", "residual");
    return w.dropping(emit.add(x, y), m.dropsResidual);
  }

  Value project(Value x, int64_t heads, const std::string &module) {
    return w.linear(x, 1, {heads, m.headSize}, module, m.layout, m.queryKeyValueBias);
  }

  /// Place `at` of the three in a projection [B, S, 3, H, D].
  Value stacked(Value all, int64_t at) {
    Shape shape = ir::shapeOf(all);
    return emit.reshape(w.slice(all, 2, at, at + 1), {shape[0], shape[1], m.heads, m.headSize});
  }

  /// Members [from, to) of each group in a projection [B, S, G, H / G + 2, D], without G where it is 1.
  Value grouped(Value all, int64_t from, int64_t to) {
    Shape shape = ir::shapeOf(all);
    Value members = w.slice(all, int64_t(shape.size()) - 2, from, to);
    return emit.reshape(members, {shape[0], shape[1], m.groups * (to - from), m.headSize});
  }

  Heads heads(Value x) {
    switch (m.projection) {
    case ProjectionForm::Separate: {
      Value query = project(x, m.heads, n.query), key = project(x, m.groups, n.key);
      return {query, key, project(x, m.groups, n.value)};
    }
    case ProjectionForm::Stacked: {
      Value all = w.linear(x, 1, {3, m.heads, m.headSize}, n.fused, m.layout, m.queryKeyValueBias);
      Value query = stacked(all, 0), key = stacked(all, 1);
      return {query, key, stacked(all, 2)};
    }
    case ProjectionForm::Grouped: {
      int64_t queries = m.heads / m.groups;
      Shape out = {m.groups, queries + 2, m.headSize};
      if (m.groups == 1)
        out.erase(out.begin());
      Value all = w.linear(x, 1, out, n.fused, m.layout, m.queryKeyValueBias);
      Value query = grouped(all, 0, queries), key = grouped(all, queries, queries + 1);
      return {query, key, grouped(all, queries + 1, queries + 2)};
    }
    }
    return {};
  }

  /// x cos + turned(x) sin over the rotated elements; turned: the second half, negated, before the first.
  Value rotated(Value x) {
    int64_t count = int64_t(m.rotaryFrequencies.size()) * 2;
    Value part = w.slice(x, 3, 0, count);
    auto table = [&](Value values) { return emit.broadcast(values, ir::shapeOf(part), {1, 3}); };
    Value first = w.slice(part, 3, 0, count / 2), second = w.slice(part, 3, count / 2, count);
    Value turned =
        w.concatenate({ir::NegateOp::create(w.opBuilder(), w.location(), second.getType(), second), first}, 3);
    Value byCosine = emit.multiply(part, table(shared.cosine)), bySine = emit.multiply(turned, table(shared.sine));
    Value result = emit.add(byCosine, bySine);
    return count == m.headSize ? result : w.concatenate({result, w.slice(x, 3, count, m.headSize)}, 3);
  }

  Value attention(Value x) {
    Heads h = heads(x);
    if (m.queryKeyNorm) {
      h.query = norm(h.query, n.queryNorm);
      h.key = norm(h.key, n.keyNorm);
    }
    w.at(n.attention, "rotary");
    if (m.position == PositionKind::Rotary) {
      h.query = rotated(h.query);
      h.key = rotated(h.key);
    }
    w.at(n.attention, "attention");
    Value attended = shared.bias ? biasedAttention(h) : fusedAttention(h, shared.mask);
    return w.linear(attended, 2, {m.hidden}, n.output, m.layout, m.outputBias);
  }

  Value crossAttention(Value x) {
    Value query = project(x, m.heads, n.crossQuery), key = project(shared.memory, m.groups, n.crossKey);
    Heads h = {query, key, project(shared.memory, m.groups, n.crossValue)};
    w.at(n.crossAttention, "attention");
    return w.linear(fusedAttention(h, shared.memoryMask), 2, {m.hidden}, n.crossOutput, m.layout, m.outputBias);
  }

  double scale() const { return m.scaledAttention ? 1 / std::sqrt(double(m.headSize)) : 1; }

  Value fusedAttention(const Heads &h, Value mask) {
    Shape shape = ir::shapeOf(h.query);
    mlir::UnitAttr causal = m.task == Task::CausalLm ? w.opBuilder().getUnitAttr() : mlir::UnitAttr();
    llvm::SmallVector<mlir::Type> types = {h.query.getType(), w.type({shape[0], shape[2], shape[1]})};
    Value attended = ir::AttentionOp::create(w.opBuilder(), w.location(), types, h.query, h.key, h.value, mask,
                                             w.opBuilder().getF64FloatAttr(scale()), causal)
                         .getResult();
    return w.dropping(attended, m.dropsAttention);
  }

  /// Op by op: the attention op has no gradient for what is added to its scores.
  Value biasedAttention(const Heads &h) {
    Value scores = emit.dot(h.query, h.key, {0, 2}, {0, 2}, {3}, {3}); // [B, H, S, T]
    if (m.scaledAttention)
      scores = emit.multiply(scores, emit.splat(scale(), scores));
    Shape shape = ir::shapeOf(scores);
    scores = emit.add(scores, emit.broadcast(shared.bias, shape, {1, 2, 3}));
    if (shared.mask) {
      Value sees = emit.broadcast(shared.mask, shape, {0, 1, 2, 3});
      scores = emit.select(sees, scores, emit.splat(kHiddenScore, scores));
    }
    Value shares = ir::SoftmaxOp::create(w.opBuilder(), w.location(), scores.getType(), scores,
                                         w.opBuilder().getI64IntegerAttr(3));
    return emit.transpose(emit.dot(shares, h.value, {0, 1}, {0, 2}, {3}, {1}), {0, 2, 1, 3});
  }

  Value feedForward(Value x) { return m.experts ? mixture(x) : mlp(x); }

  /// Copies of each token to the slots of its experts [E, B, slots, hidden], their MLPs, and their sum. The router's
  /// probability of a copy multiplies its activations, not its result: the same number, and results are not kept.
  Value mixture(Value x) {
    Value scores = w.linear(x, 1, {m.experts}, n.router, m.layout, /*hasBias=*/false);
    w.at(n.router, "top_k");
    Shape shape = ir::shapeOf(scores);
    Value shares = ir::SoftmaxOp::create(w.opBuilder(), w.location(), scores.getType(), scores,
                                         w.opBuilder().getI64IntegerAttr(2));
    shape.back() = m.choices;
    llvm::SmallVector<mlir::Type> types = {w.type(shape),
                                           mlir::RankedTensorType::get(shape, w.opBuilder().getI64Type())};
    auto picked = ir::TopKOp::create(w.opBuilder(), w.location(), types, shares);
    Value weights = picked.getValues(), choices = picked.getIndices();
    if (m.choicesAddToOne)
      weights = emit.divide(weights, emit.broadcastAlong(emit.sum(weights, {2}), weights, 2));
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
    if (!m.sharedExpert)
      return y;
    Value all = mlp(x), gate = w.linear(x, 1, {1}, n.sharedGate, m.layout, /*hasBias=*/false);
    w.at(n.sharedGate, "logistic");
    gate = ir::LogisticOp::create(w.opBuilder(), w.location(), gate.getType(), gate);
    gate = emit.broadcast(emit.reshape(gate, {shape[0], shape[1]}), ir::shapeOf(all), {0, 1});
    return emit.add(y, emit.multiply(gate, all));
  }

  Value mlp(Value x) {
    auto activated = [&](const std::string &module) {
      Value y = w.linear(x, 1, {m.inner}, module, m.layout, m.mlpBias);
      w.at(module, "activation");
      return w.activation(y, m.activation);
    };
    if (!m.gated)
      return w.linear(activated(n.up), 1, {m.hidden}, n.down, m.layout, m.mlpBias);
    Value gate = activated(n.gate), up = w.linear(x, 1, {m.inner}, n.up, m.layout, m.mlpBias);
    w.at(n.up, "gated");
    return w.linear(emit.multiply(gate, up), 1, {m.hidden}, n.down, m.layout, m.mlpBias);
  }

  FunctionWriter &w;
  const TransformerModel &m;
  const ModuleNames &n;
  ir::Emitter &emit;
  SharedValues shared;
};

} // namespace

llvm::SmallVector<Value> given(const SharedValues &s) {
  llvm::SmallVector<Value> values = {s.cosine, s.sine, s.mask, s.bias, s.memory, s.memoryMask};
  llvm::erase(values, Value());
  return values;
}

void writeLayer(FunctionWriter &writer, const TransformerModel &model, const ModuleNames &names, Value stream,
                const SharedValues &shared) {
  Value x = writer.received(stream);
  writer.finish(LayerWriter(writer, model, names, shared).residual(x));
}

} // namespace kerf::frontend
