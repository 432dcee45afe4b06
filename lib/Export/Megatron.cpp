// SPDX-License-Identifier: Apache-2.0
// Export to Megatron-LM: the arguments of pretrain_gpt.py that say how a step is executed.
#include "Megatron.h"
#include "kerf/PlanSearch/TrainerPins.h"

namespace kerf::exporting {

namespace {

/// Returns true if the plan runs with Megatron FSDP, which supports tensor, context and expert parallelism, but
/// no pipelines.
bool fsdp(const View &view) { return view.sharding >= 2 && view.pipeline == 1; }

void writeExpert(const View &view, Draft &out) {
  if (view.expert == 1)
    return out.idle("1");
  if (!view.experts())
    return out.expressed("the model has no experts: more data parallelism, from the number of ranks");
  out.argument("--expert-model-parallel-size", view.expert);
}

/// Writes tensor parallelism. Experts are cut by the same ranks as all else (expert tensor parallelism).
void writeTensor(const View &view, Draft &out) {
  out.argument("--tensor-model-parallel-size", view.tensor);
  if (view.experts() && view.tensor > 1)
    out.argument("--expert-tensor-parallel-size", view.tensor);
  if ((view.tensor > 1 || view.context > 1) && !fsdp(view))
    out.environment["CUDA_DEVICE_MAX_CONNECTIONS"] = "1"; // required before Blackwell; FSDP refuses it
}

/// Writes the order of the axes. Megatron-LM has two orders, outermost first: pp-dp-cp-tp and dp-pp-cp-tp. Its
/// groups of expert-parallel ranks are next to tensor parallelism; they are a part of dp unless context parallelism
/// lies between.
void writeOrder(const View &view, Draft &out) {
  bool both = view.expert > 1 && view.context > 1 && view.experts();
  if (!both && view.axisOrderIs({"stage", "data", "expert", "context", "model"}))
    return out.expressed("tp-cp-ep-dp-pp, the default (innermost first)");
  if (!both && (view.expert == 1 || !view.experts()) &&
      view.axisOrderIs({"data", "expert", "stage", "context", "model"}))
    return out.argument("--use-tp-pp-dp-mapping");
  runsOrder({"stage", "data", "expert", "context", "model"}, out);
  out.differs(fmt::format("ranks lie as tp-cp-ep-dp-pp (innermost first), not as {} (outermost first){}: groups use "
                          "other links than planned",
                          orderText(view), both ? ", and groups of experts span those of context" : ""));
}

void writeSchedule(const View &view, Draft &out) {
  if (view.pipeline == 1)
    return out.idle("one stage");
  if (view.schedule == ScheduleKind::OneFOneB)
    return out.expressed("1F1B, what pipelines run without virtual stages");
  if (view.schedule == ScheduleKind::Interleaved)
    return out.expressed("interleaved 1F1B, what virtual stages run");
  runsPlain1F1B(out);
  out.differs(fmt::format("1F1B runs instead{}", view.schedule == ScheduleKind::GPipe
                                                     ? ", with less memory and the same bubble"
                                                 : recordOf(view.schedule).splitsBackward
                                                     ? ": weight gradients are not put off into the bubble"
                                                     : ""));
}

void writeChunks(const View &view, Draft &out) {
  if (view.chunks == 1)
    return out.idle("one chunk a stage");
  if (view.evenCut && !view.cut.empty())
    return out.argument("--num-virtual-stages-per-pipeline-rank", view.chunks);
  if (view.cut.empty()) {
    out.argument("--num-virtual-stages-per-pipeline-rank", view.chunks);
    return;
  }
  out.expressed("--pipeline-model-parallel-layout has a part for each chunk");
}

/// Returns true if only the first and the last stage have other numbers of layers, which two arguments can express.
bool onlyEndsDiffer(const View &view, const std::vector<int64_t> &counts) {
  for (size_t p = 1; p + 1 < counts.size(); ++p)
    if (counts[p] != counts[1])
      return false;
  return view.chunks == 1 && counts.size() > 2 && counts.front() > 0 && counts.back() > 0;
}

/// Returns the layout of the parts: "Ettt|ttt|ttL", where E is the embedding, t a layer, and L the head and the loss.
std::string layoutText(const std::vector<int64_t> &counts) {
  std::string text = "E";
  for (size_t p = 0; p < counts.size(); ++p) {
    text += p ? "|" : "";
    text += counts[p] > 1 ? fmt::format("t*{}", counts[p]) : counts[p] == 1 ? "t" : "";
  }
  return text + "L";
}

void writeStages(const View &view, Draft &out) {
  if (view.pipeline == 1)
    return out.idle("one stage");
  if (view.evenCut)
    return out.expressed("the same number of layers in each part, the default");
  std::vector<int64_t> counts = view.layersByPart();
  if (!onlyEndsDiffer(view, counts))
    return out.argument("--pipeline-model-parallel-layout", layoutText(counts));
  if (counts.front() != counts[1])
    out.argument("--decoder-first-pipeline-num-layers", counts.front());
  if (counts.back() != counts[1])
    out.argument("--decoder-last-pipeline-num-layers", counts.back());
}

/// Writes that activations wait in the host's memory. Megatron Core does that for all layers but the last.
void writeOffload(const View &view, Draft &out) {
  int64_t layers = view.model.layers;
  out.runs.plan.recompute = {Recompute::None};
  out.runs.plan.recomputeLayers.clear();
  if (layers < 2)
    return out.differs(layers ? "activations of a single layer stay on the device"
                              : "the number of layers is not known of an export: add --cpu-offloading-num-layers");
  out.argument("--cpu-offloading-num-layers", layers - 1);
  bool asPlanned = true;
  for (int64_t layer = 0; layer < layers; ++layer)
    asPlanned &=
        recomputeModeOf(view.plan, 0, layer, "") == (layer + 1 < layers ? Recompute::Offload : Recompute::None);
  out.runs.plan.recomputeLayers = allButLastOffloaded(layers);
  if (asPlanned)
    return;
  out.differs(view.uniformRecompute
                  ? "the last layer's activations stay on the device"
                  : "the activations of all layers but the last go to the host's memory, and none are recomputed");
}

void writeRecompute(const View &view, Draft &out) {
  if (view.recompute == "offload")
    return writeOffload(view, out);
  noteMixedBlock(view, out);
  if (view.recompute == "none")
    return out.expressed("no recomputation, the default");
  out.argument("--recompute-granularity", view.recompute);
  if (view.recompute == "selective")
    return out.argument("--recompute-modules", "core_attn");
  out.argument("--recompute-method", view.recomputeBlock ? "block" : "uniform");
  out.argument("--recompute-num-layers", view.recomputeBlock.value_or(1));
}

void writeSharding(const View &view, Draft &out) {
  if (!writeDistributedOptimizer(view, out))
    return;
  if (!fsdp(view)) {
    out.runs.plan.optimizerSharding = {1};
    return out.differs(
        "Megatron FSDP has no pipelines: the distributed optimizer shards only the states; gradients and "
        "parameters are replicated and take more memory");
  }
  out.argument("--use-megatron-fsdp");
  out.argument("--data-parallel-sharding-strategy", view.sharding == 2 ? "optim_grads" : "optim_grads_params");
  out.argument("--no-gradient-accumulation-fusion"); // Megatron FSDP does not support the fusion
  out.argument("--ckpt-format", "fsdp_dtensor");
  out.argument("--init-model-with-meta-device"); // else every rank makes the whole model before it is sharded
}

void writeShardingRanks(const View &view, Draft &out) {
  if (int64_t instances = shardInstances(view, out); instances > 1)
    out.argument("--num-distributed-optimizer-instances", instances);
}

void writeSequenceParallel(const View &view, Draft &out) {
  if (!view.sequenceParallel)
    return out.expressed("off, the default");
  if (view.tensor == 1)
    return out.idle("mesh.model is 1");
  out.argument("--sequence-parallel");
}

/// Notes that Megatron FSDP overlaps a kind of communication that the plan does not list
/// (megatron_fsdp.py sets overlap_grad_reduce where gradients are sharded, and overlap_param_gather where parameters
/// are).
void noteForcedOverlap(const char *what, const View &view, Draft &out) {
  if (view.overlaps(what))
    return;
  runsOverlap(what, true, out);
  out.differs(fmt::format("Megatron FSDP always overlaps what it shards (the plan does not list \"{}\")", what));
}

void writeOverlap(const View &view, Draft &out) {
  bool gradients = view.overlaps("gradients"), shards = view.sharding >= 1;
  if (fsdp(view)) {
    noteForcedOverlap("gradients", view, out);
    if (view.sharding == 3)
      noteForcedOverlap("parameters", view, out);
  }
  if (gradients || fsdp(view))
    out.argument("--overlap-grad-reduce");
  if (view.overlaps("parameters") && shards) {
    if (gradients || fsdp(view)) {
      out.argument("--overlap-param-gather");
    } else {
      runsOverlap("parameters", false, out);
      out.differs("gathers of parameters overlap only together with gradients (--overlap-grad-reduce): they do not");
    }
  }
  if (view.tensor > 1 && !view.overlaps("tensor")) {
    runsOverlap("tensor", true, out);
    out.differs("sums of input gradients always run beside the weights' gradients (the plan does not list \"tensor\")");
  }
  if (view.tensor > 1 && view.overlaps("products")) {
    if (view.sequenceParallel) {
      out.argument("--tp-comm-overlap");
    } else {
      runsOverlap("products", false, out);
      out.differs(
          "products and their collectives take turns with --sequence-parallel only (\"products\"): they do not");
    }
  }
  if (view.pipeline == 1)
    return out.expressed("what is not listed is off, the default");
  if (view.chunks == 1) {
    bool asked = view.overlaps("stage");
    runsOverlap("stage", false, out);
    if (asked)
      out.differs("sends between stages overlap with compute only under the interleaved schedule: here stages wait");
  } else if (!view.overlaps("stage")) {
    if (view.pipeline > 2)
      out.argument("--no-overlap-p2p-communication");
    else {
      runsOverlap("stage", true, out);
      out.differs("with two stages and chunks sends always overlap (the plan does not list \"stage\")");
    }
  }
  out.expressed("what is not listed is off, the default");
}

/// Writes how Adam's states are kept. Every way but the default is that of the precision-aware optimizer, which keeps
/// remainders of bf16 weights as master weights unless the host has the states.
void writeStates(const View &view, Draft &out) {
  OptimizerStates states = view.plan.optimizerStates.value_or(OptimizerStates::Device);
  if (states == OptimizerStates::Device)
    return out.expressed("in f32 on the device, the default");
  out.argument("--use-precision-aware-optimizer");
  if (view.plan.gradientDtype == "bf16")
    out.argument("--main-grads-dtype", "bf16");
  if (states == OptimizerStates::Bf16)
    for (const char *moment : {"--exp-avg-dtype", "--exp-avg-sq-dtype"})
      out.argument(moment, "bf16");
  if (states != OptimizerStates::Host)
    return;
  out.argument("--optimizer-cpu-offload");
  out.argument("--optimizer-offload-fraction", 1.0);
  out.argument("--overlap-cpu-optimizer-d2h-h2d");
}

void writeGradientDtype(const View &view, Draft &out) {
  const std::string &type = view.plan.gradientDtype, &dtype = view.in.job.dtype;
  bool b16 = dtype == "bf16" || dtype == "f8";
  if ((b16 || dtype == "f16") && type == "f32")
    return out.argument("--accumulate-allreduce-grads-in-fp32");
  if (b16 && type == "bf16")
    return out.argument("--grad-reduce-in-bf16");
  if ((dtype == "f16" && type == "f16") || (dtype == "f32" && type == "f32"))
    return out.expressed("gradients have the parameters' type, the default");
  out.runs.plan.gradientDtype = b16 ? "f32" : dtype;
  out.differs(fmt::format("gradients of {} parameters are {}", dtype, b16 ? "f32 or bf16: f32" : "of their type"));
}

void writeAttention(const View &view, Draft &out) {
  out.argument("--attention-backend", toString(*view.plan.attention));
}

void writeContextStyle(const View &view, Draft &out) {
  if (view.context == 1)
    return out.idle("mesh.context is 1");
  out.argument("--cp-comm-type", view.plan.contextStyle == ContextStyle::Ring ? "p2p" : "a2a");
}

void writeDtype(const View &view, Draft &out) {
  const std::string &dtype = view.in.job.dtype;
  if (dtype == "bf16" || dtype == "f8")
    out.argument("--bf16");
  if (dtype == "f8")
    return out.argument("--fp8-format", "hybrid");
  if (dtype == "f16")
    return out.argument("--fp16");
  if (dtype == "f64")
    return out.differs("there is no f64: f32");
  if (dtype == "f32")
    out.expressed("f32, the default");
}

Table executionTable() {
  return {
      {"mesh.stage", [](const View &v, Draft &out) { out.argument("--pipeline-model-parallel-size", v.pipeline); }},
      {"mesh.data",
       [](const View &v, Draft &out) {
         out.expressed(fmt::format("{} ranks / (tp {} x cp {} x pp {})", v.ranks, v.tensor, v.context, v.pipeline));
       }},
      {"mesh.context", [](const View &v, Draft &out) { out.argument("--context-parallel-size", v.context); }},
      {"mesh.expert", writeExpert},
      {"mesh.model", writeTensor},
      {"order", writeOrder},
      {"global_batch", [](const View &v, Draft &out) { out.argument("--global-batch-size", v.plan.globalBatch); }},
      {"microbatch", [](const View &v, Draft &out) { out.argument("--micro-batch-size", v.plan.microbatch); }},
      {"schedule.name", writeSchedule},
      {"schedule.chunks", writeChunks},
      {"schedule.variant", noteNoZeroBubble},
      {"schedule.in_flight", noteInFlight},
      {"stages", writeStages},
      {"recompute", writeRecompute},
      {"optimizer_sharding", writeSharding},
      {"optimizer_sharding_ranks", writeShardingRanks},
      {"sequence_parallel", writeSequenceParallel},
      {"optimizer_states", writeStates},
      {"overlap", writeOverlap},
      {"gradient_dtype", writeGradientDtype},
      {"layout", writeLayout},
      {"attention", writeAttention},
      {"context_style", writeContextStyle},
      {"dtype", writeDtype},
  };
}

} // namespace

Row rowOfMegatron(const Row &row, std::function<void(const std::string &name, const Json &value, Draft &out)> adapt) {
  return {row.key, [write = row.write, adapt = std::move(adapt)](const View &view, Draft &out) {
            Draft theirs;
            theirs.key = out.key;
            theirs.value = out.value;
            theirs.runs = out.runs;
            write(view, theirs);
            out.runs = theirs.runs;
            out.environment.insert(theirs.environment.begin(), theirs.environment.end());
            for (const auto &[name, value] : theirs.arguments.items())
              adapt(name, value, out);
            for (ExportDecision &decision : theirs.decisions)
              if (decision.kind != ExportDecision::Kind::Expressed || theirs.arguments.empty())
                out.decisions.push_back(std::move(decision));
          }};
}

Row rowWhere(const Row &row, bool (*applies)(const View &), void (*write)(const View &, Draft &)) {
  return {row.key, [row, applies, write](const View &view, Draft &out) {
            applies(view) ? write(view, out) : row.write(view, out);
          }};
}

bool writeDistributedOptimizer(const View &view, Draft &out) {
  noteMixedSharding(view, out);
  if (view.sharding == 0)
    out.expressed("every rank has all states, the default");
  else
    out.argument("--use-distributed-optimizer");
  return view.sharding > 1;
}

const Table &megatronCoreTable() {
  static const Table table = joinTables({executionTable(), megatronModelTable(), megatronOptimizerTable()});
  return table;
}

const Table &newestMegatronTable() {
  static const Table table = megatronMuonTable(megatronNewestTable(megatronCoreTable()));
  return table;
}

const Table &megatronTable() {
  static const Table table = ofPretrainGpt(newestMegatronTable());
  return table;
}

} // namespace kerf::exporting
