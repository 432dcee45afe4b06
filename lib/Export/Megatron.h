// SPDX-License-Identifier: Apache-2.0

// Tables of rows that Megatron-LM and its fork Megatron-DeepSpeed share.
#pragma once

#include "View.h"

namespace kerf::exporting {

/// Returns the rows that write the model's sizes as arguments of Megatron-LM.
Table megatronModelTable();
/// Returns the rows that write the model's sizes as arguments of Megatron-DeepSpeed, a fork of 2023.
Table megatronDeepSpeedModelTable();
/// Returns the rows that write the optimizer's settings, which are the same arguments in both.
Table megatronOptimizerTable();

/// Returns the rows of Megatron-LM that all trainers on its core have, without its newest optimizers.
const Table &megatronCoreTable();
/// Returns the rows `usual` of Megatron-LM with those whose arguments only its newest core has.
Table megatronNewestTable(const Table &usual);
/// Returns the rows of Megatron-LM on its newest core, without what its program pretrain_gpt.py leaves out.
const Table &newestMegatronTable();
/// Returns `rows` with notes on the arguments that pretrain_gpt.py does not read.
Table ofPretrainGpt(Table rows);
/// Returns the rows `usual` of Megatron-LM with those for plans whose optimizer is Muon.
Table megatronMuonTable(const Table &usual);

/// Returns a row of Megatron-LM's table for a trainer that builds on it: `adapt` writes each argument of the row in the
/// trainer's own form.
Row rowOfMegatron(const Row &row, std::function<void(const std::string &name, const Json &value, Draft &out)> adapt);

/// Writes the sharding of the optimizer as far as all trainers on Megatron-LM's core have it. Returns whether the plan
/// shards gradients too, which the caller has to write.
bool writeDistributedOptimizer(const View &view, Draft &out);

/// Returns `row`, with `write` in its place for the jobs of which `applies` holds.
Row rowWhere(const Row &row, bool (*applies)(const View &), void (*write)(const View &, Draft &));

/// Returns the number of microbatches in the groups of the interleaved schedule, the last of which can be smaller.
/// Unset if Kerf's order has other groups than Megatron Core's, or if there are fewer microbatches than stages.
std::optional<int64_t> interleavedGroup(const View &view);

/// Returns the argument --mscale with which Megatron-LM multiplies the cosines and sines of YaRN by the model's factor,
/// if --mscale-all-dim is `all`. The factor of the positions has to be above 1.
double yarnWeight(const ModelSizes &model, double all);

} // namespace kerf::exporting
