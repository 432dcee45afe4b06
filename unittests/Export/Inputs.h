// SPDX-License-Identifier: Apache-2.0
// Models, clusters and plans that the tests export.
#pragma once

#include "kerf/Export/Export.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace kerf::test {

/// Returns a cluster of `nodes` nodes with 8 devices each.
inline Cluster nodesOfEight(int64_t nodes) {
  auto cluster = parseCluster(fmt::format(R"({{"name": "test nodes",
    "device": {{"kind": "cuda", "name": "A100", "memory_bytes": 85899345920, "memory_bandwidth": 2e12,
               "peak_flops": {{"f32": 2e13, "bf16": 3e14, "f16": 3e14}}}},
    "levels": [{{"name": "nvlink", "size": 8, "bandwidth": 3e11, "latency": 1e-6}},
               {{"name": "infiniband", "size": {}, "bandwidth": 2.5e10, "latency": 5e-6}}]}})",
                                          nodes),
                              "cluster.json");
  if (!cluster)
    ADD_FAILURE() << cluster.error().message;
  return *cluster;
}

/// Returns the sizes of GPT-3 175B.
inline ModelSizes gpt3() {
  ModelSizes m;
  m.family = "gpt2";
  m.task = "causal";
  m.layers = 96;
  m.hidden = 12288;
  m.heads = m.keyValueHeads = 96;
  m.headSize = 128;
  m.mlpWidth = 49152;
  m.vocabulary = 51200;
  m.positions = m.sequence = 2048;
  m.norm = "layer";
  m.epsilon = 1e-5;
  m.activation = "gelu-tanh";
  m.position = "learned";
  m.residual = "pre";
  m.queryKeyValueBias = m.outputBias = m.mlpBias = true;
  m.tiedEmbeddings = true;
  return m;
}

/// Returns the sizes of LLaMA 3 8B.
inline ModelSizes llama3() {
  ModelSizes m = gpt3();
  m.family = "llama";
  m.layers = 32;
  m.hidden = 4096;
  m.heads = 32;
  m.keyValueHeads = 8;
  m.mlpWidth = 14336;
  m.vocabulary = 128256;
  m.positions = m.sequence = 8192;
  m.norm = "rms";
  m.activation = "silu";
  m.gated = true;
  m.position = "rotary";
  m.rotaryBase = 500000;
  m.rotaryHeadSize = 128;
  m.queryKeyValueBias = m.outputBias = m.mlpBias = false;
  m.tiedEmbeddings = false;
  return m;
}

/// Returns the sizes of LLaMA 3.1 8B, which are those of a flavor of TorchTitan.
inline ModelSizes llama31() {
  ModelSizes m = llama3();
  m.rotaryScaling = "llama3";
  m.rotaryFactor = 8;
  m.rotaryPositions = 8192;
  return m;
}

/// Returns the sizes of Mixtral 8x7B.
inline ModelSizes mixtral() {
  ModelSizes m = llama3();
  m.family = "mixtral";
  m.mlpWidth = 0;
  m.vocabulary = 32000;
  m.positions = 32768;
  m.sequence = 4096;
  m.rotaryBase = 1e6;
  m.experts = 8;
  m.expertsPerToken = 2;
  m.expertWidth = 14336;
  m.normalizedExpertWeights = true;
  m.router = "softmax";
  return m;
}

/// Completes a plan, given as the text of a plan file, for a model on `nodes` nodes. Strategies of ops and arguments
/// are kept as given.
inline ExportInput inputOf(const std::string &planJson, const ModelSizes &model, const std::string &dtype = "bf16",
                           int64_t nodes = 16) {
  ExportInput input;
  input.job.model = "config.json";
  input.job.dtype = dtype;
  input.job.optimizerMoments = 2;
  input.model = model;
  input.optimizer = {"adamw", {{"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}, {"weight-decay", 0.1}}, 1.0, {}};
  auto plan = parsePlan(planJson, "plan.json");
  if (!plan) {
    ADD_FAILURE() << plan.error().message;
    return input;
  }
  Plan whole = *plan;
  whole.ops.clear();
  whole.arguments.clear();
  auto completed = completePlan(whole, "plan.json", nodesOfEight(nodes), input.job);
  if (!completed) {
    ADD_FAILURE() << completed.error().message;
    return input;
  }
  input.completed = std::move(*completed);
  input.completed.plan.ops = plan->ops;
  input.completed.plan.arguments = plan->arguments;
  return input;
}

} // namespace kerf::test
