// SPDX-License-Identifier: Apache-2.0
// Imports scatter operators, which write elements at given positions of a tensor. With constant positions, the result
// is a lookup in the tensor with the new elements appended, and elements for one position are combined one after the
// other. With computed positions, the new elements are summed for each position.
#include "Common/Formula.h"

#include <map>

namespace kerf::frontend {

namespace {

/// A scatter in a normal form: `rows` [rows, slice] are written into `table` [places, slice].
struct Scatter {
  Term table, rows;
  Term places; // position in the table for each row [rows]
  std::string reduction;
};

Result<Term> combined(TermBuilder &b, const std::string &reduction, const Term &old, const Term &added) {
  if (reduction == "add")
    return b.binary(Binary::Add, old, added);
  if (reduction == "mul")
    return b.binary(Binary::Multiply, old, added);
  return b.binary(reduction == "max" ? Binary::Maximum : Binary::Minimum, old, added);
}

/// Returns `table` with the rows `from` at the positions `at`, which must be different.
Term replaced(Formula &f, const Term &table, const Term &rows, const std::vector<int64_t> &at) {
  std::vector<int64_t> from(size_t(table.shape[0]));
  std::iota(from.begin(), from.end(), 0);
  for (size_t i = 0; i < at.size(); ++i)
    from[size_t(at[i])] = table.shape[0] + int64_t(i);
  return f.unwrap(f.b.gather(f.concatenate({table, rows}, 0), f.b.fromLiteral(indexLiteral(from)), 0));
}

Term rowsAt(Formula &f, const Term &table, const std::vector<int64_t> &at) {
  return f.unwrap(f.b.gather(table, f.b.fromLiteral(indexLiteral(at)), 0));
}

Result<Term> scatterAtConstants(TermBuilder &b, const Scatter &s) {
  KERF_TRY(places, integersOf(*s.places.literal));
  constexpr int64_t kMost = 1 << 26; // limit of rows, whose sources are listed
  int64_t count = s.table.shape[0];
  if (count > kMost)
    return Error{fmt::format("constant indices into {} positions are not supported; at most {} are", count, kMost)};
  // Round r has the positions that occur for the r-th time.
  std::vector<std::pair<std::vector<int64_t>, std::vector<int64_t>>> rounds; // places, rows
  std::map<int64_t, size_t> named;
  for (size_t i = 0; i < places.size(); ++i) {
    if (places[i] < 0 || places[i] >= count)
      return Error{fmt::format("position {} is outside of the {} positions of the tensor", places[i], count)};
    size_t round = s.reduction == "none" ? 0 : named[places[i]]++;
    if (round >= rounds.size())
      rounds.resize(round + 1);
    rounds[round].first.push_back(places[i]);
    rounds[round].second.push_back(int64_t(i));
  }
  Formula f(b, s.table.dtype);
  Term table = s.table;
  for (const auto &[at, from] : rounds) {
    Term rows = rowsAt(f, s.rows, from);
    if (s.reduction != "none")
      rows = f.unwrap(combined(b, s.reduction, rowsAt(f, table, at), rows));
    table = replaced(f, table, rows, at);
  }
  if (f.fault)
    return *f.fault;
  return table;
}

/// Scatters to computed positions: sums the rows for each position, and computes whether a position gets any row.
Result<Term> scatterAtComputed(TermBuilder &b, const Scatter &s) {
  if (s.reduction != "none" && s.reduction != "add")
    return Error{fmt::format("the reduction '{}' at computed indices is not supported; supported are 'none' and 'add'",
                             s.reduction)};
  KERF_CHECK(checkFloat(s.rows));
  Formula f(b, s.table.dtype);
  mlir::Value places = b.emit(s.places);
  auto sums = [&](const Term &rows) {
    mlir::Value given = b.emit(rows);
    Shape shape = rows.shape;
    shape[0] = s.table.shape[0];
    return b.fromValue(ir::ScatterAddOp::create(b.builder, b.loc, b.type(rows.dtype, shape), places, given,
                                                b.builder.getI64IntegerAttr(0)));
  };
  Term added = sums(s.rows);
  if (s.reduction == "add")
    return b.binary(Binary::Add, s.table, added);
  Term counts = sums(f.broadcast(f.number(1), {s.rows.shape[0], 1}));
  Term result = f.select(f.compare(Order::Greater, counts, f.number(0)), added, s.table);
  if (f.fault)
    return *f.fault;
  return result;
}

Status setScattered(OnnxNode &node, Formula &f, const Scatter &s) {
  if (f.fault)
    return *f.fault;
  for (const char *known : {"none", "add", "mul", "max", "min"})
    if (s.reduction == known) {
      KERF_TRY(table, s.places.isConstant() ? scatterAtConstants(node.b, s) : scatterAtComputed(node.b, s));
      return node.set(0, node.b.reshape(table, node.input(0).shape));
    }
  return Error{fmt::format("the reduction '{}' is not supported", s.reduction)};
}

/// Returns `index`, with negative values counted from the end.
Term inside(Formula &f, const Term &index, int64_t size) {
  auto whole = [&](int64_t value) { return f.b.integer(DType::I64, value); };
  return f.select(f.compare(Order::Less, index, whole(0)), f.add(index, whole(size)), index);
}

/// Fails when a constant index is out of range; computed indices are checked at run time.
Status checkInside(const Term &indices, int64_t size) {
  if (!indices.isConstant())
    return ok();
  KERF_TRY(values, integersOf(*indices.literal));
  for (int64_t value : values)
    if (value < -size || value >= size)
      return Error{fmt::format("index {} is outside of a dimension of size {}", value, size)};
  return ok();
}

} // namespace

/// Imports ScatterND: writes slices at index tuples.
Status importScatterNd(OnnxNode &node) {
  const Term &x = node.input(0), &indices = node.input(1), &updates = node.input(2);
  int64_t depth = indices.rank() ? indices.shape.back() : 0;
  if (indices.dtype != DType::I64 || depth < 1 || depth > x.rank() || updates.dtype != x.dtype)
    return Error{fmt::format("indices {} {} and updates {} {} do not fit data {} {}", toString(indices.dtype),
                             shapeText(indices.shape), toString(updates.dtype), shapeText(updates.shape),
                             toString(x.dtype), shapeText(x.shape))};
  Shape tuples(indices.shape.begin(), indices.shape.end() - 1), slice(x.shape.begin() + depth, x.shape.end());
  Shape expected = tuples;
  expected.insert(expected.end(), slice.begin(), slice.end());
  if (updates.shape != expected)
    return Error{
        fmt::format("updates have the shape {}, but {} is needed", shapeText(updates.shape), shapeText(expected))};
  int64_t rows = elementsOf(tuples), places = elementsOf(Shape(x.shape.begin(), x.shape.begin() + depth)),
          step = places, width = elementsOf(slice);
  Formula f(node.b, x.dtype);
  Term flat = f.reshape(indices, {rows, depth}), place = f.broadcast(node.b.integer(DType::I64, 0), {rows});
  for (int64_t d = 0; d < depth; ++d) {
    step /= std::max<int64_t>(x.shape[d], 1);
    Term index = f.reshape(f.slice(flat, 1, d, d + 1), {rows});
    KERF_CHECK(checkInside(index, x.shape[d]));
    place = f.add(place, f.multiply(inside(f, index, x.shape[d]), node.b.integer(DType::I64, step)));
  }
  return setScattered(
      node, f,
      {f.reshape(x, {places, width}), f.reshape(updates, {rows, width}), place, node.text("reduction", "none")});
}

/// Imports ScatterElements: element [i.., indices[i.., j, k..], k..] gets updates[i.., j, k..].
Status importScatterElements(OnnxNode &node) {
  const Term &x = node.input(0), &indices = node.input(1), &updates = node.input(2);
  KERF_TRY(axis, normalizeAxis(node.integer("axis", 0), x.rank()));
  bool fits = indices.rank() == x.rank() && updates.shape == indices.shape && updates.dtype == x.dtype &&
              (indices.dtype == DType::I64 || indices.dtype == DType::I32);
  for (int64_t d = 0; d < x.rank() && fits; ++d)
    fits = d == axis || indices.shape[d] <= x.shape[d];
  if (!fits)
    return Error{fmt::format("indices {} {} and updates {} {} do not fit data {} {}", toString(indices.dtype),
                             shapeText(indices.shape), toString(updates.dtype), shapeText(updates.shape),
                             toString(x.dtype), shapeText(x.shape))};
  KERF_CHECK(checkInside(indices, x.shape[axis]));
  Formula f(node.b, x.dtype);
  int64_t step = elementsOf(x.shape), rows = elementsOf(indices.shape);
  Term place = f.broadcast(node.b.integer(DType::I64, 0), indices.shape);
  for (int64_t d = 0; d < x.rank(); ++d) {
    step /= std::max<int64_t>(x.shape[d], 1);
    Term index =
        d == axis ? inside(f, f.convert(indices, DType::I64), x.shape[d]) : f.iota(indices.shape[d], d, x.rank());
    place = f.add(place, f.multiply(index, node.b.integer(DType::I64, step)));
  }
  return setScattered(node, f,
                      {f.reshape(x, {elementsOf(x.shape), 1}), f.reshape(updates, {rows, 1}), f.reshape(place, {rows}),
                       node.text("reduction", "none")});
}

} // namespace kerf::frontend
