// SPDX-License-Identifier: Apache-2.0
// A completed plan as what another trainer is started with: Megatron-LM's arguments, TorchTitan's TOML, DeepSpeed's
// JSON with the line that starts Megatron-DeepSpeed, NeMo's YAML. Every key of the plan, of the model and of the
// training settings gets a decision: it is in the file, it has no effect here, or the target does something else, which
// is said.
#pragma once

#include "kerf/Export/ModelSizes.h"
#include "kerf/PlanSearch/CompletePlan.h"
#include <map>

namespace kerf {

enum class ExportTarget { Megatron, TorchTitan, DeepSpeed, NeMo };
/// "megatron", "torchtitan", "deepspeed", "nemo".
std::string_view toString(ExportTarget target);
std::optional<ExportTarget> exportTarget(std::string_view name);

struct OptimizerSettings {
  std::string kind = "sgd"; // as --optimizer says it
  std::map<std::string, double, std::less<>> settings = {{"momentum", 0.0},
                                                         {"weight-decay", 0.0}}; // all of this optimizer
  double clipNorm = 0;                                                           // 0: no clipping
  std::vector<std::string> noDecay;

  double operator[](std::string_view setting) const { return settings.find(setting)->second; }
};

struct ExportInput {
  CompletedPlan completed;
  TrainingJob job;
  ModelSizes model;
  OptimizerSettings optimizer;
  std::optional<double> expertCapacity; // as ImportOptions: absent or infinite: no copy of a token is dropped
};

struct ExportDecision {
  enum class Kind {
    Expressed, // `text`: where it is in the file
    Idle,      // `text`: why there is nothing to say here
    Differs,   // `text`: what the target does instead
  };
  std::string key, value; // "mesh.stage", "model.hidden_size", "optimizer.beta1"; value as JSON
  Kind kind = Kind::Expressed;
  std::string text;
};

struct Exported {
  std::string config; // the file's whole text
  std::string launch; // the command that starts it, in one line; of Megatron it is in the file, and "" here
  std::vector<ExportDecision> decisions;
};

/// `configName` is how the launch line calls the file. Refuses mixed clusters, and cuts into stages that are wrong.
Result<Exported> exportPlan(ExportTarget target, const ExportInput &input, const std::string &configName);

/// "KEY = VALUE: TEXT" of all that differ.
std::vector<std::string> notesOf(const Exported &exported);

/// The keys that the target's tables have a row for.
std::vector<std::string> exportKeys(ExportTarget target);

} // namespace kerf
