// SPDX-License-Identifier: Apache-2.0
// Export of plans with the optimizer Muon to Megatron-LM's core, which has it in two forms: `muon`, where every rank
// has all states, and `dist_muon`, where each rank has those of some whole parameters. Neither is combined with FSDP
// (validate_args of megatron/training/arguments.py, core_v0.19.2), and the files do not overlap gradients and
// parameters, which core_v0.16 refused.
#include "Megatron.h"

namespace kerf::exporting {

namespace {

bool isMuon(const View &view) { return view.in.optimizer.kind == "muon"; }

void writeKind(const View &view, Draft &out) {
  out.argument("--optimizer", view.sharding == 0 ? "muon" : "dist_muon");
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
  noteMixedSharding(view, out);
  if (view.sharding == 0)
    return out.expressed("--optimizer muon: every rank has all states");
  out.expressed("--optimizer dist_muon: each rank has the states of some of the parameters");
  if (view.sharding == 1)
    return;
  out.runs.plan.optimizerSharding = {1};
  out.differs("Muon goes without FSDP: gradients and parameters are replicated and take more memory");
}

void writeOverlap(const View &view, Draft &out, const Row &usual) {
  bool asked = view.overlaps("gradients") || view.overlaps("parameters");
  usual.write(view, out);
  for (const char *what : {"gradients", "parameters"})
    runsOverlap(what, false, out);
  for (const char *argument : {"--overlap-grad-reduce", "--overlap-param-gather"})
    out.arguments.erase(argument);
  std::erase_if(out.decisions, [&](const ExportDecision &decision) {
    return decision.key == out.key && decision.text.starts_with("--overlap-");
  });
  if (asked)
    out.differs("with Muon gradients are reduced after the backward, and parameters are gathered before the forward");
}

} // namespace

Table megatronMuonTable(const Table &usual) {
  Table table;
  for (const Row &row : usual) {
    std::string_view key = row.key;
    auto instead = [&](auto write) {
      table.push_back({row.key, [row, write](const View &view, Draft &out) {
                         isMuon(view) ? write(view, out) : row.write(view, out);
                       }});
    };
    if (key == "optimizer.kind")
      instead(writeKind);
    else if (key == "optimizer_sharding")
      instead(writeSharding);
    else if (key == "optimizer_sharding_ranks")
      instead(noteShardingOverAllRanks);
    else if (key == "overlap")
      instead([row](const View &view, Draft &out) { writeOverlap(view, out, row); });
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
