// SPDX-License-Identifier: Apache-2.0
#include "Config/TransformerLayer.h"

#include <cmath>

namespace kerf::frontend {

using mlir::Value;

FunctionWriter::FunctionWriter(mlir::func::FuncOp function, mlir::Type floatType, std::string scope)
    : function(function), floatType(floatType), scope(std::move(scope)),
      builder(mlir::OpBuilder::atBlockEnd(&function.getBody().front())), emit{builder, builder.getUnknownLoc()} {}

void FunctionWriter::at(const std::string &module, const char *node) {
  std::string name = scope + module;
  while (!name.empty() && name.back() == '.') // the scope of the layer itself ends with a dot
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

Value FunctionWriter::frozen(const std::string &name, const Shape &shape) {
  return argument({name, "parameter", shape, /*trained=*/false}, type(shape));
}

Value FunctionWriter::parameter(const TransformerArgument &like, const std::string &name, const Shape &viewed) {
  return argument({name, like.kind, like.exported, like.trained}, type(viewed));
}

Value FunctionWriter::input(const std::string &name, mlir::Type element, const Shape &shape) {
  return argument({name, "input", shape}, mlir::RankedTensorType::get(shape, element));
}

Value FunctionWriter::layerInput(Value given) { return given ? argument({"", "", {}}, given.getType()) : Value(); }

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

Value FunctionWriter::markDropout(Value result, bool drops) {
  if (drops && dropoutMarksEnabled)
    result.getDefiningOp()->setAttr(ir::KerfDialect::kDropoutAttr, builder.getUnitAttr());
  return result;
}

Value FunctionWriter::slice(Value x, int64_t dim, int64_t from, int64_t to, int64_t stride) {
  Shape shape = ir::shapeOf(x), start(shape.size(), 0), strides(shape.size(), 1);
  if (from == 0 && to == shape[dim] && stride == 1)
    return x;
  start[dim] = from;
  shape[dim] = to;
  strides[dim] = stride;
  Shape size = shape;
  size[dim] = (to - from + stride - 1) / stride;
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
        shared{w.layerInput(shared.cosine), w.layerInput(shared.sine),   w.layerInput(shared.mask),
               w.layerInput(shared.bias),   w.layerInput(shared.memory), w.layerInput(shared.memoryMask)} {}

  Value residual(Value x) {
    switch (m.residual) {
    case ResidualForm::PreNorm: {
      Value y = add(x, attention(norm(x, n.attentionNorm)));
      if (shared.memory)
        y = add(y, crossAttention(norm(y, n.crossNorm)));
      return add(y, mlp(norm(y, n.mlpNorm)));
    }
    case ResidualForm::PostNorm: {
      Value y = norm(add(x, attention(x)), n.attentionNorm);
      return norm(add(y, mlp(y)), n.mlpNorm);
    }
    case ResidualForm::Parallel: {
      Value attended = attention(norm(x, n.attentionNorm));
      Value inner = mlp(norm(x, n.mlpNorm));
      return add(add(x, attended), inner);
    }
    case ResidualForm::ParallelSharedNorm: {
      Value normed = norm(x, n.attentionNorm);
      Value attended = attention(normed);
      return add(add(x, attended), mlp(normed));
    }
    }
    return x;
  }

private:
  struct Heads {
    Value query, key, value; // [B, S, H or G, D]
  };

  Value norm(Value x, const std::string &module) { return w.norm(x, m.norm, m.epsilon, module); }

  Value mlp(Value x) { return feedForward(w, m, n, x); }

  Value add(Value x, Value y) {
    w.at("", "residual");
    return w.markDropout(emit.add(x, y), m.dropsResidual);
  }

  Value project(Value x, int64_t heads, const std::string &module) {
    return w.linear(x, 1, {heads, m.headSize}, module, m.layout, m.queryKeyValueBias);
  }

  /// Returns one of the three parts of a stacked projection [B, S, 3, H, D].
  Value stacked(Value all, int64_t at) {
    Shape shape = ir::shapeOf(all);
    return emit.reshape(w.slice(all, 2, at, at + 1), {shape[0], shape[1], m.heads, m.headSize});
  }

  /// Returns the members [from, to) of each group in a projection [B, S, G, H / G + 2, D]; without the dimension G if
  /// it is 1.
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
    case ProjectionForm::Latent:
      return latentHeads(x);
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

  /// Computes queries, keys and values from latent vectors. The last elements of each head are rotated; all heads share
  /// the rotated elements of the keys.
  Heads latentHeads(Value x) {
    constexpr double kEpsilon =
        1e-6; // epsilon of the latent norms, which is not that of the configuration (modeling_deepseek_v2.py)
    auto latentNorm = [&](Value latent, const std::string &module) { return w.norm(latent, m.norm, kEpsilon, module); };
    const int64_t turning = int64_t(m.rotaryFrequencies.size()) * 2, still = m.headSize - turning;
    Value from = x;
    if (m.queryRank)
      from = latentNorm(w.linear(x, 1, {m.queryRank}, n.queryLatent, m.layout, m.queryKeyValueBias), n.queryNorm);
    Value query = w.linear(from, 1, {m.heads, m.headSize}, n.query, m.layout, /*hasBias=*/false);
    Value latents =
        w.linear(x, 1, {m.keyValueRank + turning}, n.keyValueLatent, m.layout, m.queryKeyValueBias); // [B, S, .]
    Value latent = latentNorm(w.slice(latents, 2, 0, m.keyValueRank), n.keyNorm);
    Value made = w.linear(latent, 1, {m.heads, still + m.valueSize}, n.key, m.layout, /*hasBias=*/false);
    w.at(n.attention, "rotary");
    auto [first, second] = turned(w.slice(query, 3, still, m.headSize));
    Value wholeQuery = w.concatenate({w.slice(query, 3, 0, still), first, second}, 3);
    auto [keyFirst, keySecond] = turned(w.slice(latents, 2, m.keyValueRank, m.keyValueRank + turning));
    Shape shape = ir::shapeOf(query);
    shape[3] = turning;
    Value ofAll = emit.broadcast(w.concatenate({keyFirst, keySecond}, 2), shape, {0, 1, 3});
    Value wholeKey = w.concatenate({w.slice(made, 3, 0, still), ofAll}, 3);
    return {wholeQuery, wholeKey, w.slice(made, 3, still, still + m.valueSize)};
  }

  /// Rotates adjacent pairs (a, b) to (a cos - b sin, b cos + a sin). Returns all first elements, then all second
  /// elements; the order does not matter, as it is the same for queries and keys.
  std::pair<Value, Value> turned(Value x) {
    const int64_t last = int64_t(ir::shapeOf(x).size()) - 1, count = ir::shapeOf(x)[last];
    Value a = m.rotaryPairs ? w.slice(x, last, 0, count, 2) : w.slice(x, last, 0, count / 2);
    Value b = m.rotaryPairs ? w.slice(x, last, 1, count, 2) : w.slice(x, last, count / 2, count);
    auto table = [&](Value values) {
      return emit.broadcast(w.slice(values, 1, 0, count / 2), ir::shapeOf(a), {1, last});
    };
    Value cosine = table(shared.cosine), sine = table(shared.sine);
    Value first = emit.subtract(emit.multiply(a, cosine), emit.multiply(b, sine));
    return {first, emit.add(emit.multiply(b, cosine), emit.multiply(a, sine))};
  }

  /// Rotates pairs in two halves: x cos + turned(x) sin, where turned(x) is the negated second half followed by the
  /// first half.
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

  Value headNorm(Value x, const std::string &module) {
    if (m.queryKeyNorm == HeadNorm::EachHead)
      return norm(x, module);
    Shape shape = ir::shapeOf(x);
    return emit.reshape(norm(emit.reshape(x, {shape[0], shape[1], shape[2] * shape[3]}), module), shape);
  }

  Value attention(Value x) {
    Heads h = heads(x);
    if (m.queryKeyNorm != HeadNorm::None) {
      h.query = headNorm(h.query, n.queryNorm);
      h.key = headNorm(h.key, n.keyNorm);
    }
    w.at(n.attention, "rotary");
    if (m.position == PositionKind::Rotary && m.projection != ProjectionForm::Latent) {
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

  double scale() const { return m.scoreScale * (m.scaledAttention ? 1 / std::sqrt(double(m.headSize)) : 1); }

  Value fusedAttention(const Heads &h, Value mask) {
    Shape shape = ir::shapeOf(h.query);
    mlir::UnitAttr causal = m.objective == TrainingObjective::CausalLm ? w.opBuilder().getUnitAttr() : mlir::UnitAttr();
    llvm::SmallVector<mlir::Type> types = {w.type({shape[0], shape[1], shape[2], m.valueSize}),
                                           w.type({shape[0], shape[2], shape[1]})};
    Value attended = ir::AttentionOp::create(w.opBuilder(), w.location(), types, h.query, h.key, h.value, mask,
                                             w.opBuilder().getF64FloatAttr(scale()), causal, nullptr)
                         .getResult();
    return w.markDropout(attended, m.dropsAttention);
  }

  /// Computes attention with a trained bias by single operators, because the attention operator has no gradient for a
  /// bias.
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

  FunctionWriter &w;
  const TransformerModel &m;
  const ModuleNames &n;
  ir::Emitter &emit;
  SharedValues shared;
};

} // namespace

llvm::SmallVector<Value> presentValues(const SharedValues &s) {
  llvm::SmallVector<Value> values = {s.cosine, s.sine, s.mask, s.bias, s.memory, s.memoryMask};
  llvm::erase(values, Value());
  return values;
}

void writeLayer(FunctionWriter &writer, const TransformerModel &model, const ModuleNames &names, Value stream,
                const SharedValues &shared) {
  Value x = writer.layerInput(stream);
  writer.finish(LayerWriter(writer, model, names, shared).residual(x));
}

} // namespace kerf::frontend
