// SPDX-License-Identifier: Apache-2.0
// Keys that all targets treat alike, and notes that several share.
#include "View.h"
#include "kerf/Support/Glob.h"

#include <algorithm>
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
  out.value = fmt::format("{} strategies, {} of recomputation", view.plan.ops.size(), view.plan.recomputeOps.size());
  if (!view.plan.recomputeOps.empty())
    out.differs("recomputation of single ops is left out: what the plan keeps or makes again by itself goes with its "
                "layer, and memory and time differ");
  if (view.plan.ops.empty())
    return;
  out.differs(
      fmt::format("ops are not cut one by one ({}): the layout is Megatron-LM's, products on the way in by "
                  "columns and on the way out by rows",
                  axes.empty() ? std::string("here none is") : fmt::format("here by {}", fmt::join(axes, ", "))));
}

/// As Megatron-LM lays a parameter (or its optimizer state) on the ranks, or an input.
bool isMegatrons(const View &view, const std::string &name, const std::vector<std::vector<std::string>> &dims) {
  using Where = MegatronCut::Where;
  const auto &cuts = view.model.cuts;
  auto cut =
      std::find_if(cuts.begin(), cuts.end(), [&](const MegatronCut &known) { return globMatch(known.pattern, name); });
  size_t byModel = 0;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d].empty())
      continue;
    if (name.find('.') == std::string::npos) { // no parameter
      if (d != 0 || dims[d] != std::vector<std::string>{"data"})
        return false;
      continue;
    }
    bool here = cut != cuts.end() &&
                (cut->where == Where::Any || (cut->where == Where::First && d == 0) ||
                 (cut->where == Where::NotFirst && d > 0) || (cut->where == Where::NotLast && d + 1 < dims.size()));
    if (!here || dims[d] != std::vector<std::string>{"model"})
      return false;
    ++byModel;
  }
  return byModel == (cut != cuts.end() && view.tensor > 1 ? 1 : 0);
}

void writeArguments(const View &view, Draft &out) {
  const std::vector<ArgumentPlan> &arguments = view.plan.arguments;
  out.value = fmt::format("{} arguments", arguments.size());
  if (view.model.cuts.empty())
    return out.differs("the layout is Megatron-LM's; whether the plan's is the same is not known for this model");
  size_t compared = 0, foreign = 0;
  std::string first;
  for (const ArgumentPlan &argument : arguments) {
    std::string name = argument.pattern.substr(argument.pattern.find('/') + 1); // of exp_avg/NAME: NAME's
    if (name[0] == '@') // of the function of a layer: stands above under its parameter's name
      continue;
    ++compared;
    if (!isMegatrons(view, name, argument.dims) && foreign++ == 0)
      first = fmt::format("{} by {}", argument.pattern, Json(argument.dims).dump());
  }
  if (foreign == 0)
    return out.expressed(fmt::format("Megatron-LM's layout cuts all {} alike", compared));
  out.differs(
      fmt::format("the layout is Megatron-LM's, which cuts {} of {} otherwise, first {}", foreign, compared, first));
}

} // namespace

const Table &commonTable() {
  static const Table table = {
      {"kerf", tellsNothing},
      {"predicted", tellsNothing},
      {"inputs", tellsNothing},
      {"report", tellsNothing},
      {"job", tellsNothing},
      {"ops", writeOps},
      {"arguments", writeArguments},
      {"optimizer.settings",
       [](const View &, Draft &out) { out.differs("settings of an optimizer that is not there"); }},
      {"optimizer.nesterov",
       [](const View &view, Draft &out) {
         if (view.in.optimizer["nesterov"] == 0)
           return out.expressed("off, the default");
         out.differs("there is no Nesterov momentum");
       }},
  };
  return table;
}

int64_t shardInstances(const View &view, Draft &out) {
  if (view.sharding == 0) {
    out.idle("optimizer_sharding is 0");
    return 1;
  }
  int64_t instances = replicasOf(view.in.completed.mesh) / view.plan.optimizerShardingRanks;
  if (instances == 1)
    out.expressed("over all ranks of data, context and expert, the default");
  return instances;
}

void noteAllShare(const View &view, Draft &out) {
  if (shardInstances(view, out) > 1)
    out.differs(fmt::format("over all {} ranks of data, context and expert: less memory, gathers and reductions over "
                            "slower links than planned",
                            replicasOf(view.in.completed.mesh)));
}

void noteMixedRecompute(const View &view, Draft &out) {
  const char *what = view.plan.recomputeLayers.empty() ? "stage" : "layer";
  if (!view.recomputeAlike || view.recomputeBlock)
    out.differs(fmt::format("one value for all {}s: \"{}\", the strongest, so that every stage fits; {}s that "
                            "recompute less in the plan are slower",
                            what, view.recompute, what));
}

void noteMixedBlock(const View &view, Draft &out) {
  if (!view.recomputeBlock)
    return noteMixedRecompute(view, out);
  if (!view.recomputeAlike)
    out.differs(fmt::format("one number for all stages: {} layers of each part, of the part that recomputes most; the "
                            "others are slower than in the plan",
                            *view.recomputeBlock));
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

void writeLayout(const View &view, Draft &out) {
  if (view.tensor == 1)
    return out.idle("mesh.model is 1");
  if (view.plan.layout == OpLayout::Megatron)
    return out.expressed("its own");
  out.differs("the solver's strategies are not told: Megatron-LM's layout runs instead; plan with the pin \"layout\": "
              "\"megatron\" for one that is");
}

std::string orderText(const View &view) {
  std::vector<std::string> axes;
  for (const MeshAxis &axis : view.in.completed.mesh.axes)
    axes.push_back(axis.name);
  return fmt::format("{}", fmt::join(axes, ", "));
}

} // namespace kerf::exporting
