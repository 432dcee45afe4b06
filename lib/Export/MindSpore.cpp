// SPDX-License-Identifier: Apache-2.0
// Export to MindSpore's static graphs (AutoParallel): a Python module with the layouts of Megatron-LM's tensor
// parallelism and of expert parallelism for each kind of product, which are given to the primitives of a network by
// shard(), the stages and their chunks, the optimizer's sharding and the recomputed layers. The module also writes the
// strategy file of a network's parameters.
#include "View.h"

#include <algorithm>

namespace kerf::exporting {

namespace {

void writeSchedule(const View &view, Draft &out) {
  if (view.pipeline == 1)
    return out.idle("one stage");
  const bool isGPipe = view.schedule == ScheduleKind::GPipe;
  out.file("scheduler", isGPipe ? "gpipe" : "1f1b");
  if (isGPipe || view.schedule == ScheduleKind::OneFOneB || view.schedule == ScheduleKind::Interleaved)
    return;
  runsPlain1F1B(out);
  out.differs("1F1B runs instead: zero_bubble_v, the only schedule of MindSpore without bubbles, is none of Kerf's");
}

void writeChunks(const View &view, Draft &out) {
  if (view.chunks == 1)
    return out.idle("one chunk a stage");
  if (view.cut.empty())
    return out.differs("the layers of each chunk are not known of this model: fill in STAGES_OF_LAYERS");
  out.file("chunks", view.chunks); // STAGES_OF_LAYERS comes back to a stage for each of its chunks
}

void writeStages(const View &view, Draft &out) {
  if (view.pipeline == 1)
    return out.idle("one stage");
  if (view.cut.empty())
    return out.differs("the layers of each stage are not known of this model: fill in STAGES_OF_LAYERS");
  std::vector<int64_t> stages;
  const std::vector<int64_t> parts = view.layersByPart();
  for (size_t part = 0; part < parts.size(); ++part)
    stages.insert(stages.end(), size_t(parts[part]), int64_t(part) % view.pipeline);
  out.file("stages_of_layers", stages);
}

/// Each layer recomputes as the plan says, because MindSpore takes that of each cell.
void writeRecompute(const View &view, Draft &out) {
  const std::vector<int64_t> parts = view.cut.empty() ? std::vector{view.model.layers} : view.layersByPart();
  std::vector<std::string> modes;
  for (size_t part = 0; part < parts.size(); ++part)
    for (int64_t i = 0; i < parts[part]; ++i)
      modes.emplace_back(
          toString(recomputeModeOf(view.plan, int64_t(part) % view.pipeline, int64_t(modes.size()), "")));
  // Rules may name layers by patterns that only the model's own names tell.
  const auto &rules = view.plan.recomputeLayers;
  const bool isKnown = !modes.empty() && std::all_of(rules.begin(), rules.end(), [&](const LayerRecompute &rule) {
    for (size_t layer = 0; layer < modes.size(); ++layer)
      if (matchesLayer(rule.pattern, int64_t(layer), ""))
        return true;
    return false;
  });
  if (isKnown)
    return out.file("recompute", modes);
  noteMixedRecompute(view, out);
  out.file("recompute", view.recompute);
}

void writeSharding(const View &view, Draft &out) {
  noteMixedSharding(view, out);
  if (view.sharding == 0)
    return out.expressed("hsdp() is not called");
  out.file("optimizer_level", fmt::format("level{}", view.sharding));
  if (view.sharding < 3)
    out.differs("every level of hsdp() stores parameters in parts too, and gathers them once a step: less memory");
}

void writeShardingRanks(const View &view, Draft &out) {
  if (view.sharding == 0)
    return out.idle("optimizer_sharding is 0");
  const int64_t planned = view.plan.optimizerShardingRanks;
  out.file("shard_size", planned == 0 ? -1 : planned);
}

void writeOrder(const View &view, Draft &out) {
  if (view.axisOrderIs({"stage", "data", "expert", "model"}))
    return out.expressed("stages, then the layout's axes dp, ep and mp");
  runsOrder({"stage", "data", "expert", "model"}, out);
  out.differs(fmt::format(
      "ranks lie as stage, data, expert, model (outermost first), not as {}: groups use other links", orderText(view)));
}

void isNetworks(const View &, Draft &out) { out.idle("a part of your own network and optimizer"); }

Table ownTable() {
  return {
      {"model.sizes", isNetworks},
      {"model.task", isNetworks},
      {"model.sequence", isNetworks},
      {"model.expert_capacity", isNetworks},
      {"mesh.stage", [](const View &v, Draft &out) { out.file("stages", v.pipeline); }},
      {"mesh.data", [](const View &v, Draft &out) { out.file("data", v.data); }},
      {"mesh.model", [](const View &v, Draft &out) { out.file("model", v.tensor); }},
      {"mesh.context", [](const View &, Draft &out) { out.idle("1"); }},
      {"mesh.expert", [](const View &v, Draft &out) { out.file("expert", v.expert); }},
      {"order", writeOrder},
      {"global_batch", [](const View &v, Draft &out) { out.file("global_batch", v.plan.globalBatch); }},
      {"microbatch", [](const View &v, Draft &out) { out.file("microbatches", v.microbatches); }},
      {"schedule.name", writeSchedule},
      {"schedule.chunks", writeChunks},
      {"schedule.variant", noteNoZeroBubble},
      {"schedule.in_flight", noteInFlight},
      {"stages", writeStages},
      {"recompute", writeRecompute},
      {"optimizer_sharding", writeSharding},
      {"optimizer_sharding_ranks", writeShardingRanks},
      {"sequence_parallel", [](const View &v, Draft &out) { out.file("sequence_parallel", v.sequenceParallel); }},
      {"overlap", [](const View &, Draft &out) { out.expressed("the graph compiler decides what overlaps"); }},
      {"gradient_dtype", isNetworks},
      {"layout", writeLayout},
      {"attention",
       [](const View &, Draft &out) { out.expressed("the roles attention and scores have strategies for either"); }},
      {"context_style", [](const View &, Draft &out) { out.idle("mesh.context is 1"); }},
      {"dtype", isNetworks},
      {"optimizer.kind", isNetworks},
      {"optimizer.beta1", isNetworks},
      {"optimizer.beta2", isNetworks},
      {"optimizer.eps", isNetworks},
      {"optimizer.momentum", isNetworks},
      {"optimizer.weight_decay", isNetworks},
      {"optimizer.no_decay", isNetworks},
      {"optimizer.clip_norm", isNetworks},
  };
}

/// The part of the module that is the same for every plan.
constexpr const char *kModule = R"(
import json

from mindspore.parallel import Layout
from mindspore.parallel.auto_parallel import AutoParallel
from mindspore.parallel.nn import Pipeline

DEVICES = Layout((DATA, EXPERT, MODEL), ("dp", "ep", "mp"))  # the NPUs of one stage
BATCH = ("dp", "ep")  # how samples are cut
ROWS = ("dp", "ep", "mp") if SEQUENCE_PARALLEL else BATCH  # how tokens are cut outside of products, where tensors have the form [tokens, hidden]

# Role of a primitive -> the cut of each dimension of its operands, and of its result where the primitive takes it. Products are MatMul with
# transpose_b=True, whose weights are [out, in]; attention has the form [batch, heads, sequence, size].
ROLES = {
    "column": (((BATCH, "None"), ("mp", "None")), None),       # queries, keys, values, the first products of the MLP, the head
    "column_bias": (((BATCH, "mp"), ("mp",)), None),
    "row": (((BATCH, "mp"), ("None", "mp")), ((ROWS, "None"),)),  # the products behind attention and at the end of the MLP
    "row_bias": (((ROWS, "None"), ("None",)), None),
    "embedding": ((("mp", "None"), (BATCH, "None")), None),
    "norm": (((ROWS, "None"), ("None",)), None),
    "add": (((ROWS, "None"), (ROWS, "None")), None),
    "activation": (((BATCH, "mp"),), None),
    "gate": (((BATCH, "mp"), (BATCH, "mp")), None),
    "attention": (((BATCH, "mp", "None", "None"),) * 3, None),  # FlashAttentionScore, without its masks
    "scores": (((BATCH, "mp", "None", "None"),) * 2, None),     # BatchMatMul
    "softmax": (((BATCH, "mp", "None", "None"),), None),
    # Experts have tensors [experts, tokens, hidden] and weights [experts, in, out]: BatchMatMul. Tokens move to the ranks of their experts
    # where a tensor comes from another role.
    "dispatched": ((("ep", "dp", "None"),), None),
    "experts_column": ((("ep", "dp", "None"), ("ep", "None", "mp")), None),
    "experts_row": ((("ep", "dp", "mp"), ("ep", "mp", "None")), (("ep", "dp", "None"),)),
    "experts_activation": ((("ep", "dp", "mp"),), None),
    "experts_gate": ((("ep", "dp", "mp"), ("ep", "dp", "mp")), None),
    "router": (((BATCH, "None"), ("None", "None")), None),
}
# Cuts of a parameter, by the role of its product; parameters of other roles are whole.
PARAMETERS = {"column": ("mp", "None"), "column_bias": ("mp",), "row": ("None", "mp"), "embedding": ("mp", "None"),
              "experts_column": ("ep", "None", "mp"), "experts_row": ("ep", "mp", "None")}


def shard(primitive, role):
    """Gives a primitive the strategy of its role, and returns it."""
    operands, results = ROLES[role]
    layouts = lambda tensors: tuple(DEVICES(*cuts) for cuts in tensors)
    return primitive.shard(layouts(operands), layouts(results) if results and MODEL > 1 else None)


def recompute_of(layer):
    """How layer `layer`, from 0, recomputes: "none", "selective", "full" or "offload"."""
    return RECOMPUTE if isinstance(RECOMPUTE, str) else RECOMPUTE[layer]


def parallel(network, layers=(), first=(), last=()):
    """Wraps a network with its loss. `layers` are the names of the layers' cells in their order; `first` and `last` those of other cells, which are on
    the first and on the last stage. Layers are recomputed as planned: "selective" recomputes their cell `attention`, and "offload" keeps activations
    in the host's memory."""
    cells = dict(network.cells_and_names())
    if OPTIMIZER_LEVEL:
        for parameter in network.trainable_params():
            parameter.parallel_optimizer = True
    for i, name in enumerate(layers):
        mode = recompute_of(i)
        if mode == "full":
            cells[name].recompute()
        elif mode == "selective":
            cells[name].attention.recompute()
        elif mode == "offload":
            cells[name].offload()
    if STAGES > 1:
        if len(layers) != len(STAGES_OF_LAYERS):
            raise ValueError(f"the plan has {len(STAGES_OF_LAYERS)} layers, and {len(layers)} are given")
        config = {**{name: 0 for name in first}, **dict(zip(layers, STAGES_OF_LAYERS)), **{name: STAGES - 1 for name in last}}
        network = Pipeline(network, MICROBATCHES, stage_config=config)
    wrapped = AutoParallel(network, parallel_mode="semi_auto")
    if STAGES > 1:
        # MindSpore takes every schedule but plain 1F1B as an interleaved one.
        wrapped.pipeline(stages=STAGES, interleave=CHUNKS > 1 or SCHEDULER != "1f1b", scheduler=SCHEDULER)
    if OPTIMIZER_LEVEL:
        wrapped.hsdp(shard_size=SHARD_SIZE, threshold=0, optimizer_level=OPTIMIZER_LEVEL)
    return wrapped


def optimizer_shards(cuts):
    """The step between the ranks that share a parameter with these cuts, and their number (-1: all that have the same part); zeros without sharding."""
    if not OPTIMIZER_LEVEL:
        return 0, 0
    step = 1
    for axis, size in (("mp", MODEL), ("ep", EXPERT), ("dp", DATA)):
        if axis not in cuts and size > 1:
            return step, SHARD_SIZE
        step *= size
    return 0, 0


def write_strategy(path, parameters, stage=0):
    """Writes the strategy file of the parameters of a stage: {name: (shape, role or None)}."""
    items = {}
    for name, (shape, role) in parameters.items():
        cuts = PARAMETERS.get(role, ("None",) * len(shape))
        layout = DEVICES(*cuts).to_dict()
        step, size = optimizer_shards(cuts)
        items[f"{stage}-{name}" if STAGES > 1 else name] = {
            "dev_matrix": list(layout["device_matrix"]), "tensor_map": list(layout["tensor_map"]), "param_split_shape": [], "indices_offset": [],
            "field": 0, "opt_weight_shard_step": step, "opt_weight_shard_size": size}
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"current_stage": stage, "parallel_layout_item": items}, file, indent=1)
)";

} // namespace

const Table &mindSporeTable() {
  static const Table table = joinTables({ownTable(), modelTableOfTrainer("a part of your own network")});
  return table;
}

std::string mindSporeText(const std::vector<std::string> &head, const Json &config) {
  std::string text;
  for (const std::string &line : head)
    text += line.empty() ? "#\n" : fmt::format("# {}\n", line);
  auto number = [&](const char *name, const char *key, int64_t missing) {
    text += fmt::format("{} = {}\n", name, config.value(key, missing));
  };
  auto word = [&](const char *name, const char *key) {
    text += fmt::format("{} = {}\n", name, config.contains(key) ? config[key].dump() : "None");
  };
  text += "\n";
  number("STAGES", "stages", 1);
  number("DATA", "data", 1);
  number("EXPERT", "expert", 1);
  number("MODEL", "model", 1);
  number("GLOBAL_BATCH", "global_batch", 1);
  number("MICROBATCHES", "microbatches", 1);
  text += fmt::format("SEQUENCE_PARALLEL = {}\n", config.value("sequence_parallel", false) ? "True" : "False");
  number("CHUNKS", "chunks", 1);
  text += fmt::format("STAGES_OF_LAYERS = {}\n", config.value("stages_of_layers", Json::array()).dump());
  word("SCHEDULER", "scheduler");
  word("RECOMPUTE", "recompute");
  word("OPTIMIZER_LEVEL", "optimizer_level");
  number("SHARD_SIZE", "shard_size", -1);
  return text + kModule;
}

} // namespace kerf::exporting
