// SPDX-License-Identifier: Apache-2.0
// kerf-compress-gradients (device level): the collectives of gradients with a codec send payloads instead of numbers.
#include "CodedGathers.h"
#include "CodedMeans.h"
#include "GradientBlocks.h"
#include "GradientExchange.h"
#include "GradientPieces.h"
#include "TimeAxis.h"
#include "kerf/Steps/Steps.h"
#include "kerf/Transforms/DeviceAxes.h"
#include "kerf/Transforms/Passes.h"

#include <fmt/format.h>
#include <numeric>

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

#define GEN_PASS_DEF_COMPRESSGRADIENTS
#include "kerf/Transforms/Passes.h.inc"

namespace {

/// The axes of a group of ranks, divided into those within a node and those between nodes.
struct NodeAxes {
  std::vector<AxisRef> inner, outer;
};

/// Divides the innermost axis of a group where `ranksOfNode` neighbouring ranks make a node. Returns nothing where all
/// ranks of the group are in one node, or each in another one.
std::optional<NodeAxes> nodeAxes(const Mesh &mesh, std::vector<AxisRef> axes, int64_t ranksOfNode) {
  const AxisRef last = axes.back();
  int64_t distance = mesh.axes[size_t(last.axis)].size / (last.before * last.size); // of neighbours along the axis
  for (int axis = last.axis + 1; axis < int(mesh.axes.size()); ++axis)
    distance *= axis == microbatchAxis(mesh) ? 1 : mesh.axes[size_t(axis)].size;
  const int64_t inner = ranksOfNode % distance ? 1 : std::gcd(ranksOfNode / distance, last.size);
  if (inner == 1 || (inner == last.size && axes.size() == 1))
    return std::nullopt;
  NodeAxes divided{{{last.axis, last.before * (last.size / inner), inner}}, std::move(axes)};
  divided.outer.back().size /= inner;
  if (divided.outer.back().size == 1)
    divided.outer.pop_back();
  return divided;
}

/// Replaces an all-reduce by a plain reduce-scatter in the node, a compressed all-reduce between nodes, which is
/// returned, and a plain all-gather in the node. The plain ones run in the batches that sum.
Operation *sumInNodesFirst(AllReduceOp start, const NodeAxes &axes, const SumBatches &batches) {
  auto wait = cast<WaitOp>(*start->user_begin());
  OpBuilder builder(start);
  Emitter emit{builder, start.getLoc()};
  auto type = tensorType(start.getOperand());
  const int64_t count = type.getNumElements(), ranks = axes.inner.front().size, chunk = (count + ranks - 1) / ranks;
  auto pendingOf = [&](int64_t elements) {
    return PendingType::get(builder.getContext(), RankedTensorType::get({elements}, type.getElementType()));
  };
  auto waited = [&](Value pending) -> Value {
    return WaitOp::create(builder, emit.loc, cast<PendingType>(pending.getType()).getTensor(), pending);
  };
  auto inSums = [&](Value pending) {
    if (batches.hasLocalSteps())
      pending.getDefiningOp()->setAttr(kBatchesAttr, builder.getDenseI64ArrayAttr(flatBatches(batches.sums)));
    return waited(pending);
  };
  auto flat = [&](const std::vector<AxisRef> &refs) { return builder.getDenseI64ArrayAttr(flatAxes(refs)); };
  auto first = builder.getI64IntegerAttr(0);
  Value whole = padded(emit, emit.reshape(start.getOperand(), {count}), 0, ranks * chunk);
  Value part = inSums(ReduceScatterOp::create(builder, emit.loc, pendingOf(chunk), whole, flat(axes.inner), first,
                                              start.getKindAttr(), start.getStreamAttr(), start.getCauseAttr()));
  auto between = AllReduceOp::create(builder, emit.loc, pendingOf(chunk), part, flat(axes.outer), start.getKindAttr(),
                                     start.getStreamAttr(), start.getCauseAttr());
  between->setDiscardableAttrs(start->getDiscardableAttrDictionary());
  Value sum = waited(between);
  builder.setInsertionPoint(firstUserOf(wait));
  Value all = inSums(AllGatherOp::create(builder, emit.loc, pendingOf(ranks * chunk), sum, flat(axes.inner), first,
                                         start.getStreamAttr(), start.getCauseAttr()));
  wait.getResult().replaceAllUsesWith(emit.reshape(rowsOf(emit, all, 0, count), type.getShape()));
  wait->erase();
  start->erase();
  return between;
}

/// Returns the axes along which ranks have different numbers of a gradient: those over which `start` sums it, those
/// along which it was cut before, those that cut its parameter, and the microbatches if each is summed by itself.
FailureOr<std::vector<AxisRef>> axesOfDifferences(Operation *start, StringRef parameter, const Mesh &mesh,
                                                  CompressionStates &states) {
  std::vector<AxisRef> axes;
  auto add = [&](const AxisRef &axis) {
    if (axis.axis != stageAxis(mesh) && !llvm::is_contained(axes, axis))
      axes.push_back(axis);
  };
  auto addAxesOf = [&](Operation *op) {
    for (const AxisRef &axis : axesFromFlat(op->getAttrOfType<DenseI64ArrayAttr>("axes").asArrayRef()))
      add(axis);
  };
  addAxesOf(start);
  for (Operation *op = start->getOperand(0).getDefiningOp();
       isa_and_nonnull<WaitOp, AllReduceOp, ReduceScatterOp, LocalSliceOp>(op); op = op->getOperand(0).getDefiningOp())
    if (isa<ReduceScatterOp, LocalSliceOp>(op))
      addAxesOf(op);
  if (auto its = dyn_cast_or_null<BlockArgument>(states.find("parameter", parameter))) {
    auto main = start->getParentOfType<func::FuncOp>();
    auto sharding = main.getArgAttrOfType<ShardingAttr>(its.getArgNumber(), KerfDialect::kShardingAttr);
    auto type = main.getArgAttrOfType<TypeAttr>(its.getArgNumber(), KerfDialect::kGlobalTypeAttr);
    if (sharding && type) {
      auto cut = sharding.toSharding(mesh, shapeOf(type.getValue()), [&] { return start->emitError(); });
      if (failed(cut))
        return failure();
      for (const DimSharding &dim : cut->dims)
        for (const AxisRef &axis : dim.axes)
          add(axis);
    }
  }
  if (start->hasAttr(KerfDialect::kEachMicrobatchAttr) && microbatchAxis(mesh) >= 0)
    add(wholeAxis(mesh, microbatchAxis(mesh)));
  return axes;
}

struct CompressGradients : impl::CompressGradientsBase<CompressGradients> {
  using CompressGradientsBase::CompressGradientsBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto main = module.lookupSymbol<func::FuncOp>(KerfDialect::kEntryName);
    if (!main)
      return;
    if (failed(codeGathers(module)))
      return signalPassFailure();
    SmallVector<std::pair<Operation *, DictionaryAttr>> compressed;
    for (Operation &op : main.front())
      if (auto how = op.getAttrOfType<DictionaryAttr>(kCompressionAttr))
        compressed.push_back({&op, how});
    std::vector<CompressedSync> sums;
    for (auto &[start, attr] : compressed)
      sums.push_back(CompressedSync::fromAttr(attr));
    updateInEachStep(main, sums);
    if (compressed.empty())
      return;
    Mesh mesh = meshOf(module);
    CompressionStates states(main, mesh);
    std::vector<std::unique_ptr<GradientExchange>> exchanges;
    bool hasLocalSteps = false;
    for (auto [its, how] : llvm::zip(compressed, sums)) {
      Operation *start = its.first;
      auto codec = findCodec(module, how.codec);
      if (!codec) {
        start->emitError() << codec.error().message;
        return signalPassFailure();
      }
      if (how.feedback && start->hasAttr(KerfDialect::kEachMicrobatchAttr)) {
        start->emitError()
            << "the gradient of '" << how.parameter << "' is scattered in each microbatch, where codec " << how.codec
            << " cannot keep error feedback; use a codec without it, such as int8, or optimizer sharding "
               "0 or 1";
        return signalPassFailure();
      }
      auto differing = axesOfDifferences(start, how.parameter, mesh, states);
      FailureOr<Value> rate = sumMeanInstead(start, how, mesh, states);
      if (failed(rate) || failed(differing) || failed(sumWithMomentum(start, how, states)))
        return signalPassFailure();
      hasLocalSteps |= bool(*rate);
      SmallVector<Operation *> pieces = cutIntoPieces(start, how.pieces, codec->block);
      for (auto [index, piece] : llvm::enumerate(pieces)) {
        if (pieces.size() > 1)
          how.piece = fmt::format("#{}", index);
        if (auto sum = dyn_cast<AllReduceOp>(piece); sum && how.hierarchy)
          if (auto axes = nodeAxes(mesh, axesFromFlat(sum.getAxes()), ranksOfNode))
            piece = sumInNodesFirst(sum, *axes, sumBatches(how));
        ExchangeContext context{states, int64_t(exchanges.size()), *differing, *rate};
        exchanges.push_back(codec->rank ? createLowRankExchange(piece, how, context, *codec)
                                        : createCodedExchange(piece, how, context, *codec));
      }
    }
    emit(exchanges);
    states.finish();
    if (hasLocalSteps)
      mergeScalars(main.front());
    module->removeAttr(kCodecTextsAttr);
  }

private:
  /// Emits the parts of all exchanges. Gradients that fill a bucket together are a group, whose messages travel
  /// together: the second parts of a group's exchanges come after the first parts of the next group's, so that messages
  /// travel meanwhile, and no first part of a group waits for a second part of the same group.
  static void emit(std::vector<std::unique_ptr<GradientExchange>> &exchanges) {
    std::vector<ExchangeGroup> groups = groupsOf(exchanges);
    for (size_t g = 0; g <= groups.size(); ++g) {
      Operation *last = nullptr;
      if (g < groups.size())
        for (size_t i = groups[g].begin; i < groups[g].end; ++i) {
          last = exchanges[i]->replaced();
          OpBuilder builder(last);
          exchanges[i]->send(builder);
        }
      if (g == 0)
        continue;
      const ExchangeGroup &before = groups[g - 1];
      Operation *place = last && last->isBeforeInBlock(before.firstUser) ? last : before.firstUser;
      OpBuilder builder(place);
      for (size_t i = before.begin; i < before.end; ++i)
        exchanges[i]->add(builder);
      // The sum of a piece is decoded while later pieces are under way. Its first user needs all pieces.
      if (g < kPiecesUnderWay || g == groups.size())
        continue;
      const ExchangeGroup &done = groups[g - kPiecesUnderWay];
      if (GradientExchange &piece = *exchanges[done.begin]; piece.isPiece() && place->isBeforeInBlock(done.firstUser))
        piece.receive(builder);
    }
    for (auto &exchange : exchanges) {
      if (!exchange->replaced())
        continue;
      OpBuilder builder(exchange->firstUser());
      exchange->receive(builder);
    }
  }

  /// Pieces between the one that is encoded and the one whose sum is decoded.
  static constexpr size_t kPiecesUnderWay = 2;

  /// The exchanges `begin` to `end` - 1, and the first op that uses one of their sums.
  struct ExchangeGroup {
    size_t begin = 0, end = 0;
    Operation *firstUser = nullptr;
  };
  /// Returns groups of successive exchanges with at least steps::kBucketBytes of gradients each. A sum that is used
  /// before a later gradient exists is in an earlier group than that gradient, and a piece is a group of its own.
  static std::vector<ExchangeGroup> groupsOf(const std::vector<std::unique_ptr<GradientExchange>> &exchanges) {
    std::vector<ExchangeGroup> groups;
    int64_t bytes = 0;
    for (size_t i = 0; i < exchanges.size(); ++i) {
      const GradientExchange &exchange = *exchanges[i];
      if (groups.empty() || bytes >= steps::kBucketBytes || exchange.isPiece() ||
          groups.back().firstUser->isBeforeInBlock(exchange.replaced())) {
        groups.push_back({i, i, exchange.firstUser()});
        bytes = 0;
      }
      ExchangeGroup &group = groups.back();
      group.end = i + 1;
      if (Operation *user = exchange.firstUser(); user->isBeforeInBlock(group.firstUser))
        group.firstUser = user;
      bytes += exchange.gradientBytes();
    }
    return groups;
  }
};

} // namespace
} // namespace kerf
