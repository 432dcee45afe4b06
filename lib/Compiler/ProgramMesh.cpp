// SPDX-License-Identifier: Apache-2.0
#include "ProgramMesh.h"
#include "kerf/Dialect/Kerf/KerfDialect.h"
#include "kerf/Sharding/Refine.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>

namespace kerf {

namespace {

/// An axis of a layout, or a sub-axis of one.
struct AxisPart {
  std::string axis; // name of the whole axis in the layout
  std::string name; // name of this part, unique in the layout
  int64_t size = 1;
  bool sharded = false; // whether optimizer states are sharded over this part
};

/// Returns the axis to which a part belongs: "model" for "model/2".
std::string roleOf(const std::string &part) { return part.substr(0, part.find('/')); }

/// Returns the axes of a stage's ranks, outermost first. "model" is split into the sub-axes of the layout; an axis over
/// only a part of which optimizer states are sharded is split in two.
std::vector<AxisPart> partsOf(const LayoutMesh &layout) {
  Mesh mesh = layout.plan.mesh();
  const std::vector<int64_t> &levels = layout.plan.optimizerSharding;
  bool shards = std::any_of(levels.begin(), levels.end(), [](int64_t level) { return level > 0; });
  std::vector<AxisRef> cut = shardingAxes(mesh, layout.plan.optimizerShardingRanks);
  std::vector<AxisPart> parts;
  for (int axis = 0; axis < static_cast<int>(mesh.axes.size()); ++axis) {
    const auto &[name, size] = mesh.axes[axis];
    if (name == ir::KerfDialect::kStageAxis)
      continue;
    if (name == "model") {
      for (const MeshAxis &part : layout.mesh.axes)
        if (roleOf(part.name) == name)
          parts.push_back({part.name, part.name, part.size});
      continue;
    }
    auto its = std::find_if(cut.begin(), cut.end(), [&](const AxisRef &ref) { return ref.axis == axis; });
    int64_t inner = its == cut.end() ? 1 : its->size;
    if (!shards || inner == size || inner == 1) {
      parts.push_back({name, name, size, shards && inner > 1});
      continue;
    }
    parts.push_back({name, name, size / inner});
    parts.push_back({name, fmt::format("{}/{}", name, size / inner), inner, true});
  }
  return parts;
}

/// Returns the name of a program axis that is `parts` in the layouts, such as "data|model"; unique among `taken`.
std::string nameOf(const std::set<std::string> &taken, const std::vector<std::string> &parts) {
  std::vector<std::string> roles;
  for (const std::string &part : parts)
    if (std::string role = parts.size() == 1 ? part : roleOf(part);
        std::find(roles.begin(), roles.end(), role) == roles.end())
      roles.push_back(role);
  std::string name = fmt::format("{}", fmt::join(roles, "|")), unique = name;
  for (int next = 2; taken.contains(unique); ++next)
    unique = fmt::format("{}/{}", name, next);
  return unique;
}

} // namespace

bool microbatchesCutBatchFirst(const CompletedPlan &completed) {
  return stagesDiffer(completed.plan) || (completed.microbatches > 1 && completed.plan.meshSizes.at("expert") > 1);
}

ProgramMesh programMesh(const CompletedPlan &completed, std::span<const LayoutMesh> layouts) {
  std::vector<std::vector<AxisPart>> parts;
  std::vector<Mesh> meshes;
  for (const LayoutMesh &layout : layouts) {
    parts.push_back(partsOf(layout));
    Mesh &mesh = meshes.emplace_back();
    for (const AxisPart &part : parts.back())
      mesh.axes.push_back({part.name, part.size});
  }
  Refinement refined = refine(meshes);
  ProgramMesh made;
  made.roles.resize(layouts.size());
  std::vector<std::vector<std::string>> partsOfSubAxis(refined.subAxes.size());
  for (size_t l = 0; l < layouts.size(); ++l)
    for (size_t part = 0; part < parts[l].size(); ++part)
      for (int subAxis : refined.axes[l][part])
        partsOfSubAxis[subAxis].push_back(parts[l][part].name);
  std::set<std::string> taken;
  for (size_t subAxis = 0; subAxis < refined.subAxes.size(); ++subAxis) {
    made.order.push_back(nameOf(taken, partsOfSubAxis[subAxis]));
    made.sizes[made.order.back()] = refined.subAxes[subAxis];
    taken.insert(made.order.back());
  }
  for (size_t l = 0; l < layouts.size(); ++l)
    for (size_t part = 0; part < parts[l].size(); ++part)
      for (int subAxis : refined.axes[l][part]) {
        const AxisPart &its = parts[l][part];
        made.roles[l].axes[its.axis].push_back(made.order[subAxis]);
        if (its.sharded)
          made.roles[l].sharded.push_back(made.order[subAxis]);
      }
  // The stage axis keeps its place in the order of the plan. With several layouts it is the outermost or the innermost
  // axis.
  std::string stage = ir::KerfDialect::kStageAxis.str(), time = ir::KerfDialect::kMicrobatchAxis.str();
  int at = completed.mesh.find(stage);
  if (at >= 0) {
    auto before = std::find_if(made.order.begin(), made.order.end(), [&](const std::string &name) {
      return layouts.size() == 1 ? completed.mesh.find(roleOf(name)) > at : at == 0;
    });
    made.order.insert(before, stage);
    made.sizes[stage] = completed.mesh.axes[at].size;
  }
  made.order.insert(microbatchesCutBatchFirst(completed) ? made.order.begin() : made.order.end(), time);
  made.sizes[time] = completed.microbatches;
  return made;
}

} // namespace kerf
