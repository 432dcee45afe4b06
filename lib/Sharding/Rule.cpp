// SPDX-License-Identifier: Apache-2.0
// Shardings that follow from a rule and a strategy, the enumeration of strategies, and rules that many ops share.
#include "kerf/Sharding/Rule.h"
#include "kerf/Sharding/Strategies.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>
#include <set>

namespace kerf {

namespace {

/// The effect of a strategy on each factor: the axes that cut it, and the number of its values that one rank keeps.
struct CutFactors {
  std::vector<std::vector<AxisRef>> axes;
  std::vector<int64_t> localSize;
};

} // namespace

static bool contains(const FactorMap &map, int factor) {
  return std::any_of(map.begin(), map.end(), [&](const std::vector<int> &dim) {
    return std::find(dim.begin(), dim.end(), factor) != dim.end();
  });
}

static bool inAnyOperand(const Rule &rule, int factor) {
  return std::any_of(rule.operands.begin(), rule.operands.end(),
                     [&](const FactorMap &map) { return contains(map, factor); });
}

static std::optional<CutFactors> cutFactors(const Rule &rule, const Mesh &mesh, const Strategy &strategy) {
  if (strategy.factorOfAxis.size() != mesh.axes.size())
    return std::nullopt;
  CutFactors cut;
  cut.axes.resize(rule.factors.size());
  cut.localSize.reserve(rule.factors.size());
  for (size_t a = 0; a < mesh.axes.size(); ++a) {
    const int f = strategy.factorOfAxis[a];
    if (f < -1 || f >= static_cast<int>(rule.factors.size()))
      return std::nullopt;
    if (f < 0 || mesh.axes[a].size == 1)
      continue;
    const Factor &factor = rule.factors[f];
    if (factor.kind == FactorKind::Replicated || (factor.kind != FactorKind::PartialSum && factor.size < 1))
      return std::nullopt;
    cut.axes[f].push_back(wholeAxis(mesh, static_cast<int>(a)));
  }
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    const int64_t size = rule.factors[f].size;
    cut.localSize.push_back(cut.axes[f].empty() ? size : defaultChunk(size, cut.axes[f]));
  }
  return cut;
}

/// Returns the sharding of one dimension, or nothing if the strategy is impossible. Position p must hold [p*chunk,
/// (p+1)*chunk). Below a more significant factor with several elements, a cut minor factor therefore requires that the
/// more significant factors are cut down to one element and that the minor factor divides evenly.
static std::optional<DimSharding> cutDim(const Rule &rule, const CutFactors &cut, const std::vector<int> &dim) {
  DimSharding result;
  int64_t chunk = 1, majorSize = 1, majorLocal = 1;
  for (int f : dim) {
    const std::vector<AxisRef> &axes = cut.axes[f];
    const int64_t size = rule.factors[f].size, local = cut.localSize[f];
    const bool divides = shardCount(axes) * local == size;
    if (!axes.empty() && (majorLocal > 1 || (majorSize > 1 && !divides)))
      return std::nullopt;
    result.axes.insert(result.axes.end(), axes.begin(), axes.end());
    majorSize *= size;
    majorLocal *= local;
    chunk *= local;
  }
  result.chunk = result.axes.empty() ? 0 : chunk;
  return result;
}

static std::optional<Sharding> cutTensor(const Rule &rule, const CutFactors &cut, const FactorMap &map) {
  Sharding sharding;
  sharding.dims.reserve(map.size());
  for (const std::vector<int> &dim : map) {
    std::optional<DimSharding> one = cutDim(rule, cut, dim);
    if (!one)
      return std::nullopt;
    sharding.dims.push_back(std::move(*one));
  }
  return sharding;
}

/// Makes `sharding` partial over `axes` as well. Returns false if it is already partial with another reduction.
static bool addPartial(Sharding &sharding, const std::vector<AxisRef> &axes, ReduceKind kind) {
  if (!sharding.partial.empty() && sharding.partialKind != kind)
    return false;
  sharding.partial.insert(sharding.partial.end(), axes.begin(), axes.end());
  std::sort(sharding.partial.begin(), sharding.partial.end());
  sharding.partialKind = kind;
  return true;
}

static bool addPartials(const Rule &rule, const CutFactors &cut, OpSharding &op) {
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    const Factor &factor = rule.factors[f];
    const int index = static_cast<int>(f);
    if (cut.axes[f].empty())
      continue;
    if (factor.kind == FactorKind::PartialSum) {
      for (int o : factor.partialOperands)
        if (!addPartial(op.operands[o], cut.axes[f], ReduceKind::Sum))
          return false;
      for (int r : factor.partialResults)
        if (!addPartial(op.results[r], cut.axes[f], ReduceKind::Sum))
          return false;
    }
    if (factor.kind != FactorKind::Cuttable || !inAnyOperand(rule, index))
      continue;
    for (size_t r = 0; r < rule.results.size(); ++r)
      if (!contains(rule.results[r], index) && !addPartial(op.results[r], cut.axes[f], factor.reduction))
        return false;
  }
  return true;
}

std::optional<OpSharding> project(const Rule &rule, const Mesh &mesh, const Strategy &strategy) {
  const std::optional<CutFactors> cut = cutFactors(rule, mesh, strategy);
  if (!cut)
    return std::nullopt;
  OpSharding op;
  op.operands.reserve(rule.operands.size());
  op.results.reserve(rule.results.size());
  for (const FactorMap &map : rule.operands) {
    std::optional<Sharding> sharding = cutTensor(rule, *cut, map);
    if (!sharding)
      return std::nullopt;
    op.operands.push_back(std::move(*sharding));
  }
  for (const FactorMap &map : rule.results) {
    std::optional<Sharding> sharding = cutTensor(rule, *cut, map);
    if (!sharding)
      return std::nullopt;
    op.results.push_back(std::move(*sharding));
  }
  if (!addPartials(rule, *cut, op))
    return std::nullopt;
  return op;
}

/// Assigns the mesh axes from `axis` on to factors in all combinations that cut no factor into more shards than it has
/// elements, and appends them to `found`. `project` may reject some of them.
static void enumerateFrom(const Rule &rule, const Mesh &mesh, size_t axis, std::vector<int64_t> &roomOfFactor,
                          Strategy &strategy, std::vector<Strategy> &found) {
  if (axis == mesh.axes.size()) {
    found.push_back(strategy);
    return;
  }
  strategy.factorOfAxis[axis] = -1;
  enumerateFrom(rule, mesh, axis + 1, roomOfFactor, strategy, found);
  const int64_t size = mesh.axes[axis].size;
  if (size == 1)
    return;
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    const Factor &factor = rule.factors[f];
    const bool isSum = factor.kind == FactorKind::PartialSum;
    // room = number of shards into which the factor can still be cut with one element in each:
    // floor(floor(s/a)/b) = floor(s/(a*b)).
    if (factor.kind == FactorKind::Replicated || (!isSum && roomOfFactor[f] < size))
      continue;
    const int64_t room = roomOfFactor[f];
    roomOfFactor[f] = room / size;
    strategy.factorOfAxis[axis] = static_cast<int>(f);
    enumerateFrom(rule, mesh, axis + 1, roomOfFactor, strategy, found);
    roomOfFactor[f] = room;
  }
  strategy.factorOfAxis[axis] = -1;
}

static std::vector<Strategy> assignments(const Rule &rule, const Mesh &mesh) {
  std::vector<int64_t> roomOfFactor;
  for (const Factor &factor : rule.factors)
    roomOfFactor.push_back(factor.size);
  Strategy strategy{std::vector<int>(mesh.axes.size(), -1)};
  std::vector<Strategy> found;
  enumerateFrom(rule, mesh, 0, roomOfFactor, strategy, found);
  return found;
}

/// Returns everything of a rule but the names of its factors.
static std::vector<int64_t> numbersOf(const Rule &rule) {
  std::vector<int64_t> numbers;
  auto add = [&](const std::vector<int> &list) {
    numbers.push_back(static_cast<int64_t>(list.size()));
    numbers.insert(numbers.end(), list.begin(), list.end());
  };
  for (const Factor &factor : rule.factors) {
    numbers.insert(numbers.end(),
                   {factor.size, static_cast<int64_t>(factor.kind), static_cast<int64_t>(factor.reduction)});
    add(factor.partialOperands);
    add(factor.partialResults);
  }
  for (const std::vector<FactorMap> *maps : {&rule.operands, &rule.results}) {
    numbers.push_back(-1); // ends the list before; no size or count is negative
    for (const FactorMap &map : *maps) {
      numbers.push_back(static_cast<int64_t>(map.size()));
      for (const std::vector<int> &dim : map)
        add(dim);
    }
  }
  return numbers;
}

RuleStrategies::RuleStrategies(Rule rule, const Mesh &mesh, std::vector<Strategy> strategies)
    : rule(std::move(rule)), mesh(mesh), strategies(std::move(strategies)), shardings(this->strategies.size()) {}

const OpSharding *RuleStrategies::sharding(size_t i) {
  if (!shardings[i])
    shardings[i] = project(rule, mesh, strategies[i]);
  return *shardings[i] ? &**shardings[i] : nullptr;
}

RuleStrategies &StrategiesOnMesh::of(const Rule &rule) {
  std::vector<int64_t> numbers = numbersOf(rule);
  auto found = known.find(numbers);
  if (found == known.end())
    found = known.try_emplace(std::move(numbers), rule, mesh, assignments(rule, mesh)).first;
  return found->second;
}

std::vector<Strategy> enumerateStrategies(const Rule &rule, const Mesh &mesh) {
  std::vector<Strategy> strategies = assignments(rule, mesh);
  std::erase_if(strategies, [&](const Strategy &strategy) { return !project(rule, mesh, strategy); });
  return strategies;
}

static std::string toString(const Rule &rule, const std::vector<int> &dim) {
  std::string text;
  for (int f : dim) {
    const std::string &name = rule.factors[f].name;
    // One-letter names are joined without a sign, as in "ij"; longer names are joined by "*".
    text += (text.empty() || name.size() == 1 ? "" : "*") + name;
  }
  return text.empty() ? "1" : text;
}

static std::string toString(const Rule &rule, const std::vector<FactorMap> &maps) {
  std::string text;
  for (const FactorMap &map : maps) {
    std::string dims;
    for (const std::vector<int> &dim : map)
      dims += (dims.empty() ? "" : ", ") + toString(rule, dim);
    text += fmt::format("{}[{}]", text.empty() ? "" : ", ", dims);
  }
  return "(" + text + ")";
}

static bool hasCompoundDim(const Rule &rule) {
  auto isCompound = [](const FactorMap &map) {
    return std::any_of(map.begin(), map.end(), [](const std::vector<int> &dim) { return dim.size() > 1; });
  };
  return std::any_of(rule.operands.begin(), rule.operands.end(), isCompound) ||
         std::any_of(rule.results.begin(), rule.results.end(), isCompound);
}

/// Returns the note about factor `f` in a printed rule, such as "reduction(sum)", or "" if the
/// dimensions say everything.
static std::string describe(const Rule &rule, int f) {
  const Factor &factor = rule.factors[f];
  switch (factor.kind) {
  case FactorKind::Cuttable: {
    const bool isReduced =
        inAnyOperand(rule, f) &&
        std::any_of(rule.results.begin(), rule.results.end(), [&](const FactorMap &map) { return !contains(map, f); });
    return isReduced ? fmt::format("reduction({})", toString(factor.reduction)) : "";
  }
  case FactorKind::Decomposed:
    return "decomposed";
  case FactorKind::Replicated:
    return "replicated";
  case FactorKind::PartialSum:
    return fmt::format("partial({}) -> ({})", fmt::join(factor.partialOperands, ", "),
                       fmt::join(factor.partialResults, ", "));
  }
  return "";
}

std::string toString(const Rule &rule) {
  std::string notes;
  const bool showSizes = hasCompoundDim(rule);
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    const Factor &factor = rule.factors[f];
    std::string note = factor.name;
    if (showSizes && factor.kind != FactorKind::PartialSum)
      note += fmt::format("={}", factor.size);
    if (const std::string text = describe(rule, static_cast<int>(f)); !text.empty())
      note += ": " + text;
    if (note != factor.name)
      notes += (notes.empty() ? "  " : ", ") + note;
  }
  return toString(rule, rule.operands) + " -> " + toString(rule, rule.results) + notes;
}

static Status checkMap(const Rule &rule, const FactorMap &map, const Shape &shape, std::string_view what,
                       size_t index) {
  if (map.size() != shape.size())
    return Error{
        fmt::format("sharding rule: {} {} has {} dimensions in the rule, {} in the op; both need the same number", what,
                    index, map.size(), shape.size())};
  std::set<int> seen;
  for (size_t d = 0; d < map.size(); ++d) {
    int64_t product = 1;
    for (int f : map[d]) {
      if (f < 0 || f >= static_cast<int>(rule.factors.size()))
        return Error{fmt::format("sharding rule: {} {} dimension {} names factor {} of {}; number them from 0", what,
                                 index, d, f, rule.factors.size())};
      if (rule.factors[f].kind == FactorKind::PartialSum)
        return Error{fmt::format("sharding rule: {} {} dimension {} holds {}, a partial sum, which has no index; only "
                                 "other factors may cut dimensions",
                                 what, index, d, rule.factors[f].name)};
      if (!seen.insert(f).second)
        return Error{fmt::format(
            "sharding rule: {} {} holds factor {} twice, again in dimension {}; a factor may occur once in a tensor",
            what, index, rule.factors[f].name, d)};
      product *= rule.factors[f].size;
    }
    if (product != shape[d])
      return Error{fmt::format("sharding rule: {} {} dimension {} has size {}, its factors {} give {}; they must agree",
                               what, index, d, shape[d], toString(rule, map[d]), product)};
  }
  return ok();
}

static Status checkIndices(const Factor &factor, const std::vector<int> &indices, size_t count, std::string_view what) {
  for (int i : indices)
    if (i < 0 || i >= static_cast<int>(count))
      return Error{fmt::format("sharding rule: partial sum {} names {} {} of {}; number them from 0", factor.name, what,
                               i, count)};
  return ok();
}

Status checkRule(const Rule &rule, std::span<const Shape> operandShapes, std::span<const Shape> resultShapes) {
  if (rule.operands.size() != operandShapes.size())
    return Error{fmt::format("sharding rule: {} operands in the rule, {} in the op; both need the same number",
                             rule.operands.size(), operandShapes.size())};
  if (rule.results.size() != resultShapes.size())
    return Error{fmt::format("sharding rule: {} results in the rule, {} in the op; both need the same number",
                             rule.results.size(), resultShapes.size())};
  for (const Factor &factor : rule.factors) {
    if (factor.size < 0)
      return Error{fmt::format("sharding rule: factor {} has size {}; must be 0 or more", factor.name, factor.size)};
    if (Status status = checkIndices(factor, factor.partialOperands, operandShapes.size(), "operand"); !status)
      return status;
    if (Status status = checkIndices(factor, factor.partialResults, resultShapes.size(), "result"); !status)
      return status;
  }
  for (size_t o = 0; o < operandShapes.size(); ++o)
    if (Status status = checkMap(rule, rule.operands[o], operandShapes[o], "operand", o); !status)
      return status;
  for (size_t r = 0; r < resultShapes.size(); ++r)
    if (Status status = checkMap(rule, rule.results[r], resultShapes[r], "result", r); !status)
      return status;
  return ok();
}

/// Returns the name of the f-th factor: i, j, k, ..., z, then f18, f19, ...
static std::string indexName(size_t i) {
  return i < 'z' - 'i' + 1 ? std::string(1, static_cast<char>('i' + i)) : fmt::format("f{}", i);
}

static int addFactor(Rule &rule, int64_t size, FactorKind kind) {
  Factor factor;
  factor.name = indexName(rule.factors.size());
  factor.size = size;
  factor.kind = kind;
  rule.factors.push_back(std::move(factor));
  return static_cast<int>(rule.factors.size()) - 1;
}

static void addPartialSum(Rule &rule, std::vector<int> operands, std::vector<int> results) {
  Factor factor;
  const auto count = std::count_if(rule.factors.begin(), rule.factors.end(),
                                   [](const Factor &f) { return f.kind == FactorKind::PartialSum; });
  factor.name = fmt::format("sum{}", count);
  factor.size = 0;
  factor.kind = FactorKind::PartialSum;
  factor.partialOperands = std::move(operands);
  factor.partialResults = std::move(results);
  rule.factors.push_back(std::move(factor));
}

Rule elementwiseRule(const Shape &shape, int numOperands, int numResults,
                     const std::vector<std::vector<int>> &linearOperandSets) {
  Rule rule;
  FactorMap map;
  for (int64_t size : shape)
    map.push_back({addFactor(rule, size, FactorKind::Cuttable)});
  rule.operands.assign(numOperands, map);
  rule.results.assign(numResults, map);
  std::vector<int> allResults(numResults);
  std::iota(allResults.begin(), allResults.end(), 0);
  for (const std::vector<int> &operands : linearOperandSets)
    addPartialSum(rule, operands, allResults);
  return rule;
}

namespace {

/// A walk over one of the two shapes from its most significant dimension: the current dimension, and the part of its
/// size that has no factor yet.
struct ShapeWalk {
  const Shape &shape;
  FactorMap map;
  size_t dim = 0;
  int64_t rest = 1;

  explicit ShapeWalk(const Shape &shape) : shape(shape), map(shape.size()) { open(); }
  void open() {
    while (dim < shape.size() && shape[dim] == 1)
      ++dim;
    rest = dim < shape.size() ? shape[dim] : 1;
  }
  bool done() const { return dim >= shape.size(); }
  void take(int factor, int64_t size) {
    map[dim].push_back(factor);
    rest /= size;
    if (rest == 1) {
      ++dim;
      open();
    }
  }
  /// Makes the rest of the current dimension a Replicated factor of its own, and returns its size.
  int64_t closeReplicated(Rule &rule) {
    const int64_t size = rest;
    take(addFactor(rule, size, FactorKind::Replicated), size);
    return size;
  }
};

} // namespace

Rule reshapeRule(const Shape &from, const Shape &to) {
  Rule rule;
  ShapeWalk a(from), b(to);
  const bool isEmpty = std::count(from.begin(), from.end(), 0) + std::count(to.begin(), to.end(), 0) > 0;
  while (!isEmpty && !a.done() && !b.done()) {
    if (const int64_t common = std::gcd(a.rest, b.rest); common > 1) {
      const int f = addFactor(rule, common, FactorKind::Cuttable);
      a.take(f, common);
      b.take(f, common);
      continue;
    }
    // There is no common boundary until both walks have covered the same number of elements.
    int64_t walkedA = a.closeReplicated(rule), walkedB = b.closeReplicated(rule);
    while (walkedA != walkedB && !(a.done() && b.done())) {
      if (b.done() || (walkedA < walkedB && !a.done()))
        walkedA *= a.closeReplicated(rule);
      else
        walkedB *= b.closeReplicated(rule);
    }
  }
  // Dimensions remain if a tensor is empty or if the shapes have different numbers of elements
  // (which checkRule reports).
  for (ShapeWalk *walk : {&a, &b}) {
    for (; walk->dim < walk->shape.size(); ++walk->dim)
      if (walk->shape[walk->dim] != 1)
        walk->map[walk->dim].push_back(addFactor(rule, walk->shape[walk->dim], FactorKind::Replicated));
  }
  rule.operands = {a.map};
  rule.results = {b.map};
  return rule;
}

} // namespace kerf
