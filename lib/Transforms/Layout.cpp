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

/// Which dimensions of which values are the stream's, and which values are parameters.
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
    // Tables that are looked up by tokens give the stream its width, those of other indices (distances) do not.
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

  /// A layer's stream: handed over by @main, of the type of the layer's first result.
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
        if (!callee.getOps<ConvolutionOp>().empty()) // an image, whose channels each product cuts anew
          continue;
        add(inner, 1, kSequence);
        for (int64_t d = 2; d < tensorType(inner).getRank(); ++d)
          add(inner, d, kWidth);
      }
    }
  }

  /// The heads of keys and values that several query heads share, followed back into the parameters that make them.
  void seedKeyHeads(Operation *op) {
    if (!isAttention(op) || shapeOf(op->getOperand(0))[2] == shapeOf(op->getOperand(1))[2])
      return;
    for (unsigned i : {1, 2}) {
      add(op->getOperand(i), 2, kKeyHeads);
      if (isa<AttentionBackwardOp>(op))
        add(op->getResult(i), 2, kKeyHeads);
    }
  }

  /// What a norm takes of each token between two products (a latent, from which heads are made) stays whole, as the
  /// stream does: cut, it would be gathered for the norm.
  void seedLatent(Operation *op) {
    if (!op->hasTrait<NormalizesRows>())
      return;
    Value latent = op->getOperand(0);
    bool ofHeads = latent.getDefiningOp<ReshapeOp>() != nullptr; // of all heads together
    if (!ofHeads && tensorType(latent).getRank() == 3 && (tags(latent, 0) & kBatch) && (tags(latent, 1) & kSequence))
      add(latent, 2, kWidth);
  }

  /// A part of the stream's width, or of a latent, is one too.
  bool spreadParts(Operation *op) {
    bool changed = false;
    auto pass = [&](Value from, Value to) {
      for (int64_t d = 0; d < tensorType(from).getRank(); ++d)
        if (tags(from, d) & kWidth)
          changed |= add(to, d, kWidth);
    };
    pass(op->getOperand(0), op->getResult(0));
    pass(op->getResult(0), op->getOperand(0));
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
    if (isa<SliceOp, PadOp>(op))
      changed |= spreadParts(op);
    // Experts' slots are filled by the sequence's tokens, and cut as it is (ExpertLayout.h).
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

/// A product with a parameter, or one that makes a parameter's gradient: it sums over the batch.
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

constexpr int kPreferred = 0, kWhole = 1; // kWhole: for each of a few axes, fewer than kBatchWhole

/// Ulysses: the heads of keys and values that one rank of "model" has, and which rank of it that is.
constexpr const char *kHeadsOfRank = "g1", *kRankOfHeads = "g0";

/// Ranks one strategy of one node, axis by axis.
class Layout {
public:
  Layout(ModuleOp module, const Mesh &mesh, OverModel overModel)
      : dims(module), mesh(mesh), data(mesh.find("data")), context(mesh.find("context")),
        alongSequence(overModel == OverModel::MegatronSequence), solved(overModel == OverModel::Solved) {
    for (size_t axis = 0; axis < mesh.axes.size(); ++axis) {
      const std::string &name = mesh.axes[axis].name;
      if (name == "model" || name.starts_with("model/")) {
        model.push_back(static_cast<int>(axis));
        modelWays *= mesh.axes[axis].size;
      }
    }
    if (context >= 0)
      contextWays = mesh.axes[context].size;
    if (model.size() > 1)
      module.walk([&](AttentionOp op) {
        int64_t keyHeads = shapeOf(op.getKey())[2], group = shapeOf(op.getQuery())[2] / keyHeads;
        bool inOneProjection = dims.tags(op.getQuery(), 2) & kKeyHeads; // with the queries: copied as a whole
        sharesKeys |= mesh.axes[model[0]].size == keyHeads && group % mesh.axes[model[1]].size == 0 && !inOneProjection;
      });
    if (sharesKeys)
      findSummed(module);
  }

  std::optional<int> rank(const PlacementNode &node, ValueRange operands, ValueRange results,
                          const std::vector<bool> &batchFactor, const Strategy &strategy) const {
    int sum = kPreferred;
    const int onData = data < 0 ? -1 : strategy.factorOfAxis[data];
    if (data >= 0 && (onData < 0 || node.rule.factors[onData].kind == FactorKind::PartialSum)) // a sum is whole, too
      for (size_t f = 0; f < batchFactor.size(); ++f)
        if (batchFactor[f] && node.rule.factors[f].size >= mesh.axes[data].size)
          sum = kBatchWhole;
    if (model.empty() && context < 0)
      return sum;
    const std::vector<unsigned> tags = dims.factorTags(node.rule, operands, results);
    const bool isParameter = node.argument && dims.isParameter(node.argument);
    auto addRank = [&](std::optional<int> ofAxis) {
      sum += ofAxis.value_or(0);
      return ofAxis.has_value();
    };
    if (context >= 0 && !addRank(ofContext(node, tags, isParameter, strategy.factorOfAxis[context])))
      return std::nullopt;
    for (size_t part = 0; part < model.size() && !solved; ++part)
      if (!addRank(ofModel(node, tags, isParameter, strategy.factorOfAxis[model[part]], part)))
        return std::nullopt;
    return sum;
  }

private:
  /// Products whose operand is made of attention's gradients in the same function. What another function hands over is
  /// whole.
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

  static bool canCut(const Factor &factor, int64_t ways) {
    return factor.size >= ways && (factor.kind == FactorKind::Cuttable || factor.kind == FactorKind::Decomposed);
  }

  /// "context" cuts the sequence and nothing else; parameters are whole.
  std::optional<int> ofContext(const PlacementNode &node, const std::vector<unsigned> &tags, bool isParameter,
                               int cut) const {
    const Rule &rule = node.rule;
    bool onBatch = false, onSequence = false;
    for (size_t f = 0; f < tags.size(); ++f) {
      onBatch |= (tags[f] & kBatch) != 0;
      onSequence |= (tags[f] & kSequence) && canCut(rule.factors[f], contextWays);
    }
    if (isParameter)
      return cut < 0 ? std::optional<int>(kPreferred) : std::nullopt;
    if (cut < 0 && node.argument && isa<IntegerType>(tensorType(node.argument).getElementType()))
      return kPreferred;                                    // tokens and labels: every rank reads what it needs
    if (cut >= 0 && rule.factors[cut].name == kHeadsOfRank) // Ulysses
      return kPreferred;
    if (cut < 0 || rule.factors[cut].kind == FactorKind::PartialSum)
      return onBatch && (onSequence || isAttention(node.op)) ? kWhole : kPreferred;
    return (tags[cut] & kSequence) ? std::optional<int>(kPreferred) : std::nullopt;
  }

  /// The ranks of parts but the first have copies of what makes keys and values.
  std::optional<int> ofModel(const PlacementNode &node, const std::vector<unsigned> &tags, bool isParameter, int cut,
                             size_t part) const {
    const Rule &rule = node.rule;
    bool isSum = cut >= 0 && rule.factors[cut].kind == FactorKind::PartialSum;
    bool hasKeys = llvm::any_of(tags, [](unsigned tag) { return (tag & kKeyHeads) != 0; });
    if (part > 0 && hasKeys && !isAttention(node.op)) {
      // Where they share out the query heads, gradients of keys and values are sums over them, and stay so until the
      // stream's or the weights' are summed.
      bool passesSums = part == 1 && node.op && summed.contains(node.op);
      if (cut >= 0 && !isSum)
        return std::nullopt;
      return cut < 0 && passesSums ? kWhole : kPreferred;
    }
    if (cut >= 0 && rule.factors[cut].name == kHeadsOfRank)
      return std::nullopt;
    bool onStream = false, onSequence = false, ownFactor = false, onBatch = false; // without a batch: parameters
    for (size_t f = 0; f < tags.size(); ++f) {
      int64_t ways = modelWays * (tags[f] & kSequence ? contextWays : 1);
      onStream |= (tags[f] & kWidth) != 0;
      onBatch |= (tags[f] & kBatch) != 0;
      onSequence |= (tags[f] & kSequence) && canCut(rule.factors[f], ways);
      ownFactor |= !(tags[f] & kStream) && canCut(rule.factors[f], ways);
    }
    bool shouldCut = alongSequence && !isParameter && onBatch && onStream && onSequence && !ownFactor;
    // A product from the stream's width to a latent's has no factor of its own: it is cut as the stream is.
    auto isWidth = [](unsigned tag) { return (tag & kWidth) != 0; };
    bool makesLatent = shouldCut && isa_and_nonnull<DotGeneralOp>(node.op) && llvm::count_if(tags, isWidth) > 1;
    if (node.op && hasParameter(dims, node.op, rule, tags) && !makesLatent) {
      if (cut >= 0 && (isSum || (tags[cut] & kStream)))
        return std::nullopt;
      return cut < 0 ? kWhole : kPreferred;
    }
    if (cut < 0)
      return shouldCut ? kWhole : kPreferred;
    // Input gradients of several products (queries, keys and values; gate and up) are added before they are summed.
    bool addsGradients = isa_and_nonnull<AddOp>(node.op) && node.op->hasAttr(KerfDialect::kBackwardAttr);
    if (isSum || !(tags[cut] & kStream))
      return shouldCut && isSum && !addsGradients ? kWhole : kPreferred;
    // What a layer leaves for its backward lies as the layer made it: a number for each token too.
    bool handed = alongSequence && node.argument && !isParameter && onBatch && onSequence;
    if ((shouldCut || handed) && (tags[cut] & kSequence))
      return kPreferred;
    return std::nullopt;
  }

  StreamDims dims;
  Mesh mesh;
  int data, context;
  std::vector<int> model;
  int64_t modelWays = 1, contextWays = 1;
  bool alongSequence, solved, sharesKeys = false;
  DenseSet<Operation *> summed; // where `sharesKeys`
};

} // namespace

StrategyRank layoutRank(ModuleOp module, const Mesh &mesh, OverModel overModel) {
  auto layout = std::make_shared<Layout>(module, mesh, overModel);
  return
      [layout](const PlacementNode &node, ValueRange operands, ValueRange results, const std::vector<bool> &batchFactor,
               const Strategy &strategy) { return layout->rank(node, operands, results, batchFactor, strategy); };
}

/// Heads that the busiest rank computes when `first` ranks cut those of keys, and the parts that make it so.
static std::pair<int64_t, std::vector<int64_t>> partsFor(int64_t keyHeads, int64_t group, int64_t model,
                                                         int64_t first) {
  int64_t rest = model / first, local = (keyHeads + first - 1) / first * group;
  if (first < keyHeads || rest == 1)
    return {local, {first, rest}};
  int64_t second = std::gcd(rest, group); // positions of query heads must divide where key heads are major to them
  return {group / second, {first, second, rest / second}};
}

std::vector<int64_t> modelParts(ModuleOp module, int64_t model) {
  std::vector<std::pair<int64_t, int64_t>> attentions; // heads of keys, query heads of each
  module.walk([&](AttentionOp op) {
    int64_t keyHeads = shapeOf(op.getKey())[2];
    attentions.emplace_back(keyHeads, shapeOf(op.getQuery())[2] / keyHeads);
  });
  // The first part may leave some of its ranks without a key head only where that leaves them without queries too.
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

std::string modelPartName(int64_t before) { return before == 1 ? "model" : fmt::format("model/{}", before); }

/// Writes `dims` instead of factor `from` in every tensor of the rule.
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
  rule.factors[rule.operands[0][1].front()].kind = FactorKind::Replicated; // heads are cut instead of queries
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

bool canRing(Operation *attention) {
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
    return canRing(op) ? ringRule(std::move(rule)) : rule;
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
    // Causal work is balanced by giving each rank a chunk from the start and its mirror image from the end.
    int64_t chunks = style == ContextStyle::Ring && op.getCausal() ? 2 * context : context;
    if (positions % chunks != 0)
      status = Error{fmt::format("mesh.context is {}, which asks for {} chunks of the sequence; {} positions are not a "
                                 "multiple of that",
                                 context, chunks, positions)};
    else if (style == ContextStyle::Ulysses && keyHeads % (model * context) != 0)
      status = Error{fmt::format("context_style \"ulysses\" cuts the {} key/value heads {} ways (mesh.model {} x "
                                 "mesh.context {}), which does not divide them; \"ring\" cuts none by context",
                                 keyHeads, model * context, model, context)};
  });
  if (!found)
    return Error{fmt::format("mesh.context is {}; the model has no attention whose sequence it could cut", context)};
  if (style == ContextStyle::Ring && !fusedAttention)
    return Error{fmt::format("attention is \"unfused\" with mesh.context {}: ring attention is a fused kernel; give "
                             "\"fused\", or context_style \"ulysses\"",
                             context)};
  return status;
}

} // namespace kerf
