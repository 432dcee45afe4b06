// SPDX-License-Identifier: Apache-2.0
#include "kerf/Transforms/Layout.h"
#include "BatchFactors.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include <algorithm>
#include <fmt/format.h>
#include <memory>
#include <numeric>

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

namespace {

enum Tag : unsigned { kBatch = 1, kSequence = 2, kWidth = 4, kStream = 7, kKeyHeads = 8 };

bool isProduct(Operation *op) { return kernelClassOf(op) == KernelClass::Product; }
bool isAttention(Operation *op) { return kernelClassOf(op) == KernelClass::Attention; }

/// An analysis that finds the dimensions of values that belong to the residual stream, and the values
/// that are parameters.
class StreamDims {
public:
  explicit StreamDims(ModuleOp module) : module(module), symbols(module) {
    auto main = symbols.lookup<func::FuncOp>(KerfDialect::kEntryName);
    if (!main)
      return;
    seedInputs(main);
    ops = opsWithRules(module);
    for (CallOp call : main.getOps<CallOp>())
      calls.push_back(call);
    seedLayers();
    for (auto &[op, rule] : ops)
      seedKeyHeads(op);
    spread();
    // A table that is looked up by tokens gives the stream its width; a table looked up by other indices (distances)
    // does not.
    for (auto &[op, rule] : ops)
      if (auto embedding = dyn_cast<EmbeddingOp>(op))
        if (tags(embedding.getResult(), 0) & kBatch)
          add(embedding.getResult(), tensorType(embedding.getResult()).getRank() - 1, kWidth);
    spread();
    for (auto &[op, rule] : ops)
      seedLatent(op);
    spread();
  }

  unsigned tags(Value value, unsigned dim) const {
    auto found = tagged.find({value, dim});
    return found == tagged.end() ? 0 : found->second;
  }
  std::vector<unsigned> factorTags(const Rule &rule, ValueRange operands, ValueRange results) const {
    std::vector<unsigned> ofFactors(rule.factors.size(), 0);
    auto read = [&](ValueRange values, const std::vector<FactorMap> &maps) {
      for (size_t i = 0; i < maps.size(); ++i)
        for (size_t d = 0; d < maps[i].size(); ++d)
          if (int factor = leadingFactor(rule, maps[i][d]); factor >= 0)
            ofFactors[factor] |= tags(values[i], d);
    };
    read(operands, rule.operands);
    read(results, rule.results);
    return ofFactors;
  }
  bool isParameter(Value value) const {
    while (Operation *op = value.getDefiningOp()) {
      if (!op->hasTrait<SameValue>())
        return false;
      value = op->getOperand(0);
    }
    return parameters.contains(value);
  }

private:
  bool add(Value value, unsigned dim, unsigned tag) {
    unsigned &known = tagged[{value, dim}];
    bool isNew = (known & tag) != tag;
    known |= tag;
    return isNew;
  }

  void seedInputs(func::FuncOp main) {
    for (BlockArgument argument : main.getArguments()) {
      auto kind = main.getArgAttrOfType<StringAttr>(argument.getArgNumber(), KerfDialect::kKindAttr);
      if (!kind)
        continue;
      int64_t rank = tensorType(argument).getRank();
      if (kind.getValue() == "input" && rank > 0) {
        add(argument, 0, kBatch);
        if (rank == 2 && isa<IntegerType>(tensorType(argument).getElementType()))
          add(argument, 1, kSequence);
      }
      if (kind.getValue() == "parameter" || kind.getValue() == "state")
        parameters.insert(argument);
    }
  }

  /// Finds a layer's stream: an argument computed in @main that has the type of the layer's first result.
  void seedLayers() {
    for (CallOp call : calls) {
      auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
      for (auto [outer, inner] : llvm::zip(call.getInputs(), callee.getArguments())) {
        if (parameters.contains(outer))
          parameters.insert(inner);
        bool stream = !call->hasAttr(KerfDialect::kBackwardAttr) && !isa<BlockArgument>(outer) &&
                      outer.getType() == call.getResult(0).getType() && tensorType(outer).getRank() >= 3;
        if (!stream)
          continue;
        add(inner, 0, kBatch);
        if (!callee.getOps<ConvolutionOp>().empty()) // an image, whose channels each product shards anew
          continue;
        add(inner, 1, kSequence);
        for (int64_t d = 2; d < tensorType(inner).getRank(); ++d)
          add(inner, d, kWidth);
      }
    }
  }

  /// Marks the key/value heads that several query heads share. Spreading follows them back to the parameters.
  void seedKeyHeads(Operation *op) {
    if (!isAttention(op) || shapeOf(op->getOperand(0))[2] == shapeOf(op->getOperand(1))[2])
      return;
    for (unsigned i : {1, 2}) {
      add(op->getOperand(i), 2, kKeyHeads);
      if (isa<AttentionBackwardOp>(op))
        add(op->getResult(i), 2, kKeyHeads);
    }
  }

  /// Treats a latent (a tensor between two products that a norm reads, and from which heads are computed) like the
  /// stream: it is not sharded by width, because it would have to be gathered for the norm.
  void seedLatent(Operation *op) {
    if (!op->hasTrait<NormalizesRows>())
      return;
    Value latent = op->getOperand(0);
    bool ofHeads = latent.getDefiningOp<ReshapeOp>() != nullptr; // it belongs to all heads together
    if (!ofHeads && tensorType(latent).getRank() == 3 && (tags(latent, 0) & kBatch) && (tags(latent, 1) & kSequence))
      add(latent, 2, kWidth);
  }

  /// A part of the width of the stream, or of a latent, is marked as a width too.
  bool spreadParts(Operation *op) {
    bool changed = false;
    auto pass = [&](Value from, Value to) {
      for (int64_t d = 0; d < tensorType(from).getRank(); ++d)
        if (tags(from, d) & kWidth)
          changed |= add(to, d, kWidth);
    };
    for (Value part : isa<ConcatenateOp>(op) ? op->getOperands() : op->getOperands().take_front()) {
      pass(part, op->getResult(0));
      pass(op->getResult(0), part);
    }
    return changed;
  }

  bool spreadOp(Operation *op, const Rule &rule) {
    unsigned through = isAttention(op) ? kBatch | kSequence
                       : isProduct(op) ? kBatch | kSequence | kKeyHeads
                                       : kStream | kKeyHeads;
    std::vector<unsigned> ofFactors = factorTags(rule, op->getOperands(), op->getResults());
    bool changed = false;
    auto write = [&](ValueRange values, const std::vector<FactorMap> &maps) {
      for (size_t i = 0; i < maps.size(); ++i)
        for (size_t d = 0; d < maps[i].size() && !isConstant(values[i]); ++d)
          if (int factor = leadingFactor(rule, maps[i][d]); factor >= 0 && (ofFactors[factor] & through))
            changed |= add(values[i], d, ofFactors[factor] & through);
    };
    write(op->getOperands(), rule.operands);
    write(op->getResults(), rule.results);
    if (isa<SliceOp, PadOp, ConcatenateOp>(op))
      changed |= spreadParts(op);
    // The slots of experts hold the tokens of the sequence, and are sharded like the sequence (ExpertLayout.h).
    if (auto routing = dyn_cast<RoutingOpInterface>(op))
      if (tags(routing.getTokenStream(), 1) & kSequence)
        changed |= add(routing.getSlots(), 2, kSequence);
    return changed;
  }

  bool join(Value a, Value b) {
    bool changed = false;
    for (int64_t d = 0; d < tensorType(a).getRank(); ++d)
      if (unsigned both = tags(a, d) | tags(b, d)) {
        changed |= add(a, d, both);
        changed |= add(b, d, both);
      }
    return changed;
  }

  void spread() {
    for (bool changed = true; changed;) {
      changed = false;
      for (auto &[op, rule] : ops)
        changed |= spreadOp(op, rule);
      for (CallOp call : calls) {
        auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
        for (auto [outer, inner] : llvm::zip(call.getInputs(), callee.getArguments()))
          changed |= join(outer, inner);
        for (auto [outer, inner] : llvm::zip(call.getOutputs(), callee.front().getTerminator()->getOperands()))
          changed |= join(outer, inner);
      }
    }
  }

  ModuleOp module;
  SymbolTable symbols;
  std::vector<std::pair<Operation *, Rule>> ops;
  SmallVector<CallOp> calls;
  DenseMap<std::pair<Value, unsigned>, unsigned> tagged;
  DenseSet<Value> parameters;
};

/// Returns whether the op is a product with a parameter, or one that computes a parameter's gradient, which sums over
/// the batch.
bool hasParameter(const StreamDims &dims, Operation *op, const Rule &rule, const std::vector<unsigned> &factorTags) {
  if (op->hasTrait<UsesTable>())
    return true;
  if (!isProduct(op))
    return false;
  if (llvm::any_of(op->getOperands(), [&](Value value) { return dims.isParameter(value); }))
    return true;
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    bool kept =
        llvm::any_of(rule.results[0], [&](const std::vector<int> &dim) { return llvm::is_contained(dim, int(f)); });
    if ((factorTags[f] & kBatch) && !kept)
      return true;
  }
  return false;
}

// kWhole is added for each axis that should shard a node but does not; the sum stays below kUnshardedBatch.
constexpr int kPreferred = 0, kWhole = 1;

/// Factors of Ulysses: the key/value heads that one rank of "model" has, and the number of this rank along "model".
constexpr const char *kHeadsOfRank = "g1", *kRankOfHeads = "g0";

/// The preference of one layout for the strategies of a node, computed axis by axis.
class Layout {
public:
  Layout(ModuleOp module, const Mesh &mesh, ModelAxisLayout modelLayout)
      : dims(module), mesh(mesh), data(mesh.find("data")), context(mesh.find("context")),
        alongSequence(modelLayout == ModelAxisLayout::MegatronSequence),
        solved(modelLayout == ModelAxisLayout::Solved) {
    for (size_t axis = 0; axis < mesh.axes.size(); ++axis) {
      const std::string &name = mesh.axes[axis].name;
      if (name == "model" || name.starts_with("model/")) {
        model.push_back(static_cast<int>(axis));
        modelShards *= mesh.axes[axis].size;
      }
    }
    if (context >= 0)
      contextShards = mesh.axes[context].size;
    if (model.size() > 1)
      module.walk([&](AttentionOp op) {
        int64_t keyHeads = shapeOf(op.getKey())[2], group = shapeOf(op.getQuery())[2] / keyHeads;
        bool inOneProjection = dims.tags(op.getQuery(), 2) & kKeyHeads; // with the queries, and then copied as a whole
        sharesKeys |= mesh.axes[model[0]].size == keyHeads && group % mesh.axes[model[1]].size == 0 && !inOneProjection;
      });
    if (sharesKeys)
      findSummed(module);
  }

  /// The facts about a node on which its preference depends.
  struct NodeFacts {
    const PlacementNode &node;
    std::vector<unsigned> tags; // of the factors
    bool isParameter = false;
    bool canCutBatch = false; // whether "data" could shard the batch
  };
  NodeFacts factsOf(const PlacementNode &node, ValueRange operands, ValueRange results,
                    const std::vector<bool> &batchFactor) const {
    NodeFacts facts{node, {}};
    for (size_t f = 0; f < batchFactor.size(); ++f)
      facts.canCutBatch |= data >= 0 && batchFactor[f] && node.rule.factors[f].size >= mesh.axes[data].size;
    if (model.empty() && context < 0)
      return facts;
    facts.tags = dims.factorTags(node.rule, operands, results);
    facts.isParameter = node.argument && dims.isParameter(node.argument);
    return facts;
  }

  std::optional<int> preference(const NodeFacts &facts, const Strategy &strategy) const {
    const auto &[node, tags, isParameter, canCutBatch] = facts;
    const int onData = data < 0 ? -1 : strategy.factorOfAxis[data];
    // An axis that is assigned to a partial sum does not shard the batch either.
    int sum = canCutBatch && (onData < 0 || node.rule.factors[onData].kind == FactorKind::PartialSum) ? kUnshardedBatch
                                                                                                      : kPreferred;
    if (model.empty() && context < 0)
      return sum;
    auto addPreference = [&](std::optional<int> ofAxis) {
      sum += ofAxis.value_or(0);
      return ofAxis.has_value();
    };
    if (context >= 0 && !addPreference(ofContext(node, tags, isParameter, strategy.factorOfAxis[context])))
      return std::nullopt;
    for (size_t part = 0; part < model.size(); ++part) {
      int cut = strategy.factorOfAxis[model[part]];
      // Sub-axes that cut different factors multiply the strategies, and with them the time to compute a layout.
      if (solved && part > 0 && cut >= 0 && cut != strategy.factorOfAxis[model[0]])
        sum += kWhole;
      if (!addPreference(solved ? ofSolved(node, tags, cut) : ofModel(node, tags, isParameter, cut, part)))
        return std::nullopt;
    }
    return sum;
  }

private:
  /// Finds the products that read values computed from attention's gradients in the same function. Values from another
  /// function have no partial sums.
  void findSummed(ModuleOp module) {
    DenseSet<Value> ofAttention;
    module.walk([&](Operation *op) {
      if (!llvm::any_of(op->getOperands(), [&](Value value) { return ofAttention.contains(value); }) &&
          !isa<AttentionBackwardOp>(op))
        return;
      if (isa<DotGeneralOp>(op))
        summed.insert(op);
      else
        ofAttention.insert(op->result_begin(), op->result_end());
    });
  }

  /// Returns the preference for one sub-axis of "model" in a solved layout: a product that computes a parameter's
  /// gradient should be sharded along a dimension of the gradient. Otherwise each rank would accumulate, over the
  /// microbatches, a gradient as large as the parameters of all ranks of the axis together.
  static std::optional<int> ofSolved(const PlacementNode &node, const std::vector<unsigned> &tags, int cut) {
    if (!isa_and_nonnull<DotGeneralOp>(node.op) || !node.op->hasAttr(KerfDialect::kBackwardAttr))
      return kPreferred;
    auto isKept = [&](int factor) {
      return llvm::any_of(node.rule.results[0],
                          [&](const std::vector<int> &dim) { return llvm::is_contained(dim, factor); });
    };
    for (size_t f = 0; f < tags.size(); ++f)
      if ((tags[f] & (kBatch | kSequence)) && isKept(static_cast<int>(f)))
        return kPreferred; // a gradient of activations
    return cut >= 0 && isKept(cut) ? kPreferred : kWhole;
  }

  static bool canCut(const Factor &factor, int64_t shards) {
    return factor.size >= shards && (factor.kind == FactorKind::Cuttable || factor.kind == FactorKind::Decomposed);
  }

  /// Returns the preference for "context": it shards the sequence and nothing else, and parameters are not sharded.
  std::optional<int> ofContext(const PlacementNode &node, const std::vector<unsigned> &tags, bool isParameter,
                               int cut) const {
    const Rule &rule = node.rule;
    bool onBatch = false, onSequence = false;
    for (size_t f = 0; f < tags.size(); ++f) {
      onBatch |= (tags[f] & kBatch) != 0;
      onSequence |= (tags[f] & kSequence) && canCut(rule.factors[f], contextShards);
    }
    if (isParameter)
      return cut < 0 ? std::optional<int>(kPreferred) : std::nullopt;
    if (cut < 0 && node.argument && isa<IntegerType>(tensorType(node.argument).getElementType()))
      return kPreferred;                                    // every rank reads the tokens and labels that it needs
    if (cut >= 0 && rule.factors[cut].name == kHeadsOfRank) // Ulysses
      return kPreferred;
    if (cut < 0 || rule.factors[cut].kind == FactorKind::PartialSum)
      return onBatch && (onSequence || isAttention(node.op)) ? kWhole : kPreferred;
    return (tags[cut] & kSequence) ? std::optional<int>(kPreferred) : std::nullopt;
  }

  /// Returns the preference for one sub-axis of "model". Ranks along sub-axes after the first have copies of the ops
  /// that compute keys and values.
  std::optional<int> ofModel(const PlacementNode &node, const std::vector<unsigned> &tags, bool isParameter, int cut,
                             size_t part) const {
    const Rule &rule = node.rule;
    bool isSum = cut >= 0 && rule.factors[cut].kind == FactorKind::PartialSum;
    bool hasKeys = llvm::any_of(tags, [](unsigned tag) { return (tag & kKeyHeads) != 0; });
    if (part > 0 && hasKeys && !isAttention(node.op)) {
      // Where such ranks share out the query heads, the gradients of keys and values are partial sums over these ranks.
      // They stay partial until the gradients of the stream and of weights are summed.
      bool passesSums = part == 1 && node.op && summed.contains(node.op);
      if (cut >= 0 && !isSum)
        return std::nullopt;
      return cut < 0 && passesSums ? kWhole : kPreferred;
    }
    if (cut >= 0 && rule.factors[cut].name == kHeadsOfRank)
      return std::nullopt;
    // A node that is not `onBatch` is a parameter.
    bool onStream = false, onSequence = false, ownFactor = false, onBatch = false;
    for (size_t f = 0; f < tags.size(); ++f) {
      int64_t shards = modelShards * (tags[f] & kSequence ? contextShards : 1);
      onStream |= (tags[f] & kWidth) != 0;
      onBatch |= (tags[f] & kBatch) != 0;
      onSequence |= (tags[f] & kSequence) && canCut(rule.factors[f], shards);
      ownFactor |= !(tags[f] & kStream) && canCut(rule.factors[f], shards);
    }
    bool shouldCut = alongSequence && !isParameter && onBatch && onStream && onSequence && !ownFactor;
    // A product from the width of the stream to that of a latent has no factor of its own, and is sharded
    // like the stream.
    auto isWidth = [](unsigned tag) { return (tag & kWidth) != 0; };
    bool makesLatent = shouldCut && isa_and_nonnull<DotGeneralOp>(node.op) && llvm::count_if(tags, isWidth) > 1;
    if (node.op && hasParameter(dims, node.op, rule, tags) && !makesLatent) {
      if (cut >= 0 && (isSum || (tags[cut] & kStream)))
        return std::nullopt;
      return cut < 0 ? kWhole : kPreferred;
    }
    if (cut < 0)
      return shouldCut ? kWhole : kPreferred;
    // The gradients that several products compute for their common input (query, key, value; gate, up) are added before
    // they are summed over ranks.
    bool addsGradients = isa_and_nonnull<AddOp>(node.op) && node.op->hasAttr(KerfDialect::kBackwardAttr);
    if (isSum || !(tags[cut] & kStream))
      return shouldCut && isSum && !addsGradients ? kWhole : kPreferred;
    // A value that a layer saves for its backward pass keeps the sharding in which the layer computes it, even one
    // number for each token.
    bool handed = alongSequence && node.argument && !isParameter && onBatch && onSequence;
    if ((shouldCut || handed) && (tags[cut] & kSequence))
      return kPreferred;
    return std::nullopt;
  }

  StreamDims dims;
  Mesh mesh;
  int data, context;
  std::vector<int> model;
  int64_t modelShards = 1, contextShards = 1;
  bool alongSequence, solved, sharesKeys = false;
  DenseSet<Operation *> summed; // set where `sharesKeys` is true
};

} // namespace

StrategyPreference layoutPreference(ModuleOp module, const Mesh &mesh, ModelAxisLayout modelLayout) {
  auto layout = std::make_shared<Layout>(module, mesh, modelLayout);
  return [layout](const PlacementNode &node, ValueRange operands, ValueRange results,
                  const std::vector<bool> &batchFactor) -> StrategyRank {
    return [layout, facts = layout->factsOf(node, operands, results, batchFactor)](const Strategy &strategy) {
      return layout->preference(facts, strategy);
    };
  };
}

/// Returns the number of heads on the rank with the most heads when the first sub-axis has `first` ranks, and the sizes
/// of the sub-axes.
static std::pair<int64_t, std::vector<int64_t>> partsFor(int64_t keyHeads, int64_t group, int64_t model,
                                                         int64_t first) {
  int64_t rest = model / first, local = (keyHeads + first - 1) / first * group;
  if (first < keyHeads || rest == 1)
    return {local, {first, rest}};
  // The second sub-axis must divide the group, because query heads are numbered within their key/value head.
  int64_t second = std::gcd(rest, group);
  return {group / second, {first, second, rest / second}};
}

std::vector<int64_t> modelSubAxisSizes(ModuleOp module, int64_t model) {
  std::vector<std::pair<int64_t, int64_t>> attentions; // number of key/value heads, query heads for each
  module.walk([&](AttentionOp op) {
    int64_t keyHeads = shapeOf(op.getKey())[2];
    attentions.emplace_back(keyHeads, shapeOf(op.getQuery())[2] / keyHeads);
  });
  // The first sub-axis may leave some of its ranks without a key/value head only where they have no query head either.
  auto cuts = [](const std::pair<int64_t, int64_t> &its, int64_t first) {
    auto [keyHeads, group] = its;
    return group == 1 ? keyHeads >= first : keyHeads % first == 0;
  };
  std::vector<int64_t> best{model};
  int64_t least = -1;
  if (llvm::all_of(attentions, [&](auto &its) { return its.first == 1 || cuts(its, model); }))
    return best;
  for (int64_t first = model; first > 0; --first) {
    if (model % first != 0 || !llvm::all_of(attentions, [&](auto &its) { return cuts(its, first); }))
      continue;
    int64_t heads = 0;
    std::vector<int64_t> parts;
    for (auto [keyHeads, group] : attentions) {
      auto [local, its] = partsFor(keyHeads, group, model, first);
      heads += local;
      parts = its.size() > parts.size() ? its : parts;
    }
    if (least >= 0 && heads >= least)
      continue;
    least = heads;
    best = parts;
  }
  llvm::erase(best, 1);
  return best;
}

std::string modelSubAxisName(int64_t before) { return before == 1 ? "model" : fmt::format("model/{}", before); }

/// Replaces factor `from` by the factors `to` in every tensor of the rule.
static void replaceFactor(Rule &rule, int from, const std::vector<int> &to) {
  for (std::vector<FactorMap> *maps : {&rule.operands, &rule.results})
    for (FactorMap &map : *maps)
      for (std::vector<int> &dim : map)
        if (auto at = llvm::find(dim, from); at != dim.end()) {
          at = dim.erase(at);
          dim.insert(at, to.begin(), to.end());
        }
}

static Rule ulyssesRule(Rule rule, int64_t model) {
  rule.factors[rule.operands[0][1].front()].kind = FactorKind::Replicated; // heads are sharded instead of queries
  int heads = rule.operands[1][2].front();
  Factor ofRank = rule.factors[heads];
  ofRank.name = kHeadsOfRank;
  ofRank.size /= model;
  rule.factors[heads].name = kRankOfHeads;
  rule.factors[heads].size = model;
  rule.factors.push_back(ofRank);
  replaceFactor(rule, heads, {heads, static_cast<int>(rule.factors.size()) - 1});
  return rule;
}

bool canUseRingAttention(Operation *attention) {
  return shapeOf(attention->getOperand(0))[1] == shapeOf(attention->getOperand(1))[1];
}

RuleOfOp contextRules(const Mesh &mesh, ContextStyle style) {
  int axis = mesh.find("model");
  int64_t model = axis < 0 ? 1 : mesh.axes[axis].size;
  return [style, model](Operation *op) {
    Rule rule = cast<ShardingRuleOpInterface>(op).getShardingRule();
    if (!isAttention(op))
      return rule;
    if (style == ContextStyle::Ulysses)
      return ulyssesRule(std::move(rule), model);
    return canUseRingAttention(op) ? ringRule(std::move(rule)) : rule;
  };
}

Status checkContext(ModuleOp module, int64_t context, int64_t model, ContextStyle style, bool fusedAttention) {
  if (context == 1)
    return ok();
  Status status = ok();
  bool found = false;
  module.walk([&](AttentionOp op) {
    found = true;
    int64_t positions = shapeOf(op.getQuery())[1], keyHeads = shapeOf(op.getKey())[2];
    // Causal work is balanced by giving each rank one chunk from the start and its mirror image from the end.
    int64_t chunks = style == ContextStyle::Ring && op.getCausal() ? 2 * context : context;
    if (positions % chunks != 0)
      status = Error{fmt::format("mesh.context is {}, which divides the sequence into {} chunks of equal size; its {} "
                                 "positions are not divisible by that number",
                                 context, chunks, positions)};
    else if (style == ContextStyle::Ulysses && keyHeads % (model * context) != 0)
      status = Error{fmt::format("context_style \"ulysses\" shards the {} key/value heads over {} ranks (mesh.model {} "
                                 "x mesh.context {}), which does not divide their number; \"ring\" does not shard "
                                 "heads by context",
                                 keyHeads, model * context, model, context)};
  });
  if (!found)
    return Error{fmt::format(
        "mesh.context is {}, but the model has no attention whose sequence it could shard; set mesh.context to 1",
        context)};
  if (style == ContextStyle::Ring && !fusedAttention)
    return Error{fmt::format("attention is \"unfused\" with mesh.context {}: ring attention is a fused kernel; give "
                             "\"fused\", or context_style \"ulysses\"",
                             context)};
  return status;
}

} // namespace kerf
