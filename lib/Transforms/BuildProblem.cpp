// SPDX-License-Identifier: Apache-2.0
// Conversion of IR to a placement problem. kerf/Transforms/Placement.h describes its nodes and edges.
#include "kerf/Transforms/Placement.h"

#include "BatchFactors.h"
#include "Timeline.h"
#include "kerf/Package/Package.h"
#include "kerf/Sharding/Strategies.h"
#include "kerf/Support/Glob.h"
#include "kerf/Transforms/OpKeys.h"
#include "kerf/Transforms/ReshardSeconds.h"
#include "kerf/Transforms/Work.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <map>

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

namespace {

/// The number of tensors of the operand's size that a decomposed composite needs at once, counted in the decompositions
/// of lib/Dialect/Kerf.
constexpr int64_t kDecomposedBuffers = 3;
constexpr double kNever = std::numeric_limits<double>::infinity();

/// The node and result index that a value comes from.
struct Source {
  int node = -1;
  int result = 0;
};

bool leavesPartial(const Rule &rule, const Strategy &strategy) {
  return llvm::any_of(strategy.factorOfAxis,
                      [&](int factor) { return factor >= 0 && rule.factors[factor].kind == FactorKind::PartialSum; });
}

constexpr double kMostSeconds = 1e9;
constexpr int kCostBits = 49;        // bits of the sum of the largest costs, for which sums in the solver are exact
constexpr int kFinestExponent = -40; // of the cost unit: about a picosecond, a thousandth of the fastest op

double largestOf(const std::vector<double> &seconds) {
  double largest = 0;
  for (double value : seconds)
    if (value <= kMostSeconds)
      largest = std::max(largest, value);
  return largest;
}

std::vector<Cost> costsOf(const std::vector<double> &seconds, double secondsPerCost) {
  std::vector<Cost> costs;
  costs.reserve(seconds.size());
  for (double value : seconds)
    costs.push_back(value <= kMostSeconds ? std::llround(value / secondsPerCost) : kForbidden);
  return costs;
}

/// The costs of an edge in seconds. They are rounded only after all uses that share the edge have been added up.
struct EdgeSeconds {
  int u, v;
  std::vector<double> table;
};

class Builder {
public:
  Builder(ModuleOp module, const CollectiveModel &collectives, const Plan &constraints,
          const StrategyPreference &preference, const RuleOfOp &ruleOf, const DecidedStrategy &decided)
      : module(module), symbols(module), collectives(collectives), constraints(constraints), preference(preference),
        ruleOf(ruleOf), decided(decided), batch(module), keys(opKeys(module)), strategies(collectives.mesh()),
        reshards(collectives) {}

  Result<Placement> build(std::optional<int64_t> memoryLimitBytes);

private:
  Status addNode(PlacementNode node, ValueRange operands, ValueRange results, const std::string &name,
                 double multiplicity);
  Status addFunction(func::FuncOp function);
  void addUses(func::FuncOp function);
  void addMemory();
  void addDecomposed(Value result, const std::vector<LiveInterval> &live);
  Source sourceOf(Value value);
  std::vector<double> reshardTable(Source from, int to, int operand, Value value, double multiplicity);
  void addEdge(int u, int v, std::vector<double> table);
  void writeCosts();
  void tieReplaced(func::FuncOp main);
  RuleStrategies &strategiesOf(const PlacementNode &node, ValueRange results);
  /// Returns, for each value, the axes (as bits) over which some strategy of its producer leaves it partial. All axes
  /// where the producer is not known yet, such as a layer that is called.
  std::vector<uint64_t> partialAxesOf(ValueRange values) const;
  void addPartialAxes(const PlacementNode &node);
  bool pinned(const Strategy &pin, const Strategy &strategy, const Rule &rule,
              const std::vector<bool> &batchFactor) const;
  bool allowed(const Rule &rule, const std::vector<bool> &batchFactor, const Strategy &strategy) const;
  Result<std::optional<Strategy>> pinOf(const PlacementNode &node, const std::string &name);
  func::FuncOp callee(CallOp call) { return symbols.lookup<func::FuncOp>(call.getCallee()); }

  ModuleOp module;
  SymbolTable symbols;
  const CollectiveModel &collectives;
  const Plan &constraints;
  const StrategyPreference &preference;
  const RuleOfOp &ruleOf;
  const DecidedStrategy &decided;
  BatchDims batch;
  llvm::MapVector<Operation *, OpKey> keys;
  Placement placement;
  DenseMap<Value, Source> sources;
  std::vector<std::vector<uint64_t>> partialAxes; // [node][result]: axes over which some strategy leaves it partial
  std::vector<std::vector<bool>> resharedOnce;    // [node][result]: whether its users share one form of it
  llvm::DenseMap<Operation *, int> calls;         // number of calls of a function in a step; 1 for @main
  std::vector<std::vector<double>> nodeSeconds;   // [node][strategy]
  std::vector<EdgeSeconds> edges;
  std::map<std::pair<int, int>, size_t> edgeBetween;
  StrategiesOnMesh strategies;
  std::optional<RuleStrategies> decidedStrategy; // of the node that was asked for last
  ReshardSeconds reshards;
  std::vector<bool> opPinUsed, argumentPinUsed;
};

/// Returns the strategies that the node may take, and impossible ones. The list is valid until the next call.
RuleStrategies &Builder::strategiesOf(const PlacementNode &node, ValueRange results) {
  if (!decided)
    return strategies.of(node.rule);
  const Strategy *its = decided(node, results);
  return decidedStrategy.emplace(node.rule, placement.mesh, its ? std::vector{*its} : std::vector<Strategy>());
}

std::vector<uint64_t> Builder::partialAxesOf(ValueRange values) const {
  std::vector<uint64_t> axes;
  for (Value value : values) {
    auto source = sources.find(value);
    axes.push_back(source == sources.end() ? ~uint64_t(0) : partialAxes[source->second.node][source->second.result]);
  }
  return axes;
}

void Builder::addPartialAxes(const PlacementNode &node) {
  std::vector<uint64_t> &axes = partialAxes.emplace_back(node.rule.results.size());
  for (const OpSharding &sharding : node.shardings)
    for (size_t r = 0; r < axes.size(); ++r)
      for (const AxisRef &axis : sharding.results[r].partial)
        axes[r] |= uint64_t(1) << axis.axis;
}

/// Returns whether the operands that are partial under the strategy can be so: no reshard makes a value partial.
/// `partialAxes` is as partialAxesOf.
static bool hasItsPartials(const Rule &rule, const Strategy &strategy, const std::vector<uint64_t> &partialAxes) {
  for (size_t axis = 0; axis < strategy.factorOfAxis.size(); ++axis)
    if (int factor = strategy.factorOfAxis[axis]; factor >= 0)
      for (int operand : rule.factors[factor].partialOperands)
        if (!(partialAxes[operand] >> axis & 1))
          return false;
  return true;
}

/// Returns whether each axis may shard the factor that `strategy` assigns to it: "data" the batch only, "model"
/// anything else, and any axis a partial sum.
bool Builder::allowed(const Rule &rule, const std::vector<bool> &batchFactor, const Strategy &strategy) const {
  for (size_t axis = 0; axis < strategy.factorOfAxis.size(); ++axis) {
    int factor = strategy.factorOfAxis[axis];
    if (factor < 0 || rule.factors[factor].kind == FactorKind::PartialSum)
      continue;
    const std::string &name = placement.mesh.axes[axis].name;
    if ((name == "data" && !batchFactor[factor]) || (name == "model" && batchFactor[factor]))
      return false;
  }
  return true;
}

/// Returns whether a strategy agrees with a pin. In whole-plan search, where a layout is requested, "data" shards the
/// batch even where the pin does not mention it.
bool Builder::pinned(const Strategy &pin, const Strategy &strategy, const Rule &rule,
                     const std::vector<bool> &batchFactor) const {
  for (size_t axis = 0; axis < strategy.factorOfAxis.size(); ++axis) {
    const int asked = pin.factorOfAxis[axis], factor = strategy.factorOfAxis[axis];
    if (preference && asked < 0 && placement.mesh.axes[axis].name == "data") {
      if (factor >= 0 && !batchFactor[factor] && rule.factors[factor].kind != FactorKind::PartialSum)
        return false;
    } else if (asked != -2 && asked != factor) {
      return false;
    }
  }
  return true;
}

/// Returns the pin of an op or argument, with -2 for axes that the pin does not mention; nothing where there is no pin.
Result<std::optional<Strategy>> Builder::pinOf(const PlacementNode &node, const std::string &name) {
  if (node.op) {
    auto key = keys.find(node.op);
    size_t i = key == keys.end() ? constraints.ops.size() : entryOf(constraints.ops, key->second);
    if (i == constraints.ops.size())
      return std::optional<Strategy>();
    const OpPlan &pin = constraints.ops[i];
    opPinUsed[i] = true;
    auto strategy = parseOpPlan(pin, placement.mesh, node.rule);
    if (!strategy)
      return Error{fmt::format("ops[\"{}\"] for {}: {}", pin.pattern, key->second.key, strategy.error().message)};
    return std::optional<Strategy>(*strategy);
  }
  for (size_t i = 0; i < constraints.arguments.size(); ++i) {
    const ArgumentPlan &pin = constraints.arguments[i];
    if (!globMatch(pin.pattern, name))
      continue;
    argumentPinUsed[i] = true;
    auto strategy = parseArgumentPlan(pin, placement.mesh, node.rule, name);
    if (!strategy)
      return strategy.error();
    return std::optional<Strategy>(*strategy);
  }
  return std::optional<Strategy>();
}

Status Builder::addNode(PlacementNode node, ValueRange operands, ValueRange results, const std::string &name,
                        double multiplicity) {
  std::vector<bool> batchFactor = batch.batchFactors(node.rule, operands, results);
  auto pin = pinOf(node, name);
  if (!pin)
    return pin.error();
  std::vector<double> ofStrategies;
  std::vector<bool> mayBePartial(results.size()); // by the rule, whatever the operands are
  std::optional<int> leastRank;
  StrategyRank rank = preference ? preference(node, operands, results, batchFactor) : StrategyRank();
  RuleStrategies &all = strategiesOf(node, results);
  const std::vector<uint64_t> partials = partialAxesOf(operands);
  for (size_t s = 0; s < all.size(); ++s) {
    const Strategy &strategy = all[s];
    bool fits = *pin ? pinned(**pin, strategy, node.rule, batchFactor) : allowed(node.rule, batchFactor, strategy);
    // Inputs, and values passed between layers, have no partial sums.
    fits &= node.op || !leavesPartial(node.rule, strategy);
    if (!fits)
      continue;
    std::optional<int> its;
    if (rank) {
      its = rank(strategy);
      if (!its && *pin) // the layout excludes the strategy, but a pin asks for it
        its = std::numeric_limits<int>::max();
      if (!its || (leastRank && *its > *leastRank))
        continue;
    }
    const OpSharding *sharding = all.sharding(s);
    if (!sharding)
      continue;
    if (rank) {
      if (leastRank && *its < *leastRank) {
        node.strategies.clear();
        node.shardings.clear();
        ofStrategies.clear();
        mayBePartial.assign(results.size(), false);
      }
      leastRank = its;
    }
    for (size_t r = 0; r < results.size(); ++r)
      mayBePartial[r] = mayBePartial[r] || !sharding->results[r].partial.empty();
    if (!hasItsPartials(node.rule, strategy, partials)) // after the rank, whose best strategies may all be impossible
      continue;
    double seconds = node.op ? multiplicity * opSeconds(node.op, node.rule, strategy, *sharding, collectives) : 0.0;
    node.strategies.push_back(strategy);
    node.shardings.push_back(*sharding);
    ofStrategies.push_back(seconds);
  }
  if (node.strategies.empty()) {
    std::string axes;
    for (const MeshAxis &axis : placement.mesh.axes)
      axes += fmt::format("{}{} {}", axes.empty() ? "" : " x ", axis.name, axis.size);
    return Error{
        fmt::format("the pin of {} cannot be carried out on the mesh {}; pin a strategy that its rule {} allows there",
                    name, axes, toString(node.rule)),
        ExitStatus::Infeasible};
  }
  int index = static_cast<int>(placement.nodes.size());
  for (auto [i, result] : llvm::enumerate(results))
    sources[result] = {index, static_cast<int>(i)};
  placement.problem.nodes.push_back({name, {}});
  addPartialAxes(node);
  resharedOnce.push_back(std::move(mayBePartial));
  placement.nodes.push_back(std::move(node));
  nodeSeconds.push_back(std::move(ofStrategies));
  return ok();
}

Status Builder::addFunction(func::FuncOp function) {
  double multiplicity = calls[function];
  for (BlockArgument argument : function.getArguments()) {
    PlacementNode node{nullptr, argument, argumentRule(shapeOf(argument)), {}, {}};
    std::string name = argumentKey(argument);
    if (Status status = addNode(std::move(node), ValueRange(argument), ValueRange(argument), name, 1); !status)
      return status;
  }
  for (Operation &op : function.getOps()) {
    if (isa<CallOp>(op) || op.hasTrait<OpTrait::IsTerminator>())
      continue;
    auto ruled = dyn_cast<ShardingRuleOpInterface>(op);
    if (!ruled)
      return Error{fmt::format(
          "{}: {} has no sharding rule and cannot be planned; plan the module before the passes that add this op",
          nodeName(op.getLoc()), op.getName().getStringRef().str())};
    PlacementNode node{&op, {}, ruleOf ? ruleOf(&op) : ruled.getShardingRule(), {}, {}};
    if (Status status = addNode(std::move(node), op.getOperands(), op.getResults(), keys[&op].key, multiplicity);
        !status)
      return status;
  }
  return ok();
}

Source Builder::sourceOf(Value value) {
  if (auto found = sources.find(value); found != sources.end())
    return found->second;
  auto call = value.getDefiningOp<CallOp>();
  unsigned index = cast<OpResult>(value).getResultNumber();
  Source source = sourceOf(callee(call).front().getTerminator()->getOperand(index));
  sources[value] = source;
  return source;
}

/// Returns the seconds of the reshard from the sharding that each strategy of `from` leaves to the one that each
/// strategy of `to` needs, as a table.
std::vector<double> Builder::reshardTable(Source from, int to, int operand, Value value, double multiplicity) {
  const PlacementNode &producer = placement.nodes[from.node], &user = placement.nodes[to];
  Shape shape = shapeOf(value);
  int64_t elementBytes = bytesPerElement(value.getType());
  // Many strategies have the same sharding of this value, so each pair of shardings is priced only once.
  auto less = [](const Sharding *a, const Sharding *b) { return *a < *b; };
  std::map<const Sharding *, std::vector<size_t>, decltype(less)> have, want;
  for (size_t s = 0; s < producer.shardings.size(); ++s)
    have[&producer.shardings[s].results[from.result]].push_back(s);
  for (size_t s = 0; s < user.shardings.size(); ++s)
    want[&user.shardings[s].operands[operand]].push_back(s);
  std::vector<double> table(producer.strategies.size() * user.strategies.size());
  for (const auto &[source, rows] : have)
    for (const auto &[target, columns] : want) {
      double seconds = reshards(shape, elementBytes, *source, *target) * multiplicity;
      for (size_t row : rows)
        for (size_t column : columns)
          table[row * user.strategies.size() + column] = seconds;
    }
  return table;
}

void Builder::addEdge(int u, int v, std::vector<double> table) {
  if (u == v) { // a layer that returns its argument unchanged
    size_t n = placement.nodes[u].strategies.size();
    for (size_t s = 0; s < n; ++s)
      nodeSeconds[u][s] += table[s * n + s];
    return;
  }
  if (u > v) {
    size_t rows = placement.nodes[u].strategies.size(), columns = placement.nodes[v].strategies.size();
    std::vector<double> turned(table.size());
    for (size_t a = 0; a < rows; ++a)
      for (size_t b = 0; b < columns; ++b)
        turned[b * rows + a] = table[a * columns + b];
    table = std::move(turned);
    std::swap(u, v);
  }
  auto [found, isNew] = edgeBetween.try_emplace({u, v}, edges.size());
  if (isNew) {
    edges.push_back({u, v, std::move(table)});
    return;
  }
  std::vector<double> &sum = edges[found->second].table;
  for (size_t i = 0; i < sum.size(); ++i)
    sum[i] += table[i];
}

void Builder::writeCosts() {
  Problem &problem = placement.problem;
  double most = 0;
  for (const std::vector<double> &seconds : nodeSeconds)
    most += largestOf(seconds);
  for (const EdgeSeconds &edge : edges)
    most += largestOf(edge.table);
  int exponent = most > 0 ? static_cast<int>(std::ceil(std::log2(most))) - kCostBits : kFinestExponent;
  placement.secondsPerCost = std::exp2(std::max(exponent, kFinestExponent));
  for (size_t i = 0; i < nodeSeconds.size(); ++i)
    problem.nodes[i].costs = costsOf(nodeSeconds[i], placement.secondsPerCost);
  TableSet tables(problem.tables);
  for (const EdgeSeconds &edge : edges)
    problem.edges.push_back({edge.u, edge.v, tables.add(costsOf(edge.table, placement.secondsPerCost))});
}

void Builder::addUses(func::FuncOp function) {
  double multiplicity = calls[function];
  // A value that may be a partial sum and has several users is resharded once for all of them, which is a node of its
  // own between producer and users.
  DenseMap<Value, int> shared;
  auto sharedForm = [&](Value value) {
    if (!value.hasOneUse() && !value.use_empty()) {
      Source source = sourceOf(value);
      if (resharedOnce[source.node][source.result] && !shared.contains(value)) {
        PlacementNode node{nullptr, {}, argumentRule(shapeOf(value)), {}, {}, value};
        std::vector<bool> batchFactor = batch.batchFactors(node.rule, value, value);
        StrategyRank rank = preference ? preference(node, value, value, batchFactor) : StrategyRank();
        RuleStrategies &all = strategiesOf(node, value);
        const std::vector<uint64_t> partials = partialAxesOf(value);
        for (size_t s = 0; s < all.size(); ++s)
          if (allowed(node.rule, batchFactor, all[s]) && hasItsPartials(node.rule, all[s], partials) &&
              (!rank || rank(all[s])))
            if (const OpSharding *sharding = all.sharding(s)) {
              node.strategies.push_back(all[s]);
              node.shardings.push_back(*sharding);
            }
        int index = static_cast<int>(placement.nodes.size());
        addPartialAxes(node);
        resharedOnce.emplace_back(1);
        placement.nodes.push_back(std::move(node));
        nodeSeconds.emplace_back(placement.nodes.back().strategies.size(), 0.0);
        placement.problem.nodes.push_back({placement.problem.nodes[source.node].name + " as its users see it", {}});
        addEdge(source.node, index, reshardTable(source, index, 0, value, multiplicity));
        shared[value] = index;
      }
    }
    auto found = shared.find(value);
    return found == shared.end() ? sourceOf(value) : Source{found->second, 0};
  };
  for (Operation &op : function.getOps()) {
    if (op.hasTrait<OpTrait::IsTerminator>())
      continue;
    if (auto call = dyn_cast<CallOp>(op)) {
      for (auto [value, argument] : llvm::zip(call.getInputs(), callee(call).getArguments())) {
        Source source = sharedForm(value);
        int node = sources[argument].node;
        addEdge(source.node, node, reshardTable(source, node, 0, value, multiplicity));
      }
      continue;
    }
    int node = sources[op.getResult(0)].node;
    for (OpOperand &operand : op.getOpOperands()) {
      Source source = sharedForm(operand.get());
      addEdge(source.node, node, reshardTable(source, node, operand.getOperandNumber(), operand.get(), multiplicity));
    }
  }
}

/// A result that replaces an argument has the argument's sharding. Every other result of the step is replicated
/// on all ranks.
void Builder::tieReplaced(func::FuncOp main) {
  DenseMap<int64_t, BlockArgument> replaced;
  for (BlockArgument argument : main.getArguments())
    if (auto by = main.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), KerfDialect::kUpdatedByAttr))
      replaced[by.getInt()] = argument;
  for (OpOperand &result : main.front().getTerminator()->getOpOperands()) {
    Source source = sourceOf(result.get());
    const PlacementNode &producer = placement.nodes[source.node];
    auto argument = replaced.find(result.getOperandNumber());
    if (argument == replaced.end()) {
      Shape shape = shapeOf(result.get());
      for (size_t s = 0; s < producer.strategies.size(); ++s)
        nodeSeconds[source.node][s] +=
            reshards(shape, bytesPerElement(result.get().getType()), producer.shardings[s].results[source.result],
                     Sharding::replicated(shape.size()));
      continue;
    }
    int node = sources[argument->second].node;
    const PlacementNode &kept = placement.nodes[node];
    std::vector<double> table(producer.strategies.size() * kept.strategies.size(), kNever);
    for (size_t a = 0; a < producer.strategies.size(); ++a)
      for (size_t b = 0; b < kept.strategies.size(); ++b)
        if (producer.shardings[a].results[source.result] == kept.shardings[b].results[0])
          table[a * kept.strategies.size() + b] = 0;
    addEdge(source.node, node, std::move(table));
  }
}

void Builder::addMemory() {
  Timeline timeline(module);
  for (const Timeline::Buffer &buffer : timeline.buffers()) {
    Source source = sourceOf(buffer.value);
    MemoryUsage usage{source.node, {}, {}};
    for (auto [begin, end] : buffer.live)
      usage.live.push_back({begin, end});
    Shape shape = shapeOf(buffer.value);
    for (const OpSharding &sharding : placement.nodes[source.node].shardings)
      usage.bytes.push_back(elementsOf(localShape(shape, sharding.results[source.result])) *
                            bytesPerElement(buffer.value.getType()));
    addDecomposed(buffer.value, usage.live);
    placement.problem.usages.push_back(std::move(usage));
  }
}

/// Adds the memory that a decomposed composite needs for its intermediate values while it runs.
void Builder::addDecomposed(Value result, const std::vector<LiveInterval> &live) {
  Source source = sourceOf(result);
  const PlacementNode &node = placement.nodes[source.node];
  if (!node.op || source.result != 0)
    return;
  MemoryUsage usage{source.node, {}, {}};
  for (const LiveInterval &instance : live)
    usage.live.push_back({instance.begin, instance.begin + 1});
  Value operand = node.op->getNumOperands() ? node.op->getOperand(0) : result;
  for (size_t s = 0; s < node.strategies.size(); ++s) {
    bool decomposes = llvm::any_of(node.strategies[s].factorOfAxis, [&](int factor) {
      return factor >= 0 && node.rule.factors[factor].kind == FactorKind::Decomposed;
    });
    usage.bytes.push_back(decomposes ? kDecomposedBuffers *
                                           elementsOf(localShape(shapeOf(operand), node.shardings[s].operands[0])) *
                                           bytesPerElement(operand.getType())
                                     : 0);
  }
  if (llvm::any_of(usage.bytes, [](int64_t bytes) { return bytes > 0; }))
    placement.problem.usages.push_back(std::move(usage));
}

Result<Placement> Builder::build(std::optional<int64_t> memoryLimitBytes) {
  placement.mesh = collectives.mesh();
  opPinUsed.assign(constraints.ops.size(), false);
  argumentPinUsed.assign(constraints.arguments.size(), false);
  auto main = symbols.lookup<func::FuncOp>(KerfDialect::kEntryName);
  if (!main)
    return Error{"the module has no function @main; import a model first"};
  calls[main] = 1;
  std::vector<func::FuncOp> functions{main};
  for (CallOp call : main.getOps<CallOp>()) {
    func::FuncOp function = callee(call);
    if (calls[function]++ == 0)
      functions.push_back(function);
    if (!function.getOps<CallOp>().empty())
      return Error{fmt::format("@{} calls another function; layers don't call layers", function.getName().str())};
  }
  for (func::FuncOp function : functions)
    if (Status status = addFunction(function); !status)
      return status.error();
  for (size_t i = 0; i < opPinUsed.size(); ++i)
    if (!opPinUsed[i])
      return Error{fmt::format("ops[\"{}\"] matches no op of the model; `kerf import` and the report list their names",
                               constraints.ops[i].pattern)};
  for (size_t i = 0; i < argumentPinUsed.size(); ++i)
    if (!argumentPinUsed[i])
      return Error{fmt::format(
          "arguments[\"{}\"] matches no parameter, state or input of the model; `kerf import` lists their names",
          constraints.arguments[i].pattern)};
  for (func::FuncOp function : functions)
    addUses(function);
  tieReplaced(main);
  writeCosts();
  addMemory();
  placement.problem.memoryLimitBytes = memoryLimitBytes;
  return std::move(placement);
}

} // namespace

double Placement::seconds(TotalCost cost) const {
  return cost == kUnboundedTotal ? std::numeric_limits<double>::infinity() : static_cast<double>(cost) * secondsPerCost;
}

Result<Placement> buildProblem(ModuleOp module, const CollectiveModel &collectives, const Plan &constraints,
                               std::optional<int64_t> memoryLimitBytes, const StrategyPreference &preference,
                               const RuleOfOp &ruleOf, const DecidedStrategy &decided) {
  return Builder(module, collectives, constraints, preference, ruleOf, decided).build(memoryLimitBytes);
}

} // namespace kerf
