// SPDX-License-Identifier: Apache-2.0
// Export to MindSpeed, which runs Megatron-LM on Ascend NPUs: Megatron-LM's arguments, without those that MindSpeed or
// its version of Megatron-LM (core_r0.12.0) lacks, and with MindSpeed's own.
#include "Megatron.h"

namespace kerf::exporting {

namespace {

void writeContextStyle(const View &view, Draft &out) {
  if (view.context == 1)
    return out.idle("mesh.context is 1");
  out.argument("--context-parallel-algo", "megatron_cp_algo"); // a ring
  if (view.plan.contextStyle == ContextStyle::Ring)
    return;
  out.runs.plan.contextStyle = ContextStyle::Ring;
  out.differs("attention over several ranks is a ring: --context-parallel-algo has no Ulysses alone");
}

void writeAttention(const View &view, Draft &out) {
  if (view.plan.attention == AttentionKernels::Fused)
    return out.argument("--use-flash-attn");
  if (view.context > 1) {
    out.runs.plan.attention = AttentionKernels::Fused;
    return out.differs("the ring of context parallelism has fused attention only");
  }
  out.expressed("products and a softmax, without --use-flash-attn");
}

void writeSharding(const View &view, Draft &out) {
  if (!writeDistributedOptimizer(view, out))
    return;
  out.runs.plan.optimizerSharding = {1};
  out.differs("the distributed optimizer shards only the states: gradients and parameters are replicated and take more "
              "memory");
}

void writeStages(const View &view, Draft &out) {
  if (view.pipeline == 1)
    return out.idle("one stage");
  if (view.evenCut)
    return out.expressed("the same number of layers in each part, the default");
  out.runs.plan.stages.clear();
  out.differs("Megatron-LM core_r0.12.0 has no layout of single parts: all parts have as many layers");
}

void writeDtype(const View &view, Draft &out) {
  if (view.in.job.dtype == "bf16")
    return out.argument("--bf16");
  if (view.in.job.dtype == "f16")
    return out.argument("--fp16");
  out.expressed("f32, the default");
}

void writeForm(const char *key, const View &view, Draft &out) {
  const std::string_view name = key;
  if (name == "model.norm" && view.model.norm == "rms")
    out.argument("--use-fused-rmsnorm");
  if (name == "model.activation" && view.model.activation == "silu" && view.model.gated)
    out.argument("--use-fused-swiglu");
  if (name == "model.position" && view.model.position == "rotary")
    out.argument("--use-fused-rotary-pos-emb");
}

/// Arguments of Megatron-LM that are for NVIDIA's libraries, with MindSpeed's in their place; null: none.
struct OtherName {
  const char *megatron, *name;
};
constexpr OtherName kOtherNames[] = {{"--tp-comm-overlap", "--use-ascend-mc2"}, {"--no-rope-fusion", nullptr}};

/// Returns a row of Megatron-LM's table for MindSpeed.
Row adapted(const Row &row) {
  return {row.key, [row](const View &view, Draft &out) {
            Json before = out.arguments;
            row.write(view, out);
            for (const OtherName &other : kOtherNames)
              if (out.arguments.contains(other.megatron) && !before.contains(other.megatron)) {
                Json value = out.arguments[other.megatron];
                out.arguments.erase(other.megatron);
                if (other.name)
                  out.arguments[other.name] = std::move(value);
              }
            writeForm(row.key, view, out);
            if (out.key == "model.rotary_scaling" && view.model.rotaryScaling == "linear")
              out.differs("pretrain_gpt.py of core_r0.12.0 does not read --rotary-seq-len-interpolation-factor, and "
                          "stretches no positions");
          }};
}

} // namespace

const Table &mindSpeedTable() {
  static const Table table = [] {
    Table rows = {
        {"context_style", writeContextStyle},
        {"attention", writeAttention},
        {"optimizer_sharding", writeSharding},
        {"stages", writeStages},
        {"dtype", writeDtype},
        {"optimizer_states", noteStatesOnDevice},
    };
    for (const Row &row : ofPretrainGpt(megatronCoreTable()))
      rows.push_back(adapted(row));
    return rows;
  }();
  return table;
}

} // namespace kerf::exporting
