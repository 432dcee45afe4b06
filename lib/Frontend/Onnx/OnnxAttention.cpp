// SPDX-License-Identifier: Apache-2.0
// Attention: the composite operator of the dialect if it covers the node, and a formula of single operators otherwise.
#include "Common/Formula.h"

#include <cmath>
#include <limits>

namespace kerf::frontend {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Returns query, key or value in the shape [batch, heads, sequence, width].
Result<Term> attentionOperand(OnnxNode &node, int input, const char *headsAttribute) {
  const Term &x = node.input(input);
  KERF_CHECK(checkFloat(x));
  if (x.rank() == 4)
    return x;
  int64_t heads = node.integer(headsAttribute, 0);
  if (x.rank() != 3 || heads < 1 || x.shape[2] % heads != 0)
    return Error{fmt::format("operand {} of shape {} does not fit {} heads", input, shapeText(x.shape), heads)};
  KERF_TRY(apart, node.b.reshape(x, {x.shape[0], x.shape[1], heads, x.shape[2] / heads}));
  return node.b.transpose(apart, {0, 2, 1, 3});
}

struct Operands3 {
  Term query, key, value;
  int64_t past = 0; // number of cached keys before the first query
};

/// Returns query, key and value with the cached keys and values before the new ones.
Result<Operands3> attentionOperands(OnnxNode &node) {
  KERF_TRY(query, attentionOperand(node, 0, "q_num_heads"));
  KERF_TRY(key, attentionOperand(node, 1, "kv_num_heads"));
  KERF_TRY(value, attentionOperand(node, 2, "kv_num_heads"));
  Operands3 from{query, key, value};
  if (node.hasInput(4) != node.hasInput(5))
    return Error{"past keys and past values must be given together"};
  if (node.hasInput(4)) {
    from.past = node.input(4).rank() == 4 ? node.input(4).shape[2] : 0;
    KERF_TRY(keys, node.b.concatenate({node.input(4), key}, 2));
    KERF_TRY(values, node.b.concatenate({node.input(5), value}, 2));
    from.key = keys;
    from.value = values;
  }
  const Shape &q = from.query.shape, &k = from.key.shape, &v = from.value.shape;
  if (k[0] != q[0] || v[0] != q[0] || v[1] != k[1] || v[2] != k[2] || k[3] != q[3] || k[1] == 0 || q[1] % k[1] != 0)
    return Error{fmt::format("query, key and value have the shapes {}, {} and {}, which do not fit together",
                             shapeText(q), shapeText(k), shapeText(v))};
  return from;
}

struct AttentionMask {
  mlir::Value mask; // null: none
  bool causal = false;
};

Result<AttentionMask> attentionMask(OnnxNode &node, const Shape &scores) {
  AttentionMask result;
  result.causal = node.integer("is_causal", 0) != 0;
  if (!node.hasInput(3))
    return result;
  const Term &mask = node.input(3);
  KERF_TRY(fits, broadcastShapes(mask.shape, scores));
  if (fits != scores || (mask.dtype != DType::Bool && !isFloat(mask.dtype)))
    return Error{fmt::format("a mask of type {} and shape {} does not fit scores of shape {}", toString(mask.dtype),
                             shapeText(mask.shape), shapeText(scores))};
  if (mask.isConstant()) {
    if (allElementsEqual(*mask.literal, mask.dtype == DType::Bool ? 1 : 0))
      return result;
    std::optional<CausalMask> found = findCausalMask(*mask.literal);
    if (found && found->size == scores[2] && found->size == scores[3]) {
      result.causal = true;
      return result;
    }
  }
  // Batch and heads keep size 1 if the mask is equal for all of them.
  Term given = mask;
  if (mask.isConstant()) {
    Literal one = compress(*mask.literal);
    given = node.b.fromLiteral(Literal{one.stored, one.stored.shape}, mask.name);
  }
  Shape shape = given.shape;
  shape.insert(shape.begin(), 4 - shape.size(), 1);
  shape[2] = scores[2];
  shape[3] = scores[3];
  result.mask = node.b.emitAs(given, shape);
  return result;
}

/// Returns whether the composite operator covers the node, which needs a node without cache, window, score cap and
/// output of scores.
bool isPlain(OnnxNode &node, const Operands3 &from) {
  bool isCausal = node.integer("is_causal", 0) != 0;
  bool hasWindow = node.integer("left_window_size", -1) >= 0 || node.integer("right_window_size", -1) >= 0;
  bool maskIsShort = node.hasInput(3) && (node.input(3).rank() == 0 || node.input(3).shape.back() != from.key.shape[2]);
  return !hasWindow && !maskIsShort && !node.hasInput(4) && !node.hasInput(6) && !node.isOutputUsed(1) &&
         !node.isOutputUsed(2) && !node.isOutputUsed(3) && node.number("softcap", 0) == 0 &&
         (!isCausal || from.query.shape[2] == from.key.shape[2]);
}

Status setResult(OnnxNode &node, Formula &f, const Term &result) { // [batch, heads, sequence, width]
  if (node.input(0).rank() == 4)
    return f.set(node, 0, result);
  const Shape shape = result.shape;
  return f.set(node, 0, f.reshape(f.transpose(result, {0, 2, 1, 3}), {shape[0], shape[2], shape[1] * shape[3]}));
}

Status plainAttention(OnnxNode &node, const Operands3 &from, double scale) {
  TermBuilder &b = node.b;
  Formula f(b, from.query.dtype);
  Term query = f.transpose(from.query, {0, 2, 1, 3}), key = f.transpose(from.key, {0, 2, 1, 3}),
       value = f.transpose(from.value, {0, 2, 1, 3});
  const Shape &q = query.shape, &v = value.shape;
  KERF_TRY(mask, attentionMask(node, {q[0], q[2], q[1], v[1]}));
  mlir::UnitAttr causal = mask.causal ? b.builder.getUnitAttr() : mlir::UnitAttr();
  mlir::Value queries = b.emit(query), keys = b.emit(key), values = b.emit(value);
  auto op = ir::AttentionOp::create(
      b.builder, b.loc,
      mlir::TypeRange{b.type(query.dtype, {q[0], q[1], q[2], v[3]}), b.type(query.dtype, {q[0], q[2], q[1]})}, queries,
      keys, values, mask.mask, b.builder.getF64FloatAttr(scale), causal, nullptr);
  return setResult(node, f, f.transpose(b.fromValue(op.getResult()), {0, 2, 1, 3}));
}

/// Returns the bias that is added to the scores: 0, -infinity for hidden keys, or the values of a mask. Returns nothing
/// if there is no bias.
std::optional<Term> biasOf(OnnxNode &node, Formula &f, const Operands3 &from) {
  int64_t queries = from.query.shape[2], keys = from.key.shape[2];
  std::optional<Term> bias;
  auto hide = [&](const Term &isSeen) {
    Term hidden = f.select(isSeen, f.number(0), f.number(-kInfinity));
    bias = bias ? f.add(*bias, hidden) : hidden;
  };
  if (node.hasInput(3)) {
    Term mask = node.input(3);
    bool isBool = mask.dtype == DType::Bool;
    if (mask.rank() > 0 && mask.shape.back() < keys && mask.shape.back() > 1) { // keys beyond the mask are hidden
      Shape none(mask.rank(), 0), behind(mask.rank(), 0);
      behind.back() = keys - mask.shape.back();
      mask = f.pad(mask, isBool ? node.b.integer(DType::Bool, 0) : f.number(-kInfinity), none, behind);
    }
    if (isBool)
      hide(mask);
    else
      bias = mask;
  }
  Term at = f.iota(keys, 3, 4),
       place = f.iota(queries, 2, 4); // positions of the keys, and of each query among the keys
  auto whole = [&](int64_t value) { return node.b.integer(DType::I64, value); };
  if (node.hasInput(6)) {
    Term count = f.reshape(f.convert(node.input(6), DType::I64), {from.query.shape[0], 1, 1, 1});
    place = f.add(place, f.subtract(count, whole(queries)));
    hide(f.compare(Order::Less, at, count));
  } else {
    place = f.add(place, whole(from.past));
  }
  if (node.integer("is_causal", 0))
    hide(f.compare(Order::LessOrEqual, at, place));
  if (int64_t left = node.integer("left_window_size", -1); left >= 0)
    hide(f.compare(Order::LessOrEqual, f.subtract(place, at), whole(left)));
  if (int64_t right = node.integer("right_window_size", -1); right >= 0)
    hide(f.compare(Order::LessOrEqual, f.subtract(at, place), whole(right)));
  return bias;
}

/// Computes softmax(cap(query key^T scale) + bias) value. A query without visible keys gives zeros.
Status formulaOfAttention(OnnxNode &node, const Operands3 &from, double scale) {
  TermBuilder &b = node.b;
  Formula f(b, from.query.dtype);
  auto forEachHead = [&](const Term &x) { // repeats a key/value head for the query heads that share it
    int64_t heads = from.query.shape[1], own = x.shape[1], length = x.shape[2], width = x.shape[3];
    Term apart = f.reshape(x, {x.shape[0], own, 1, length, width});
    return f.reshape(f.broadcast(apart, {x.shape[0], own, heads / own, length, width}),
                     {x.shape[0], heads, length, width});
  };
  Term keys = forEachHead(from.key), values = forEachHead(from.value);
  Term scores = f.unwrap(b.dot(from.query, {{0, 1}, {3}}, keys, {{0, 1}, {3}}));
  scores = f.multiply(scores, f.number(scale));
  Term seen[] = {scores, scores, scores, scores}; // value of the fourth output, by qk_matmul_output_mode
  if (double cap = node.number("softcap", 0); cap > 0)
    scores = f.multiply(f.unary(Unary::Tanh, f.divide(scores, f.number(cap))), f.number(cap));
  seen[1] = scores;
  std::optional<Term> bias = biasOf(node, f, from);
  Term isBlind; // queries without visible keys
  if (bias) {
    if (f.fault)
      return *f.fault;
    KERF_TRY(fits, broadcastShapes(bias->shape, scores.shape));
    if (fits != scores.shape || bias->dtype != scores.dtype)
      return Error{fmt::format("a mask of type {} and shape {} does not fit scores of shape {}",
                               toString(node.input(3).dtype), shapeText(node.input(3).shape), shapeText(scores.shape))};
    Shape rows = bias->shape;
    rows.back() = 1;
    Term most = f.reshape(f.reduce(Reduction::Maximum, *bias, {bias->rank() - 1}), rows);
    isBlind = f.compare(Order::Equal, most, f.number(-kInfinity));
    seen[2] = f.add(scores, *bias);
    scores = f.add(scores, f.select(isBlind, f.number(0), *bias));
  }
  if (f.fault)
    return *f.fault;
  KERF_TRY(operand, emitFloat(b, scores, scores.shape));
  Term shares =
      b.fromValue(ir::SoftmaxOp::create(b.builder, b.loc, operand.getType(), operand, b.builder.getI64IntegerAttr(3)));
  if (bias)
    shares = f.select(isBlind, f.number(0), shares);
  seen[3] = shares;
  KERF_CHECK(setResult(node, f, f.unwrap(b.dot(shares, {{0, 1}, {3}}, values, {{0, 1}, {2}}))));
  if (node.isOutputUsed(1))
    KERF_CHECK(node.set(1, from.key));
  if (node.isOutputUsed(2))
    KERF_CHECK(node.set(2, from.value));
  int64_t mode = node.integer("qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3)
    return Error{fmt::format("qk_matmul_output_mode is {}, but only 0 to 3 are defined", mode)};
  return node.isOutputUsed(3) ? f.set(node, 3, seen[mode]) : ok();
}

} // namespace

Status importAttention(OnnxNode &node) {
  KERF_TRY(from, attentionOperands(node));
  double scale = node.has("scale") ? node.number("scale", 0) : 1 / std::sqrt(double(from.query.shape[3]));
  return isPlain(node, from) ? plainAttention(node, from, scale) : formulaOfAttention(node, from, scale);
}

/// Imports rotary position embeddings: rotates pairs of elements, which are the halves of a head or neighbours, by the
/// angles of their position.
Status importRotaryEmbedding(OnnxNode &node) {
  const Term &x = node.input(0);
  KERF_CHECK(checkFloat(x));
  Formula f(node.b, x.dtype);
  int64_t heads = node.integer("num_heads", 0);
  if (x.rank() != 4 && (x.rank() != 3 || heads < 1 || x.shape[2] % heads != 0))
    return Error{fmt::format("an operand of shape {} does not fit {} heads", shapeText(x.shape), heads)};
  Term whole = x.rank() == 4 ? f.transpose(x, {0, 2, 1, 3}) // [batch, sequence, heads, width]
                             : f.reshape(x, {x.shape[0], x.shape[1], heads, x.shape[2] / heads});
  Shape shape = whole.shape;
  int64_t width = node.integer("rotary_embedding_dim", 0), half;
  width = width ? width : shape[3];
  half = width / 2;
  if (width < 2 || width % 2 != 0 || width > shape[3])
    return Error{fmt::format(
        "{} of {} elements of a head are to be rotated; an even number up to the size of the head is needed", width,
        shape[3])};
  auto angles = [&](int input) { // [batch or 1, sequence, 1, half]
    Term cache = node.input(input);
    if (node.hasInput(3))
      cache = f.unwrap(node.b.gather(cache, node.input(3), 0));
    if (cache.rank() != 3 || cache.shape[1] != shape[1] || cache.shape[2] != half)
      return f.unwrap(Error{fmt::format("operand {} of shape {} does not fit {} positions and {} angles", input,
                                        shapeText(node.input(input).shape), shape[1], half)});
    return f.reshape(cache, {cache.shape[0], shape[1], 1, half});
  };
  Term cosine = angles(1), sine = angles(2);
  if (f.fault)
    return *f.fault;
  bool areNeighbours = node.integer("interleaved", 0) != 0;
  Term turned = f.slice(whole, 3, 0, width), rest = f.slice(whole, 3, width, shape[3]);
  Shape pairs = shape; // the dimension of the pair, after the width (neighbours) or before it (halves)
  pairs[3] = areNeighbours ? half : 2;
  pairs.push_back(areNeighbours ? 2 : half);
  int64_t which = areNeighbours ? 4 : 3;
  turned = f.reshape(turned, pairs);
  Shape single{shape[0], shape[1], shape[2], half};
  Term first = f.reshape(f.slice(turned, which, 0, 1), single),
       second = f.reshape(f.slice(turned, which, 1, 2), single);
  Term real = f.subtract(f.multiply(cosine, first), f.multiply(sine, second)),
       imaginary = f.add(f.multiply(sine, first), f.multiply(cosine, second));
  Shape apart = pairs;
  apart[size_t(which)] = 1;
  Term both = f.concatenate({f.reshape(real, apart), f.reshape(imaginary, apart)}, which);
  single[3] = width;
  Term result = f.concatenate({f.reshape(both, single), rest}, 3);
  return f.set(node, 0, x.rank() == 4 ? f.transpose(result, {0, 2, 1, 3}) : f.reshape(result, x.shape));
}

} // namespace kerf::frontend
