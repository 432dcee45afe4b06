// SPDX-License-Identifier: Apache-2.0

// Export of a complete plan to other trainers: arguments of Megatron-LM, TOML of TorchTitan, JSON of DeepSpeed with the
// command line of Megatron-DeepSpeed, YAML of NeMo, Accelerate and Nanotron, JSON of Transformers, arguments of
// ms-swift and MindSpeed, a program for Megatron Bridge, a Python module of MindSpore. Every key of the plan, the model
// and the training settings gets a decision: the file expresses the key, the key has no effect, or the target does
// something else.
#pragma once

#include "kerf/Export/ModelSizes.h"
#include "kerf/PlanSearch/CompletePlan.h"
#include <functional>
#include <map>

namespace kerf {

/// A trainer for which plans can be exported.
enum class ExportTarget {
  Megatron,
  TorchTitan,
  TorchTitanPython,
  DeepSpeed,
  NeMo,
  Accelerate,
  Transformers,
  Nanotron,
  MsSwift,
  MegatronBridge,
  MindSpeed,
  MindSpore
};
/// Returns all targets.
const std::vector<ExportTarget> &exportTargets();
/// Returns the name of a target, as --to takes it: "megatron", "torchtitan", ...
std::string_view toString(ExportTarget target);
/// Returns the name of the configuration file where the user gives none, for example "nemo.yaml".
std::string_view exportFileName(ExportTarget target);
/// Parses the name of a target; returns nothing if there is no such target.
std::optional<ExportTarget> exportTarget(std::string_view name);

/// The optimizer of a training job and its settings.
struct OptimizerSettings {
  std::string kind = "sgd"; // name, as --optimizer takes it
  /// Values of all settings of this optimizer, by the names of their options.
  std::map<std::string, double, std::less<>> settings = {{"momentum", 0.0}, {"weight-decay", 0.0}};
  double clipNorm = 0;              // norm to which gradients are clipped; 0: no clipping
  std::vector<std::string> noDecay; // globs of parameters without weight decay

  /// Returns the value of a setting, which this optimizer must have.
  double operator[](std::string_view setting) const { return settings.find(setting)->second; }
};

/// A plan in the form in which a target runs it: the given plan, changed where the target does something else.
struct PlanAsExported {
  Plan plan;
  std::string optimizer;            // the optimizer that runs in place of the given one; empty: the given one runs
  const Trainer *trainer = nullptr; // the record of the target, whose prices apply
};

/// Predicted figures of a plan as a target runs it.
struct ExportPrediction {
  double stepSeconds = 0, tokensPerSecond = 0;
  double deviceBytes = 0, limitBytes = 0; // memory that the fullest device needs, and that it has
  bool fits = true;
  std::optional<Schedule> schedule = {}; // the order of the stages' tasks that the figures are for
};

/// Everything that is exported.
struct ExportInput {
  CompletedPlan completed;
  TrainingJob job;
  ModelSizes model;
  OptimizerSettings optimizer;
  /// Capacity factor of experts, as in ImportOptions; absent or infinite: no token is dropped.
  std::optional<double> expertCapacity;
  /// Predicts the plan as the target runs it; empty: files do not state a prediction.
  std::function<Result<ExportPrediction>(const PlanAsExported &)> predict = {};
};

/// The outcome of the export for one key of the plan, the model or the training settings.
struct ExportDecision {
  /// Outcome for a key.
  enum class Kind {
    Expressed, // the target does as planned; `text` says which setting or default expresses the key
    Idle,      // the key has no effect in this plan; `text` says why
    Differs,   // the target does something else; `text` says what
  };
  std::string key;   // e.g. "mesh.stage", "model.hidden_size", "optimizer.beta1"
  std::string value; // value of the key as JSON
  Kind kind = Kind::Expressed;
  std::string text; // explanation for the user: how the target expresses the key, or why or how it does not
};

/// Result of an export.
struct ExportResult {
  std::string config;                         // whole text of the configuration file
  std::vector<std::string> head;              // lines of comments that tell what the file is and what to set
  std::string launch;                         // command that starts the training; "" if the file is itself the command
  std::string schedule;                       // text of the file at schedulePath(), which `config` reads; "": none
  std::vector<ExportDecision> decisions;      // for every key, in the order of the keys
  std::optional<ExportPrediction> prediction; // absent: not predicted
};

/// Returns the decision for every key of the plan, the model and the training settings, also for a plan that `target`
/// refuses. Fails for mixed clusters, for stages with meshes of their own, and for cuts into stages that do not match
/// the model's layers.
Result<std::vector<ExportDecision>> exportDecisions(ExportTarget target, const ExportInput &input);

/// Exports a plan for `target`. `configName` is the path of the configuration file in the launch command. Fails like
/// exportDecisions, if the target would train another model, if the plan breaks a rule of the target, and if it does
/// not fit into memory as the target runs it (ExitStatus::Infeasible).
Result<ExportResult> exportPlan(ExportTarget target, const ExportInput &input, const std::string &configName);

/// Returns a function that fails for plans that break a rule of `target`, such as heads that its tensor-parallel ranks
/// cannot share, for a search of plans for this target. `sizes` and `dtype` are those of the job.
std::function<Status(const CompletedPlan &)> targetRulesOf(ExportTarget target, ModelSizes sizes, std::string dtype);

/// Returns true if `target` has no fused attention for the element type `dtype` on `device`.
bool lacksFusedAttention(ExportTarget target, const DeviceSpec &device, const std::string &dtype);

/// Returns the path of the file with the order of the stages' tasks, beside the configuration file `configName`.
std::string schedulePath(const std::string &configName);

/// Returns a note "KEY = VALUE: TEXT" for each decision of kind Differs.
std::vector<std::string> exportNotes(const ExportResult &exported);

/// Returns all keys for which the export to `target` can make a decision.
std::vector<std::string> exportKeys(ExportTarget target);

} // namespace kerf
