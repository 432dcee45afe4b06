// SPDX-License-Identifier: Apache-2.0
#include "Interpreter.h"
#include "kerf/Dialect/Kerf/TakeAlong.h"

#include "llvm/ADT/StringSwitch.h"
#include <cmath>
#include <functional>

using namespace mlir;

namespace kerf::ir::test {

namespace {

/// Calls `visit` with every index of `shape`, in row-major order.
void forEach(const Shape &shape, const std::function<void(const Shape &)> &visit) {
  Shape index(shape.size(), 0);
  int64_t elements = 1;
  for (int64_t size : shape)
    elements *= size;
  for (int64_t e = 0; e < elements; ++e) {
    int64_t rest = e;
    for (size_t d = shape.size(); d-- > 0; rest /= shape[d])
      index[d] = rest % shape[d];
    visit(index);
  }
}

int64_t flat(const Shape &shape, const Shape &index) {
  int64_t position = 0;
  for (size_t d = 0; d < shape.size(); ++d)
    position = position * shape[d] + index[d];
  return position;
}

using Unary = double (*)(double);
using Binary = double (*)(double, double);

Unary unaryOf(StringRef name) {
  return llvm::StringSwitch<Unary>(name)
      .Case("kerf.negate", [](double x) { return -x; })
      .Case("kerf.abs", [](double x) { return std::abs(x); })
      .Case("kerf.sign", [](double x) { return static_cast<double>((x > 0) - (x < 0)); })
      .Case("kerf.stop_gradient", [](double x) { return x; })
      .Case("kerf.floor", [](double x) { return std::floor(x); })
      .Case("kerf.ceil", [](double x) { return std::ceil(x); })
      .Case("kerf.round_nearest_even", [](double x) { return std::nearbyint(x); })
      .Case("kerf.exponential", [](double x) { return std::exp(x); })
      .Case("kerf.log", [](double x) { return std::log(x); })
      .Case("kerf.sqrt", [](double x) { return std::sqrt(x); })
      .Case("kerf.rsqrt", [](double x) { return 1 / std::sqrt(x); })
      .Case("kerf.tanh", [](double x) { return std::tanh(x); })
      .Case("kerf.logistic", [](double x) { return 1 / (1 + std::exp(-x)); })
      .Case("kerf.erf", [](double x) { return std::erf(x); })
      .Case("kerf.sine", [](double x) { return std::sin(x); })
      .Case("kerf.cosine", [](double x) { return std::cos(x); })
      .Case("kerf.atan", [](double x) { return std::atan(x); })
      .Case("kerf.convert", [](double x) { return x; }) // from i1 and between floats
      .Default(nullptr);
}

Binary binaryOf(StringRef name) {
  return llvm::StringSwitch<Binary>(name)
      .Case("kerf.add", [](double x, double y) { return x + y; })
      .Case("kerf.subtract", [](double x, double y) { return x - y; })
      .Case("kerf.multiply", [](double x, double y) { return x * y; })
      .Case("kerf.divide", [](double x, double y) { return x / y; })
      .Case("kerf.maximum", [](double x, double y) { return std::max(x, y); })
      .Case("kerf.minimum", [](double x, double y) { return std::min(x, y); })
      .Case("kerf.power", [](double x, double y) { return std::pow(x, y); })
      .Case("kerf.and", [](double x, double y) { return static_cast<double>(x != 0 && y != 0); }) // of i1
      .Default(nullptr);
}

double compare(Comparison direction, double x, double y) {
  switch (direction) {
  case Comparison::EQ:
    return x == y;
  case Comparison::NE:
    return x != y;
  case Comparison::LT:
    return x < y;
  case Comparison::LE:
    return x <= y;
  case Comparison::GT:
    return x > y;
  case Comparison::GE:
    return x >= y;
  }
  return 0;
}

/// Returns, for ops that only move elements, the function from a result's index to the operand's index that it reads.
std::optional<std::function<Shape(const Shape &)>> sourceOf(Operation *op) {
  if (auto broadcast = dyn_cast<BroadcastInDimOp>(op))
    return [broadcast](const Shape &index) mutable {
      Shape source;
      for (auto [d, dim] : llvm::enumerate(broadcast.getBroadcastDimensions()))
        source.push_back(shapeOf(broadcast.getOperand())[d] == 1 ? 0 : index[dim]);
      return source;
    };
  if (auto transpose = dyn_cast<TransposeOp>(op))
    return [transpose](const Shape &index) mutable {
      Shape source(index.size());
      for (auto [d, dim] : llvm::enumerate(transpose.getPermutation()))
        source[dim] = index[d];
      return source;
    };
  if (auto slice = dyn_cast<SliceOp>(op))
    return [slice](const Shape &index) mutable {
      Shape source;
      for (size_t d = 0; d < index.size(); ++d)
        source.push_back(slice.getStart()[d] + index[d] * slice.getStrides()[d]);
      return source;
    };
  return std::nullopt;
}

Numbers contract(DotGeneralOp op, const Numbers &lhs, const Numbers &rhs) {
  // The product runs over every pair of indices that agree in the dimensions that meet.
  Shape left = shapeOf(op.getLhs()), right = shapeOf(op.getRhs()), out = shapeOf(op.getResult());
  Numbers result(op.getType().getNumElements(), 0.0);
  ArrayRef<int64_t> lhsContracting = op.getLhsContracting(), rhsContracting = op.getRhsContracting();
  ArrayRef<int64_t> lhsBatching = op.getLhsBatching(), rhsBatching = op.getRhsBatching();
  forEach(left, [&](const Shape &i) {
    forEach(right, [&](const Shape &j) {
      for (size_t c = 0; c < lhsContracting.size(); ++c)
        if (i[lhsContracting[c]] != j[rhsContracting[c]])
          return;
      Shape index;
      for (size_t b = 0; b < lhsBatching.size(); ++b) {
        if (i[lhsBatching[b]] != j[rhsBatching[b]])
          return;
        index.push_back(i[lhsBatching[b]]);
      }
      auto appendFree = [&](const Shape &own, ArrayRef<int64_t> batching, ArrayRef<int64_t> contracting) {
        for (int64_t d = 0, rank = own.size(); d < rank; ++d)
          if (!llvm::is_contained(batching, d) && !llvm::is_contained(contracting, d))
            index.push_back(own[d]);
      };
      appendFree(i, lhsBatching, lhsContracting);
      appendFree(j, rhsBatching, rhsContracting);
      result[flat(out, index)] += lhs[flat(left, i)] * rhs[flat(right, j)];
    });
  });
  return result;
}

Numbers reduce(ReduceOp op, const Numbers &operand) {
  Shape from = shapeOf(op.getOperand()), to = shapeOf(op.getResult());
  Numbers result(op.getType().getNumElements(), op.getKind() == ReduceKindIR::sum   ? 0.0
                                                : op.getKind() == ReduceKindIR::max ? -INFINITY
                                                                                    : INFINITY);
  forEach(from, [&](const Shape &i) {
    Shape index;
    for (int64_t d = 0, rank = i.size(); d < rank; ++d)
      if (!llvm::is_contained(op.getDimensions(), d))
        index.push_back(i[d]);
    double &into = result[flat(to, index)], value = operand[flat(from, i)];
    into = op.getKind() == ReduceKindIR::sum   ? into + value
           : op.getKind() == ReduceKindIR::max ? std::max(into, value)
                                               : std::min(into, value);
  });
  return result;
}

/// Calls visit(index in the table, index in the slices) for every element that a lookup along `axis` touches.
void forEachLookup(const Shape &table, const Shape &indexShape, const Shape &slices, const Numbers &indices,
                   int64_t axis, const std::function<void(int64_t, int64_t)> &visit) {
  forEach(slices, [&](const Shape &i) {
    Shape lookup(i.begin() + axis, i.begin() + axis + indexShape.size()), source(i.begin(), i.begin() + axis);
    auto row = static_cast<int64_t>(indices[flat(indexShape, lookup)]);
    source.push_back(row < 0 ? row + table[axis] : row);
    source.insert(source.end(), i.begin() + axis + indexShape.size(), i.end());
    visit(flat(table, source), flat(slices, i));
  });
}

/// Does the same where each batch entry, of `batchDims` dimensions, has its own indices for the dimension after them.
void forEachTaken(const Shape &table, const Shape &indexShape, const Shape &slices, const Numbers &indices,
                  int64_t batchDims, const std::function<void(int64_t, int64_t)> &visit) {
  forEach(slices, [&](const Shape &i) {
    Shape lookup(i.begin(), i.begin() + indexShape.size()), source(i.begin(), i.begin() + batchDims);
    auto row = static_cast<int64_t>(indices[flat(indexShape, lookup)]);
    source.push_back(row < 0 ? row + table[batchDims] : row);
    source.insert(source.end(), i.begin() + indexShape.size(), i.end());
    visit(flat(table, source), flat(slices, i));
  });
}

/// Calls visit(b, s, j, e, slot) for every choice that gets one of the `slots` of its expert in its row of the batch.
void forEachCopy(const Shape &choices, const Numbers &indices, int64_t slots,
                 const std::function<void(int64_t, int64_t, int64_t, int64_t, int64_t)> &visit) {
  forEach(choices, [&](const Shape &i) {
    auto expert = static_cast<int64_t>(indices[flat(choices, i)]);
    int64_t slot = 0;
    forEach(choices, [&](const Shape &other) {
      slot += other[0] == i[0] && other < i && indices[flat(choices, other)] == static_cast<double>(expert);
    });
    if (slot < slots)
      visit(i[0], i[1], i[2], expert, slot);
  });
}

/// Picks repeatedly the first of the largest remaining scores.
void topK(const Numbers &scores, int64_t size, int64_t count, Numbers &values, Numbers &indices) {
  for (size_t row = 0; row * size < scores.size(); ++row) {
    Numbers left(scores.begin() + row * size, scores.begin() + (row + 1) * size);
    for (int64_t j = 0; j < count; ++j) {
      auto largest = std::max_element(left.begin(), left.end());
      values[row * count + j] = *largest;
      indices[row * count + j] = static_cast<double>(largest - left.begin());
      *largest = -INFINITY;
    }
  }
}

/// Calls visit(w, t, s) for every element w of a window, position t and element s that meet within bounds.
template <typename Op>
void forEachMeeting(Op op, const Shape &window, const Shape &places, const Shape &size,
                    const std::function<void(const Shape &, const Shape &, const Shape &)> &visit) {
  forEach(places, [&](const Shape &t) {
    forEach(window, [&](const Shape &w) {
      Shape s(size.size());
      for (size_t d = 0; d < size.size(); ++d) {
        s[d] = t[d] * op.getStrides()[d] + w[d] * op.getDilations()[d] - op.getLow()[d];
        if (s[d] < 0 || s[d] >= size[d])
          return;
      }
      visit(w, t, s);
    });
  });
}

Shape behindChannels(const Shape &shape) { return Shape(shape.begin() + 2, shape.end()); }

Shape indexOf(int64_t first, int64_t second, const Shape &rest) {
  Shape index{first, second};
  index.insert(index.end(), rest.begin(), rest.end());
  return index;
}

/// Calls visit(index in the operand, in the kernel, in the result) for every product of a convolution of these shapes.
template <typename Op>
void forEachProduct(Op op, const Shape &x, const Shape &k, const Shape &y,
                    const std::function<void(int64_t, int64_t, int64_t)> &visit) {
  int64_t groupOutputs = y[1] / (x[1] / k[1]);
  forEachMeeting(
      op, behindChannels(k), behindChannels(y), behindChannels(x), [&](const Shape &w, const Shape &t, const Shape &s) {
        forEach({x[0], y[1], k[1]}, [&](const Shape &i) {
          int64_t channel = i[1] / groupOutputs * k[1] + i[2];
          visit(flat(x, indexOf(i[0], channel, s)), flat(k, indexOf(i[1], i[2], w)), flat(y, indexOf(i[0], i[1], t)));
        });
      });
}

} // namespace

bool interpret(Operation *op, Values &values) {
  StringRef name = op->getName().getStringRef();
  Shape shape = shapeOf(op->getResult(0));
  Numbers result(tensorType(op->getResult(0)).getNumElements());
  auto operand = [&](unsigned i) -> const Numbers & { return values[op->getOperand(i)]; };
  if (auto constant = dyn_cast<ConstantOp>(op)) {
    size_t e = 0;
    for (APFloat value : cast<DenseElementsAttr>(constant.getValue()).getValues<APFloat>())
      result[e++] = value.convertToDouble();
  } else if (auto narrow = dyn_cast<ReducePrecisionOp>(op)) {
    llvm::transform(operand(0), result.begin(), [&](double x) {
      auto exponent = x == 0 ? 0 : std::max<int64_t>(std::ilogb(x), narrow.getMinExponent());
      double unit = std::ldexp(1.0, static_cast<int>(exponent - narrow.getMantissaBits()));
      return std::nearbyint(x / unit) * unit;
    });
  } else if (Unary function = unaryOf(name)) {
    llvm::transform(operand(0), result.begin(), function);
  } else if (Binary function = binaryOf(name)) {
    for (size_t e = 0; e < result.size(); ++e)
      result[e] = function(operand(0)[e], operand(1)[e]);
  } else if (auto comparison = dyn_cast<CompareOp>(op)) {
    for (size_t e = 0; e < result.size(); ++e)
      result[e] = compare(comparison.getDirection(), operand(0)[e], operand(1)[e]);
  } else if (isa<SelectOp>(op)) {
    for (size_t e = 0; e < result.size(); ++e)
      result[e] = operand(0)[e] != 0 ? operand(1)[e] : operand(2)[e];
  } else if (isa<ReshapeOp>(op)) {
    result = operand(0);
  } else if (auto source = sourceOf(op)) {
    forEach(shape, [&](const Shape &i) {
      result[flat(shape, i)] = operand(0)[flat(shapeOf(op->getOperand(0)), (*source)(i))];
    });
  } else if (auto pad = dyn_cast<PadOp>(op)) {
    result.assign(result.size(), operand(1)[0]);
    Shape from = shapeOf(pad.getOperand());
    forEach(from, [&](const Shape &i) {
      Shape index;
      for (size_t d = 0; d < i.size(); ++d)
        index.push_back(pad.getLow()[d] + i[d] * (pad.getInterior()[d] + 1));
      result[flat(shape, index)] = operand(0)[flat(from, i)];
    });
  } else if (auto concatenate = dyn_cast<ConcatenateOp>(op)) {
    int64_t begin = 0, dimension = concatenate.getDimension();
    for (unsigned o = 0; o < op->getNumOperands(); ++o) {
      Shape from = shapeOf(op->getOperand(o));
      forEach(from, [&](const Shape &i) {
        Shape index = i;
        index[dimension] += begin;
        result[flat(shape, index)] = operand(o)[flat(from, i)];
      });
      begin += from[dimension];
    }
  } else if (auto dot = dyn_cast<DotGeneralOp>(op)) {
    result = contract(dot, operand(0), operand(1));
  } else if (auto reduction = dyn_cast<ReduceOp>(op)) {
    result = reduce(reduction, operand(0));
  } else if (auto gather = dyn_cast<GatherOp>(op)) {
    forEachLookup(shapeOf(gather.getOperand()), shapeOf(gather.getIndices()), shape, operand(1), gather.getAxis(),
                  [&](int64_t table, int64_t slice) { result[slice] = operand(0)[table]; });
  } else if (auto scatter = dyn_cast<ScatterAddOp>(op)) {
    forEachLookup(shape, shapeOf(scatter.getIndices()), shapeOf(scatter.getUpdates()), operand(0), scatter.getAxis(),
                  [&](int64_t table, int64_t slice) { result[table] += operand(1)[slice]; });
  } else if (auto take = dyn_cast<TakeAlongOp>(op)) {
    forEachTaken(shapeOf(take.getOperand()), shapeOf(take.getIndices()), shape, operand(1), take.getBatchDims(),
                 [&](int64_t table, int64_t slice) { result[slice] = operand(0)[table]; });
  } else if (auto put = dyn_cast<TakeAlongBackwardOp>(op)) {
    forEachTaken(shape, shapeOf(put.getIndices()), shapeOf(put.getGradient()), operand(0), put.getBatchDims(),
                 [&](int64_t table, int64_t slice) { result[table] += operand(1)[slice]; });
  } else if (isa<TopKOp>(op)) {
    Numbers indices(result.size());
    topK(operand(0), shapeOf(op->getOperand(0)).back(), shape.back(), result, indices);
    values[op->getResult(1)] = indices;
  } else if (isa<TopKBackwardOp>(op)) {
    int64_t count = shapeOf(op->getOperand(0)).back();
    for (size_t i = 0; i < operand(0).size(); ++i)
      result[i / count * shape.back() + static_cast<int64_t>(operand(0)[i])] += operand(1)[i];
  } else if (isa<DispatchOp, CombineOp, CombineBackwardOp>(op)) {
    Shape slots = isa<DispatchOp>(op) ? shape : shapeOf(op->getOperand(0)), choices = shapeOf(op->getOperand(1));
    forEachCopy(choices, operand(1), slots[2], [&](int64_t b, int64_t s, int64_t j, int64_t e, int64_t slot) {
      int64_t choice = flat(choices, {b, s, j});
      for (int64_t d = 0; d < slots[3]; ++d) {
        int64_t token = (b * choices[1] + s) * slots[3] + d, place = flat(slots, {e, b, slot, d});
        if (isa<DispatchOp>(op))
          result[place] = operand(2)[choice] * operand(0)[token];
        else if (isa<CombineOp>(op))
          result[token] += operand(2)[choice] * operand(0)[place];
        else
          result[choice] += operand(0)[place] * operand(2)[token];
      }
    });
  } else if (auto convolution = dyn_cast<ConvolutionOp>(op)) {
    forEachProduct(convolution, shapeOf(op->getOperand(0)), shapeOf(op->getOperand(1)), shape,
                   [&](int64_t x, int64_t k, int64_t y) { result[y] += operand(0)[x] * operand(1)[k]; });
  } else if (auto transpose = dyn_cast<ConvolutionTransposeOp>(op)) {
    forEachProduct(transpose, shape, shapeOf(op->getOperand(1)), shapeOf(op->getOperand(0)),
                   [&](int64_t x, int64_t k, int64_t y) { result[x] += operand(0)[y] * operand(1)[k]; });
  } else if (auto kernel = dyn_cast<ConvolutionKernelOp>(op)) {
    forEachProduct(kernel, shapeOf(op->getOperand(0)), shape, shapeOf(op->getOperand(1)),
                   [&](int64_t x, int64_t k, int64_t y) { result[k] += operand(0)[x] * operand(1)[y]; });
  } else if (auto pool = dyn_cast<ReduceWindowOp>(op)) {
    Shape from = shapeOf(pool.getOperand()), window(pool.getWindow().begin(), pool.getWindow().end());
    bool isSum = pool.getKind() == ReduceKindIR::sum, isMax = pool.getKind() == ReduceKindIR::max;
    result.assign(result.size(), isSum ? 0 : isMax ? -INFINITY : INFINITY);
    forEachMeeting(pool, window, shape, from, [&](const Shape &, const Shape &t, const Shape &s) {
      double &into = result[flat(shape, t)], value = operand(0)[flat(from, s)];
      into = isSum ? into + value : isMax ? std::max(into, value) : std::min(into, value);
    });
  } else if (auto select = dyn_cast<SelectAndScatterOp>(op)) {
    Shape places = shapeOf(select.getGradient()), window(select.getWindow().begin(), select.getWindow().end());
    std::vector<int64_t> chosen(operand(1).size(), -1);
    forEachMeeting(select, window, places, shape, [&](const Shape &, const Shape &t, const Shape &s) {
      int64_t &best = chosen[flat(places, t)], at = flat(shape, s);
      bool isMax = select.getKind() == ReduceKindIR::max;
      if (best < 0 || (isMax ? operand(0)[at] > operand(0)[best] : operand(0)[at] < operand(0)[best]))
        best = at;
    });
    for (size_t t = 0; t < chosen.size(); ++t)
      if (chosen[t] >= 0)
        result[chosen[t]] += operand(1)[t];
  } else {
    return false;
  }
  values[op->getResult(0)] = result;
  return true;
}

} // namespace kerf::ir::test
