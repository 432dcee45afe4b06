// SPDX-License-Identifier: Apache-2.0
// Export to MindSpore's static graphs (AutoParallel): a Python module with the layouts of Megatron-LM's tensor
// parallelism for each kind of product, which are given to the primitives of a network by shard(), the stages, the
// optimizer's sharding and the recomputed layers. The module also writes the strategy file of a network's parameters.
#include "View.h"

namespace kerf::exporting {

namespace {

void writeSchedule(const View &view, Draft &out) {
  if (view.pipeline == 1)
    return out.idle("one stage");
  const bool isGPipe = view.schedule == ScheduleKind::GPipe;
  out.file("scheduler", isGPipe ? "gpipe" : "1f1b");
  if (isGPipe || view.schedule == ScheduleKind::OneFOneB)
    return;
  runsPlain1F1B(out);
  out.differs("1F1B runs instead");
}

void writeStages(const View &view, Draft &out) {
  if (view.pipeline == 1)
    return out.idle("one stage");
  if (view.cut.empty())
    return out.differs("the layers of each stage are not known of this model: fill in LAYERS_OF_STAGES");
  std::vector<int64_t> parts = view.layersByPart(), stages(size_t(view.pipeline), 0);
  for (size_t part = 0; part < parts.size(); ++part)
    stages[part % stages.size()] += parts[part]; // the chunks of a stage are one
  out.file("layers_of_stages", stages);
}

void writeRecompute(const View &view, Draft &out) {
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
  if (view.axisOrderIs({"stage", "data", "model"}))
    return out.expressed("stages, then the layout's axes dp and mp");
  runsOrder({"stage", "data", "model"}, out);
  out.differs(fmt::format("ranks lie as stage, data, model (outermost first), not as {}: groups use other links",
                          orderText(view)));
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
      {"mesh.expert", [](const View &, Draft &out) { out.idle("1"); }},
      {"order", writeOrder},
      {"global_batch", [](const View &v, Draft &out) { out.file("global_batch", v.plan.globalBatch); }},
      {"microbatch", [](const View &v, Draft &out) { out.file("microbatches", v.microbatches); }},
      {"schedule.name", writeSchedule},
      {"schedule.chunks",
       [](const View &v, Draft &out) {
         v.chunks == 1 ? out.idle("one chunk a stage") : out.differs("stages have one chunk each");
       }},
      {"schedule.variant", noteNoZeroBubble},
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

DEVICES = Layout((DATA, MODEL), ("dp", "mp"))  # the NPUs of one stage
ROWS = ("dp", "mp") if SEQUENCE_PARALLEL else "dp"  # how tokens are cut outside of products, where tensors have the form [tokens, hidden]

# Role of a primitive -> the cut of each dimension of its operands, and of its result where the primitive takes it. Products are MatMul with
# transpose_b=True, whose weights are [out, in]; attention has the form [batch, heads, sequence, size].
ROLES = {
    "column": ((("dp", "None"), ("mp", "None")), None),       # queries, keys, values, the first products of the MLP, the head
    "column_bias": ((("dp", "mp"), ("mp",)), None),
    "row": ((("dp", "mp"), ("None", "mp")), ((ROWS, "None"),)),  # the products behind attention and at the end of the MLP
    "row_bias": (((ROWS, "None"), ("None",)), None),
    "embedding": ((("mp", "None"), ("dp", "None")), None),
    "norm": (((ROWS, "None"), ("None",)), None),
    "add": (((ROWS, "None"), (ROWS, "None")), None),
    "activation": ((("dp", "mp"),), None),
    "gate": ((("dp", "mp"), ("dp", "mp")), None),
    "attention": ((("dp", "mp", "None", "None"),) * 3, None),  # FlashAttentionScore, without its masks
    "scores": ((("dp", "mp", "None", "None"),) * 2, None),     # BatchMatMul
    "softmax": ((("dp", "mp", "None", "None"),), None),
}
# Dimension of a parameter that is cut over the axis mp, by the role of its product.
PARAMETERS = {"column": 0, "column_bias": 0, "row": 1, "embedding": 0}


def shard(primitive, role):
    """Gives a primitive the strategy of its role, and returns it."""
    operands, results = ROLES[role]
    layouts = lambda tensors: tuple(DEVICES(*cuts) for cuts in tensors)
    return primitive.shard(layouts(operands), layouts(results) if results and MODEL > 1 else None)


def stage_of(layer):
    """The stage of layer `layer`, from 0."""
    for stage, layers in enumerate(LAYERS_OF_STAGES):
        if layer < layers:
            return stage
        layer -= layers
    raise IndexError("the plan has fewer layers")


def parallel(network, layers=(), first=(), last=()):
    """Wraps a network with its loss. `layers` are the names of the layers' cells in their order; `first` and `last` those of other cells, which are on
    the first and on the last stage. Layers are recomputed as planned: "selective" recomputes their cell `attention`."""
    cells = dict(network.cells_and_names())
    for name in layers:
        if RECOMPUTE == "full":
            cells[name].recompute()
        elif RECOMPUTE == "selective":
            cells[name].attention.recompute()
    if STAGES > 1:
        config = {**{name: 0 for name in first}, **{name: stage_of(i) for i, name in enumerate(layers)}, **{name: STAGES - 1 for name in last}}
        network = Pipeline(network, MICROBATCHES, stage_config=config)
    wrapped = AutoParallel(network, parallel_mode="semi_auto")
    if STAGES > 1:
        wrapped.pipeline(stages=STAGES, scheduler=SCHEDULER)
    if OPTIMIZER_LEVEL:
        wrapped.hsdp(shard_size=SHARD_SIZE, threshold=0, optimizer_level=OPTIMIZER_LEVEL)
    return wrapped


def write_strategy(path, parameters, stage=0):
    """Writes the strategy file of the parameters of a stage: {name: (shape, role or None)}."""
    items = {}
    for name, (shape, role) in parameters.items():
        cuts = ["None"] * len(shape)
        if role in PARAMETERS:
            cuts[PARAMETERS[role]] = "mp"
        layout = DEVICES(*cuts).to_dict()
        items[f"{stage}-{name}" if STAGES > 1 else name] = {
            "dev_matrix": list(layout["device_matrix"]), "tensor_map": list(layout["tensor_map"]), "param_split_shape": [], "indices_offset": [],
            "field": 0, "opt_weight_shard_step": 0, "opt_weight_shard_size": 0}
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
  number("MODEL", "model", 1);
  number("GLOBAL_BATCH", "global_batch", 1);
  number("MICROBATCHES", "microbatches", 1);
  text += fmt::format("SEQUENCE_PARALLEL = {}\n", config.value("sequence_parallel", false) ? "True" : "False");
  text += fmt::format("LAYERS_OF_STAGES = {}\n", config.value("layers_of_stages", Json::array()).dump());
  word("SCHEDULER", "scheduler");
  word("RECOMPUTE", "recompute");
  word("OPTIMIZER_LEVEL", "optimizer_level");
  number("SHARD_SIZE", "shard_size", -1);
  return text + kModule;
}

} // namespace kerf::exporting
