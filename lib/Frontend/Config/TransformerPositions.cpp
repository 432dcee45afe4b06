// SPDX-License-Identifier: Apache-2.0
// Writes position embeddings and masks, which @main computes once from token indices and every layer uses.
#include "Config/TransformerLayer.h"

#include <cmath>
#include <limits>

namespace kerf::frontend {

using mlir::Value;

/// Returns the numbers 0, 1, ..., sequence - 1 in floating point.
static Value positions(FunctionWriter &w, int64_t sequence) {
  Value indices = w.emitter().iota({sequence}, w.opBuilder().getI64Type(), 0);
  return w.emitter().convert(indices, w.type({}).getElementType());
}

void addRotaryTables(FunctionWriter &w, const TransformerModel &m, int64_t sequence, SharedValues &shared) {
  ir::Emitter &emit = w.emitter();
  w.at("rotary", "angles");
  Shape shape = {sequence, int64_t(m.rotaryFrequencies.size())};
  Value at = emit.broadcast(positions(w, sequence), shape, {0});
  Value frequencies = emit.broadcast(w.constant(m.rotaryFrequencies), shape, {1});
  Value half = emit.multiply(at, frequencies);
  Value angles = w.concatenate({half, half}, 1);
  auto scaled = [&](Value table) {
    return m.rotaryScale == 1 ? table : emit.multiply(table, emit.splat(m.rotaryScale, table));
  };
  shared.cosine = scaled(ir::CosineOp::create(w.opBuilder(), w.location(), angles.getType(), angles));
  shared.sine = scaled(ir::SineOp::create(w.opBuilder(), w.location(), angles.getType(), angles));
}

/// Returns the slopes of ALiBi (Press, Smith and Lewis, Train Short, Test Long, 2022): head h adds slope_h times the
/// position of the key. If the number of heads is not a power of two, slopes of the next power of two are added.
Value alibiBias(FunctionWriter &w, const TransformerModel &m, int64_t sequence) {
  ir::Emitter &emit = w.emitter();
  int64_t power = int64_t(1) << int64_t(std::log2(double(m.heads)));
  std::vector<double> slopes;
  for (int64_t h = 0; h < m.heads; ++h)
    slopes.push_back(h < power ? std::pow(2.0, -8.0 * double(h + 1) / double(power))
                               : std::pow(2.0, -4.0 * double(2 * (h - power) + 1) / double(power)));
  w.at("alibi", "bias");
  Shape shape = {m.heads, sequence};
  Value slope = emit.broadcast(w.constant(slopes), shape, {0});
  Value at = emit.broadcast(positions(w, sequence), shape, {1});
  return emit.broadcast(emit.multiply(slope, at), {1, m.heads, sequence, sequence}, {1, 3});
}

/// Returns the index of the key minus the index of the query [S, S].
static Value distances(FunctionWriter &w, int64_t sequence) {
  ir::Emitter &emit = w.emitter();
  mlir::Type index = w.opBuilder().getI64Type();
  Value query = emit.iota({sequence, sequence}, index, 0), key = emit.iota({sequence, sequence}, index, 1);
  return emit.subtract(key, query);
}

Value windowMask(FunctionWriter &w, int64_t window, int64_t sequence) {
  ir::Emitter &emit = w.emitter();
  w.at("window", "mask");
  Value distance = distances(w, sequence);
  Value sees = emit.compare(distance, emit.splat(-window, distance), ir::Comparison::GT);
  return emit.broadcast(sees, {1, 1, sequence, sequence}, {2, 3});
}

Value paddingMask(FunctionWriter &w, Value mask) {
  ir::Emitter &emit = w.emitter();
  w.at("padding", "mask");
  Shape shape = ir::shapeOf(mask);
  Value kept = emit.compare(mask, emit.splat(int64_t(0), mask), ir::Comparison::NE);
  return emit.broadcast(kept, {shape[0], 1, shape[1], shape[1]}, {0, 3});
}

/// Returns the least distance of each bucket but the first, as in T5 (Raffel et al. 2020). Distances below half of the
/// buckets have a bucket each, longer distances share buckets of exponentially growing size, and distances from
/// `farthest` on share the last bucket. The bucket of distance d is the number of returned values up to d.
static std::vector<int64_t> bucketStarts(int64_t buckets, int64_t farthest) {
  int64_t exact = buckets / 2;
  std::vector<int64_t> starts;
  auto bucket = [&](int64_t distance) { // computed in float32 as in Transformers
    if (distance < exact)
      return distance;
    float power = std::log(float(distance) / float(exact)) / float(std::log(double(farthest) / double(exact)));
    return std::min(exact + int64_t(power * float(buckets - exact)), buckets - 1);
  };
  for (int64_t d = 1; d <= farthest; ++d)
    while (int64_t(starts.size()) < bucket(d))
      starts.push_back(d);
  return starts;
}

Value relativeBias(FunctionWriter &w, const TransformerModel &m, const std::string &module, int64_t sequence,
                   VisibleKeys visible) {
  ir::Emitter &emit = w.emitter();
  mlir::OpBuilder &b = w.opBuilder();
  bool both = visible == VisibleKeys::All;
  int64_t each = both ? m.buckets / 2 : m.buckets, longest = sequence - 1, offsets = 2 * longest + 1;
  w.at(module, "bucket");
  // The bucket of each offset -longest, ..., longest of a key relative to its query.
  Value offset = emit.iota({offsets}, b.getI64Type(), 0);
  offset = emit.subtract(offset, emit.splat(longest, offset));
  Value zero = emit.splat(int64_t(0), offset);
  Value back = ir::NegateOp::create(b, w.location(), offset.getType(), offset);
  Value distance = emit.maximum(back, both ? offset : zero);
  std::vector<int64_t> starts = bucketStarts(each, m.farthest);
  auto vector = mlir::RankedTensorType::get({int64_t(starts.size())}, b.getI64Type());
  Value start = ir::ConstantOp::create(b, w.location(), vector,
                                       mlir::DenseElementsAttr::get(vector, llvm::ArrayRef<int64_t>(starts)));
  Shape grid = {offsets, int64_t(starts.size())};
  Value reached =
      emit.compare(emit.broadcast(distance, grid, {0}), emit.broadcast(start, grid, {1}), ir::Comparison::GE);
  Value bucket = emit.sum(emit.convert(reached, b.getI64Type()), {1});
  if (both) { // keys after the query have a second set of buckets
    Value later = emit.convert(emit.compare(offset, zero, ir::Comparison::GT), b.getI64Type());
    bucket = emit.add(bucket, emit.multiply(later, emit.splat(each, later)));
  }
  w.at(module, "embedding");
  Value table = w.parameter(module + ".weight", {m.buckets, m.heads});
  Value rows = ir::EmbeddingOp::create(b, w.location(), w.type({offsets, m.heads}), table, bucket, Value(),
                                       b.getI64IntegerAttr(m.buckets));
  Value pairs = distances(w, sequence);
  Value place = emit.add(pairs, emit.splat(longest, pairs));
  Value bias = ir::EmbeddingOp::create(b, w.location(), w.type({sequence, sequence, m.heads}), rows, place, Value(),
                                       b.getI64IntegerAttr(offsets));
  bias = emit.transpose(bias, {2, 0, 1});
  if (both)
    return bias;
  Value sees = emit.compare(pairs, emit.splat(int64_t(0), pairs), ir::Comparison::LE);
  sees = emit.broadcast(sees, ir::shapeOf(bias), {1, 2});
  return emit.select(sees, bias, emit.splat(kHiddenScore, bias));
}

} // namespace kerf::frontend
