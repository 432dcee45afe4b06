// SPDX-License-Identifier: Apache-2.0
// Export to ms-swift, whose command `megatron pt` trains with Megatron-LM's core: arguments of Megatron-LM with
// underscores and with a value for each. The model comes from the checkpoint that --model names.
#include "Megatron.h"

#include <algorithm>
#include <cmath>

namespace kerf::exporting {

namespace {

/// An argument of Megatron-LM that ms-swift has under another name, or with the opposite meaning.
struct OtherName {
  const char *megatron, *name;
  const char *value; // nullptr: the value of the argument
};
constexpr OtherName kOtherNames[] = {
    {"--num-virtual-stages-per-pipeline-rank", "--virtual_pipeline_model_parallel_size", nullptr},
    {"--no-gradient-accumulation-fusion", "--gradient_accumulation_fusion", "false"},
    {"--no-overlap-p2p-communication", "--overlap_p2p_comm", "false"},
    {"--grad-reduce-in-bf16", "--accumulate_allreduce_grads_in_fp32", "false"},
};

/// Arguments of Megatron-LM that ms-swift lacks, with the behaviour that it has instead. An empty text: none is needed.
struct Missing {
  const char *megatron, *text;
};
constexpr Missing kMissing[] = {
    {"--ckpt-format", ""},
    {"--init-model-with-meta-device",
     "ms-swift has no init_model_with_meta_device: a rank may make the whole model before it is sharded"},
    {"--overlap-cpu-optimizer-d2h-h2d",
     "ms-swift has no overlap_cpu_optimizer_d2h_h2d: the host copies gradients and weights and updates by turns"},
    {"--use-tp-pp-dp-mapping", "ranks lie as tp-cp-ep-dp-pp (innermost first): stages use other links than planned"},
    {"--num-distributed-optimizer-instances",
     "states are sharded over all ranks of data, context and expert: they take less memory, but gathers and reductions "
     "use slower links than planned"},
};

/// Writes an argument of Megatron-LM as ms-swift takes it.
void adapt(const std::string &name, Json value, Draft &out) {
  for (const Missing &missing : kMissing)
    if (name == missing.megatron) {
      if (*missing.text)
        out.differs(missing.text);
      return;
    }
  if (value == true)
    value = "true";
  for (const OtherName &other : kOtherNames)
    if (name == other.megatron)
      return out.argument(other.name, other.value ? Json(other.value) : value);
  std::string ours = name;
  std::replace(ours.begin() + 2, ours.end(), '-', '_');
  out.argument(ours, std::move(value));
}

constexpr const char *kOfCheckpoint = "a part of the checkpoint that --model names";

/// Returns the rows that differ from Megatron-LM's: other defaults, and what the checkpoint has.
Table ownTable() {
  const Table table = {
      {"model.sizes", [](const View &, Draft &out) { out.idle(kOfCheckpoint); }},
      {"model.task", noteTask},
      {"model.sequence", [](const View &v, Draft &out) { out.argument("--max_length", v.model.sequence); }},
      {"model.expert_capacity",
       [](const View &v, Draft &out) {
         if (!v.in.expertCapacity || std::isinf(*v.in.expertCapacity))
           return out.expressed("no token is dropped, the default");
         out.argument("--moe_expert_capacity_factor", *v.in.expertCapacity);
       }},
  };
  return joinTables({table, modelTableOfTrainer(kOfCheckpoint)});
}

/// Sets what Megatron-LM leaves away and ms-swift has another default for.
void writeDefaults(const std::string &key, const View &view, Draft &out) {
  if (key == "recompute" && view.recompute == "none")
    out.argument("--recompute_granularity", "none");
  if (key == "optimizer_sharding" && view.sharding == 0)
    out.argument("--use_distributed_optimizer", "false");
  if (key == "dtype" && (view.in.job.dtype == "f32" || view.in.job.dtype == "f64"))
    out.argument("--torch_dtype", "float32");
}

} // namespace

const Table &msSwiftTable() {
  static const Table table = [] {
    Table rows = ownTable();
    for (const Row &row : megatronCoreTable()) {
      Row ours = rowOfMegatron(row, adapt);
      rows.push_back({row.key, [ours](const View &view, Draft &out) {
                        size_t before = out.arguments.size();
                        std::string key = out.key;
                        ours.write(view, out);
                        if (out.arguments.size() == before)
                          writeDefaults(key, view, out);
                      }});
    }
    return rows;
  }();
  return table;
}

} // namespace kerf::exporting
