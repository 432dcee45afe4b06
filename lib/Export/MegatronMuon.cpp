// SPDX-License-Identifier: Apache-2.0
// Export of plans with the optimizer Muon to Megatron-LM's core. With --use-distributed-optimizer each rank has the
// states of some whole matrices, and gradients and parameters overlap as they do with Adam; Muon does not go with FSDP
// (validate_args of megatron/training/arguments.py, core_v0.19.2).
#include "Megatron.h"

#include <algorithm>

namespace kerf::exporting {

namespace {

bool isMuon(const View &view) { return view.in.optimizer.kind == "muon"; }

void writeKind(const View &view, Draft &out) {
  out.argument("--optimizer", "muon");
  if (view.tensor > 1)
    out.argument("--muon-tp-mode", "distributed"); // whole matrices are orthogonalized, not each rank's share
  out.differs("embeddings and the output head get Adam, and a gated MLP's first two products count as one matrix");
}

void writeSettings(const View &view, Draft &out) {
  const OptimizerSettings &its = view.in.optimizer;
  out.argument("--muon-momentum", its["momentum"]);
  if (its["nesterov"] != 0)
    out.argument("--muon-nesterov");
  out.argument("--muon-num-ns-steps", int64_t(its["ns-steps"]));
  if (its["match-rms"] != 0) { // 0.2 sqrt(max(rows, columns)), the size of AdamW's steps
    out.argument("--muon-scale-mode", "spectral");
    out.argument("--muon-extra-scale-factor", 0.2);
  } else { // sqrt(max(1, rows / columns))
    out.argument("--muon-scale-mode", "shape_scaling");
  }
  out.argument("--weight-decay", its["weight-decay"]);
}

void writeSharding(const View &view, Draft &out) {
  if (!writeDistributedOptimizer(view, out))
    return;
  out.runs.plan.optimizerSharding = {1};
  out.differs("Muon goes without FSDP: gradients and parameters are replicated and take more memory");
}

/// Returns a row that is written as if the plan sharded no more than the optimizer's states, because Muon has no FSDP.
Row withoutFsdp(const Row &row) {
  return {row.key, [row](const View &view, Draft &out) {
            View whole = view;
            if (isMuon(view))
              whole.sharding = std::min<int64_t>(view.sharding, 1);
            row.write(whole, out);
          }};
}

} // namespace

Table megatronMuonTable(const Table &usual) {
  Table table;
  for (const Row &row : usual) {
    std::string_view key = row.key;
    auto instead = [&](auto write) { table.push_back(rowWhere(row, isMuon, write)); };
    if (key == "optimizer.kind")
      instead(writeKind);
    else if (key == "optimizer_sharding")
      instead(writeSharding);
    else if (key == "optimizer_sharding_ranks")
      instead(noteShardingOverAllRanks);
    else if (key == "overlap" || key == "mesh.model")
      table.push_back(withoutFsdp(row));
    else
      table.push_back(row);
  }
  table.push_back({"optimizer.settings", [](const View &view, Draft &out) {
                     if (isMuon(view))
                       return writeSettings(view, out);
                     out.differs("the target does not have this optimizer, so its settings are left out");
                   }});
  return table;
}

} // namespace kerf::exporting
