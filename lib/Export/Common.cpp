// SPDX-License-Identifier: Apache-2.0
// Keys that all targets treat alike, and notes that several targets share.
#include "View.h"
#include "kerf/Support/Glob.h"

#include <algorithm>
#include <set>

namespace kerf::exporting {

namespace {

bool allAlike(const auto &values) { return std::set(values.begin(), values.end()).size() <= 1; }

void writeInformation(const View &, Draft &out) { out.idle("information about the plan, not a setting"); }

/// Writes the key "ops". Strategies of single ops have no counterpart in any target: all shard by Megatron-LM's rules.
void writeOps(const View &view, Draft &out) {
  std::set<std::string> axes;
  for (const OpPlan &op : view.plan.ops)
    for (const auto &[factor, cutBy] : op.strategy)
      axes.insert(cutBy.begin(), cutBy.end());
  out.value =
      fmt::format("{} strategies, {} rules of recomputation", view.plan.ops.size(), view.plan.recomputeOps.size());
  if (!view.plan.recomputeOps.empty())
    out.differs(
        "recomputation of single ops is left out: these ops are kept or recomputed like the rest of their layer, so "
        "memory and time differ");
  if (view.plan.ops.empty())
    return;
  out.differs(
      fmt::format("strategies of single ops are left out ({}): the layout is Megatron-LM's, with column-parallel "
                  "and then row-parallel products",
                  axes.empty() ? std::string("here no op is sharded")
                               : fmt::format("here ops are sharded over {}", fmt::join(axes, ", "))));
}

/// Returns true if the sharding `dims` (mesh axes by dimension) of a parameter, optimizer state or input
/// is Megatron-LM's.
bool isMegatronLayout(const View &view, const std::string &name, const std::vector<std::vector<std::string>> &dims) {
  using Dimension = MegatronSharding::Dimension;
  const auto &cuts = view.model.cuts;
  auto cut = std::find_if(cuts.begin(), cuts.end(),
                          [&](const MegatronSharding &known) { return globMatch(known.pattern, name); });
  size_t byModel = 0;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d].empty())
      continue;
    if (name.find('.') == std::string::npos) { // no parameter
      if (d != 0 || dims[d] != std::vector<std::string>{"data"})
        return false;
      continue;
    }
    bool here =
        cut != cuts.end() && (cut->dimension == Dimension::Any || (cut->dimension == Dimension::First && d == 0) ||
                              (cut->dimension == Dimension::NotFirst && d > 0) ||
                              (cut->dimension == Dimension::NotLast && d + 1 < dims.size()));
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
    return out.differs(
        "the layout is Megatron-LM's; for this model it is not known whether the plan's layout is the same");
  size_t compared = 0, foreign = 0;
  std::string first;
  for (const ArgumentPlan &argument : arguments) {
    std::string name =
        argument.pattern.substr(argument.pattern.find('/') + 1); // a state exp_avg/NAME has the layout of NAME
    if (name[0] == '@') // an argument of a layer's function: listed under its parameter's name too
      continue;
    ++compared;
    if (!isMegatronLayout(view, name, argument.dims) && foreign++ == 0)
      first = fmt::format("{} by {}", argument.pattern, Json(argument.dims).dump());
  }
  if (foreign == 0)
    return out.expressed(fmt::format("Megatron-LM's layout shards all {} the same way", compared));
  out.differs(fmt::format("the layout is Megatron-LM's, which shards {} of {} differently, the first of them {}",
                          foreign, compared, first));
}

} // namespace

const Table &commonTable() {
  static const Table table = {
      {"kerf", writeInformation},
      {"predicted", writeInformation},
      {"inputs", writeInformation},
      {"report", writeInformation},
      {"job", writeInformation},
      {"ops", writeOps},
      {"arguments", writeArguments},
      {"optimizer_states", noteStatesOnDevice},
      {"compression",
       [](const View &view, Draft &out) {
         out.value = fmt::format("{} patterns of parameters", view.plan.compression.size());
         out.differs("no codec is set: gradients are sent as they are, so steps take longer over slow links");
       }},
      {"optimizer.settings",
       [](const View &, Draft &out) {
         out.differs("the target does not have this optimizer, so its settings are left out");
       }},
      {"optimizer.nesterov",
       [](const View &view, Draft &out) {
         if (view.in.optimizer["nesterov"] == 0)
           return out.expressed("off, the default");
         out.differs("there is no Nesterov momentum");
       }},
  };
  return table;
}

/// Returns the mode of View::recompute.
static Recompute strongestRecompute(const View &view) {
  return parsePlanWord<Recompute>(view.recompute).value_or(Recompute::None);
}

void runsPlain1F1B(Draft &out) {
  out.runs.plan.schedule = {.name = "1f1b", .chunks = 1, .variant = "", .inFlight = {}};
  out.runs.plan.stages.clear();
}

void runsOverlap(const char *what, bool on, Draft &out) {
  std::vector<std::string> &all = *out.runs.plan.overlap;
  std::erase(all, what);
  if (on)
    all.emplace_back(what);
}

void runsOrder(std::initializer_list<const char *> order, Draft &out) {
  out.runs.plan.order.assign(order.begin(), order.end());
}

int64_t shardInstances(const View &view, Draft &out) {
  if (view.sharding == 0) {
    out.idle("optimizer_sharding is 0");
    return 1;
  }
  int64_t instances = replicaCount(view.in.completed.mesh) / view.plan.optimizerShardingRanks;
  if (instances == 1)
    out.expressed("over all ranks of data, context and expert, the default");
  return instances;
}

Table joinTables(std::initializer_list<Table> tables) {
  Table all;
  for (const Table &table : tables)
    all.insert(all.end(), table.begin(), table.end());
  return all;
}

Table modelTableOfTrainer(const char *why) {
  Table table;
  for (const char *key : {"model.family",
                          "model.layers",
                          "model.decoder_layers",
                          "model.hidden_size",
                          "model.heads",
                          "model.kv_heads",
                          "model.head_size",
                          "model.ffn_size",
                          "model.vocabulary",
                          "model.positions",
                          "model.norm",
                          "model.norm_epsilon",
                          "model.activation",
                          "model.position",
                          "model.rotary_base",
                          "model.rotary_fraction",
                          "model.rotary_scaling",
                          "model.window",
                          "model.residual",
                          "model.biases",
                          "model.query_key_norm",
                          "model.tied_embeddings",
                          "model.embedding_norm",
                          "model.scaled_embedding",
                          "model.experts",
                          "model.experts_per_token",
                          "model.expert_ffn_size",
                          "model.expert_weights_add_to_one",
                          "model.shared_expert_ffn_size",
                          "model.dense_layers",
                          "model.router",
                          "model.expert_groups",
                          "model.expert_weights_scale",
                          "model.latent_attention",
                          "model.dropout"})
    table.push_back({key, [why](const View &, Draft &out) { out.idle(why); }});
  return table;
}

void noteNoZeroBubble(const View &view, Draft &out) {
  view.pipeline == 1 ? out.idle("one stage") : out.differs("there are no zero-bubble schedules: 1F1B");
}

void noteInFlight(const View &, Draft &out) {
  out.idle("it limits zero-bubble 1p, 2p and by-memory: schedule.variant");
}

void noteShardingOverAllRanks(const View &view, Draft &out) {
  if (shardInstances(view, out) > 1) {
    out.runs.plan.optimizerShardingRanks = replicaCount(view.in.completed.mesh);
    out.differs(
        fmt::format("states are sharded over all {} ranks of data, context and expert: they take less memory, but "
                    "gathers and reductions use slower links than planned",
                    replicaCount(view.in.completed.mesh)));
  }
}

void noteMixedRecompute(const View &view, Draft &out) {
  const char *what = view.plan.recomputeLayers.empty() ? "stage" : "layer";
  if (!view.uniformRecompute || view.recomputeBlock) {
    out.runs.plan.recompute = {strongestRecompute(view)};
    out.runs.plan.recomputeLayers.clear();
    out.differs(
        fmt::format("one value for all {}s: \"{}\", the one that recomputes most, so that every stage fits; {}s "
                    "that recompute less in the plan are slower",
                    what, view.recompute, what));
  }
}

void noteMixedBlock(const View &view, Draft &out) {
  if (!view.recomputeBlock)
    return noteMixedRecompute(view, out);
  if (!view.uniformRecompute) {
    std::vector<LayerRecompute> &rules = out.runs.plan.recomputeLayers;
    rules.clear();
    for (auto [begin, end] : view.cut)
      for (int64_t layer = begin; layer < std::min(end, begin + *view.recomputeBlock); ++layer)
        rules.push_back({std::to_string(layer), Recompute::Full});
    out.differs(
        fmt::format("one number for all stages: {} layers of each part, as in the part that recomputes most; the "
                    "other parts are slower than in the plan",
                    *view.recomputeBlock));
  }
}

void noteMixedSharding(const View &view, Draft &out) {
  if (!allAlike(view.plan.optimizerSharding)) {
    out.runs.plan.optimizerSharding = {view.sharding};
    out.differs(
        fmt::format("one value for all stages: {}, the one that shards most, so that every stage fits", view.sharding));
  }
}

void noteStatesOnDevice(const View &view, Draft &out) {
  out.runs.plan.optimizerStates.reset();
  if (view.plan.optimizerStates == OptimizerStates::Device)
    return out.expressed("in f32 on the device, the default");
  out.differs("all states are in f32 on the device, and take more memory");
}

void noteTokensWait(const View &view, Draft &out) {
  if (!view.overlaps("experts"))
    return;
  runsOverlap("experts", false, out);
  if (view.experts() && view.expert > 1)
    out.differs("exchanges of tokens with experts run between kernels (the plan lists \"experts\")");
}

void noteTask(const View &view, Draft &out) {
  if (view.model.task == "causal")
    return out.expressed("the program trains causal language models");
  out.differs(
      fmt::format("the program that is started trains causal language models, not {} ({}); use the parallelism and "
                  "sizes with a program for this model",
                  view.model.family, view.model.task));
}

void writeLayout(const View &view, Draft &out) {
  if (view.tensor == 1)
    return out.idle("mesh.model is 1");
  if (view.plan.layout == OpLayout::Megatron)
    return out.expressed("the target's own layout");
  out.runs.plan.layout = OpLayout::Megatron;
  out.differs("the solver's strategies are left out: Megatron-LM's layout runs instead; plan with the pin \"layout\": "
              "\"megatron\" to get a plan for that layout");
}

std::string orderText(const View &view) {
  std::vector<std::string> axes;
  for (const MeshAxis &axis : view.in.completed.mesh.axes)
    axes.push_back(axis.name);
  return fmt::format("{}", fmt::join(axes, ", "));
}

} // namespace kerf::exporting
