// SPDX-License-Identifier: Apache-2.0
// Rows of Megatron-LM whose arguments the newest Megatron Core (0.19) has, and older ones, which MindSpeed and ms-swift
// run on, have not.
#include "Megatron.h"

#include <cmath>

namespace kerf::exporting {

namespace {

/// Writes exchanges of tokens that overlap with compute, behind what older cores overlap.
void addExpertOverlap(const View &view, Draft &out) {
  if (!view.overlaps("experts") || !view.experts() || view.expert == 1)
    return runsOverlap("experts", false, out);
  out.argument("--overlap-moe-expert-parallel-comm");
  out.argument("--delay-wgrad-compute");
  out.environment["CUDA_DEVICE_MAX_CONNECTIONS"] = "32"; // kernels and exchanges run on streams of their own
}

/// Writes the size of the groups in which microbatches pass through the chunks, if it is not the number of stages.
void addGroupSize(const View &view, Draft &out) {
  if (view.pipeline == 1 || view.chunks == 1)
    return;
  if (std::optional<int64_t> size = interleavedGroup(view); size && *size != view.pipeline)
    out.argument("--microbatch-group-size-per-virtual-pipeline-stage", *size);
}

/// Returns whether the model has YaRN beside other attention than the latent one, which has arguments of its own. All
/// elements of a head have to be rotated: YarnRotaryEmbedding does not read --rotary-percent.
bool hasPlainYarn(const View &view) {
  const ModelSizes &m = view.model;
  return m.rotaryScaling == "yarn" && !m.keyValueLatent && m.rotaryFraction == 1 && m.rotaryFactor > 1;
}

/// Writes YaRN. All numbers are written, because Megatron Bridge has no defaults for them.
void writeYarn(const View &view, Draft &out) {
  const ModelSizes &m = view.model;
  out.argument("--rotary-scaling-factor", m.rotaryFactor);
  out.argument("--yarn-original-max-position-embeddings", int64_t(m.rotaryPositions));
  out.argument("--yarn-beta-fast", m.rotaryFast);
  out.argument("--yarn-beta-slow", m.rotarySlow);
  out.argument("--mscale", yarnWeight(m, 0));
  out.argument("--mscale-all-dim", 0.0);
  out.argument(m.rotaryRounds ? "--yarn-correction-range-round-to-int" : "--no-yarn-correction-range-round-to-int");
}

void writeYarnPositions(const View &, Draft &out) { out.argument("--position-embedding-type", "yarn"); }

bool canScaleEmbedding(const View &view) { return !view.model.keyValueLatent && view.model.position == "rotary"; }

/// Writes that the embedding is multiplied by the square root of the hidden size: as maximal update parametrization of
/// a model that is as wide as its base model, with the usual scale of attention's scores. Nothing else differs then.
void writeScaledEmbedding(const View &view, Draft &out) {
  out.argument("--use-mup");
  out.argument("--mup-embedding-mult", std::sqrt(double(view.model.hidden)));
  out.argument("--mup-attn-scale-power", 0.5);
}

} // namespace

std::optional<int64_t> interleavedGroup(const View &view) {
  if (view.microbatches < view.pipeline)
    return std::nullopt;
  int64_t groups = view.microbatches / view.pipeline, larger = view.microbatches % groups;
  if (larger != 0 && larger != groups - 1)
    return std::nullopt;
  return (view.microbatches + groups - 1) / groups;
}

Table megatronNewestTable(const Table &usual) {
  Table table;
  for (const Row &row : usual) {
    std::string_view key = row.key;
    auto then = [&](auto add) {
      table.push_back({row.key, [row, add](const View &view, Draft &out) {
                         row.write(view, out);
                         add(view, out);
                       }});
    };
    if (key == "overlap")
      then(addExpertOverlap);
    else if (key == "schedule.chunks")
      then(addGroupSize);
    else if (key == "model.position")
      table.push_back(rowWhere(row, hasPlainYarn, writeYarnPositions));
    else if (key == "model.rotary_scaling")
      table.push_back(rowWhere(row, hasPlainYarn, writeYarn));
    else if (key == "model.scaled_embedding")
      table.push_back(rowWhere(row, canScaleEmbedding, writeScaledEmbedding));
    else
      table.push_back(row);
  }
  return table;
}

} // namespace kerf::exporting
