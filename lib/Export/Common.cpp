// SPDX-License-Identifier: Apache-2.0
// Keys that all targets treat alike, and notes that several share.
#include "View.h"

#include <set>

namespace kerf::exporting {

namespace {

bool allAlike(const auto &values) { return std::set(values.begin(), values.end()).size() <= 1; }

void tellsNothing(const View &, Draft &out) { out.idle("what Kerf says of the plan, no setting"); }

/// Strategies of single ops have no counterpart: every target cuts by rules of its own, which are Megatron-LM's.
void writeOps(const View &view, Draft &out) {
  std::set<std::string> axes;
  for (const OpPlan &op : view.plan.ops)
    for (const auto &[factor, cutBy] : op.strategy)
      axes.insert(cutBy.begin(), cutBy.end());
  out.value = fmt::format("{} strategies", view.plan.ops.size());
  out.differs(
      fmt::format("ops are not cut one by one ({}): the layout is Megatron-LM's, products on the way in by "
                  "columns and on the way out by rows",
                  axes.empty() ? std::string("here none is") : fmt::format("here by {}", fmt::join(axes, ", "))));
}

void writeArguments(const View &view, Draft &out) {
  size_t foreign = 0; // cut by something that Megatron-LM never cuts parameters by
  std::string first;
  for (const ArgumentPlan &argument : view.plan.arguments)
    for (const auto &axes : argument.dims)
      for (const std::string &axis : axes)
        if (axis != "model" && axis != "expert" && foreign++ == 0)
          first = fmt::format("{} by {}", argument.pattern, axis);
  out.value = fmt::format("{} arguments", view.plan.arguments.size());
  out.differs(foreign ? fmt::format("the layout is Megatron-LM's, which this plan's is not: {} dimensions are cut by "
                                    "other axes than model, first {}",
                                    foreign, first)
                      : "the layout is Megatron-LM's; which dimensions are cut is not taken from the plan");
}

void writeShardingRanks(const View &view, Draft &out) {
  if (view.sharding == 0)
    return out.idle("optimizer_sharding is 0");
  out.expressed("over all ranks of data, context and expert, as every target does");
}

} // namespace

const Table &commonTable() {
  static const Table table = {
      {"kerf", tellsNothing},
      {"predicted", tellsNothing},
      {"inputs", tellsNothing},
      {"report", tellsNothing},
      {"ops", writeOps},
      {"arguments", writeArguments},
      {"optimizer_sharding_ranks", writeShardingRanks},
  };
  return table;
}

void noteMixedRecompute(const View &view, Draft &out) {
  if (!allAlike(view.plan.recompute))
    out.differs(fmt::format("one value for all stages: \"{}\", the strongest, so that every stage fits; stages that "
                            "recompute less in the plan are slower",
                            view.recompute));
}

void noteMixedSharding(const View &view, Draft &out) {
  if (!allAlike(view.plan.optimizerSharding))
    out.differs(fmt::format("one value for all stages: {}, the strongest, so that every stage fits", view.sharding));
}

void noteTask(const View &view, Draft &out) {
  if (view.model.task == "causal")
    return out.expressed("the program trains causal language models");
  out.differs(fmt::format("the program that is started trains causal language models, not {} ({}); parallelism and "
                          "sizes are for the one of this model",
                          view.model.family, view.model.task));
}

std::string orderText(const View &view) {
  std::vector<std::string> axes;
  for (const MeshAxis &axis : view.in.completed.mesh.axes)
    axes.push_back(axis.name);
  return fmt::format("{}", fmt::join(axes, ", "));
}

} // namespace kerf::exporting
