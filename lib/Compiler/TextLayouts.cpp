// SPDX-License-Identifier: Apache-2.0
#include "kerf/Compiler/TextLayouts.h"

#include "kerf/Dialect/Kerf/KerfDialect.h"
#include "kerf/Dialect/Kerf/TextLocation.h"
#include "kerf/Transforms/OpKeys.h"
#include "kerf/Transforms/Placement.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <fmt/format.h>

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

static void addPlaces(Location location, std::vector<TextPlace> &places) {
  if (auto name = dyn_cast<NameLoc>(location))
    return addPlaces(name.getChildLoc(), places);
  if (auto fused = dyn_cast<FusedLoc>(location))
    for (Location part : fused.getLocations())
      addPlaces(part, places);
  if (auto place = dyn_cast<FileLineColLoc>(location); place && place.getFilename() == kTextLocation)
    places.push_back({place.getLine(), place.getColumn()});
}

/// Returns the sharding in which the users of a value take it: that of its producer, or of the reshard that sums its
/// partial local tensors. Absent where the partial tensors pass on to the users.
static std::optional<Sharding> settledSharding(Value value, const Sharding &made, const Mesh &mesh) {
  if (made.partial.empty())
    return made;
  for (Operation *user : value.getUsers()) {
    auto reshard = dyn_cast<ReshardOp>(user);
    if (!reshard)
      continue;
    auto to = reshard.getTo().toSharding(mesh, shapeOf(value), [&] { return reshard.emitError(); });
    if (succeeded(to) && to->partial.empty())
      return *to;
  }
  return std::nullopt;
}

std::vector<PlacedOp> placedOps(ModuleOp module, const Mesh &mesh) {
  std::vector<PlacedOp> placed;
  for (auto &[op, key] : opKeys(module)) {
    PlacedOp its{key.key, {}, {}, {}, {}};
    addPlaces(op->getLoc(), its.places);
    if (its.places.empty() || op->getNumResults() != 1 || op->hasAttr(KerfDialect::kBackwardAttr) || isa<ReshardOp>(op))
      continue;
    Rule rule = cast<ShardingRuleOpInterface>(op).getShardingRule();
    auto attr = op->getAttrOfType<DictionaryAttr>(KerfDialect::kStrategyAttr);
    auto strategy =
        attr ? parseStrategyAttr(attr, mesh, rule) : Result<Strategy>(Strategy{std::vector<int>(mesh.axes.size(), -1)});
    auto sharding = strategy ? project(rule, mesh, *strategy) : std::nullopt;
    if (!sharding)
      continue;
    its.shape = shapeOf(op->getResult(0));
    its.result = settledSharding(op->getResult(0), sharding->results[0], mesh);
    for (auto [operand, taken] : llvm::zip(op->getOperands(), sharding->operands))
      its.operands.emplace_back(shapeOf(operand), taken);
    placed.push_back(std::move(its));
  }
  return placed;
}

std::string axisText(const Mesh &mesh, const AxisRef &ref) {
  const MeshAxis &axis = mesh.axes[static_cast<size_t>(ref.axis)];
  return ref == wholeAxis(mesh, ref.axis) ? axis.name : fmt::format("{}:({}){}", axis.name, ref.before, ref.size);
}

} // namespace kerf
