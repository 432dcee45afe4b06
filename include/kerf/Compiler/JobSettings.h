// SPDX-License-Identifier: Apache-2.0
// The settings of a training job: how a model is turned into a training step, in which types it computes, and how its
// plan is searched. Every front end fills these structs and gets the same options of the libraries: the command line
// from its options, plan.json from the object "job.options", and the Python module from keyword arguments. Messages
// name settings in angle brackets (kerf/Support/Settings.h).
#pragma once

#include "kerf/Compiler/PlanTraining.h"
#include "kerf/Runtime/LearningRate.h"

namespace kerf {

/// The settings of a model and of its training step. Each field holds the setting of the same name.
struct ModelSettings {
  std::string loss, weights, optimizer = "sgd", dtype = "f32";
  std::vector<std::string> metrics, trainable, frozen, noDecay;
  std::vector<OptimizerGroup> groups;
  CompressionOptions compression; // <compress>, <codec> and <allow-biased>
  int64_t accumulate = 1;
  SettingValues settings; // the settings of the optimizer that were given, by name, such as "momentum"
  double clipNorm = 0;
  int64_t globalBatch = 0, sequence = 0;
  std::optional<double> expertCapacity;
  bool noRecognition = false, acceptFolded = false;

  /// Converts the settings to the options of the compiler, without mixed precision (PrecisionSettings::toOptions).
  StepOptions toStepOptions() const;
};

/// The settings of mixed precision, for the types bf16, f16 and f8.
struct PrecisionSettings {
  std::string reduceDtype, lossScale; // empty: not given
  std::optional<double> initialLossScale;
  std::optional<int64_t> lossScaleWindow;

  /// Returns the name of the first of these settings that was given ("loss-scale"), or "" when none was.
  std::string firstGiven() const;
  /// Converts the settings for the type `dtype`: nothing for f32 and f64. Fails when a setting does not apply to
  /// `dtype` or has a value out of range.
  Result<std::optional<PrecisionOptions>> toOptions(const std::string &dtype) const;
};

/// The settings of a search for a plan.
struct SearchSettings {
  std::string mode = "auto"; // "auto", "semi", "data" or "stand-alone"
  std::string search;        // "placement" or "whole"; empty: chosen by device and constraints
  std::string trainer;       // name of the training system; empty: Kerf's own trainer
  int64_t ranks = 0, memory = 0, top = 3;
  std::optional<double> margin; // fraction of device memory to leave free; absent: the default of withMargin
  double budgetSeconds = 0;
  bool allRanks = false;
  std::string compress;                    // "none", "plan" or a codec; empty: none
  std::vector<std::string> compressCodecs; // codecs that a plan may choose; empty: those of usualCodecs()
  double compressRatio = 0;                // largest ratio of compression; 0: any
  int64_t compressFirstStep = 0;           // first step that compresses

  /// Returns the number of ranks that a plan may use; 0: as many as the cluster has. Fails when `ranks` contradicts
  /// the mode stand-alone.
  Result<int64_t> wantedRanks() const;
  /// Returns what the settings ask of the planner of compression; nothing without compression. Fails when a setting
  /// has no effect.
  Result<std::optional<CompressionRequest>> compression() const;
};

/// All settings of a job.
struct JobSettings {
  ModelSettings model;
  PrecisionSettings precision;
  SearchSettings search;
  runtime::LearningRate learningRate; // for runs
  std::optional<uint64_t> seed;       // for runs
};

/// Reads the value of the setting expert-capacity: "exact" (no limit) or a number above 0; nothing for other texts.
std::optional<double> expertCapacityFrom(const std::string &text);
/// Reads a parameter group "GLOB:lr=0.001,decay=0,optimizer=adamw". The error does not repeat the name of the setting.
Result<OptimizerGroup> parameterGroupFrom(const std::string &text);

/// Reads settings from a JSON object with the keys of "job.options" in plan.json (jobSettingNames), and with the keys
/// "search", "budget", "top" and "ranks" besides. Fails on unknown keys and on values of a wrong type or out of range.
/// With `strict`, a setting that the chosen optimizer does not have is an error too.
Result<JobSettings> readSettings(const nlohmann::ordered_json &options, bool strict);

/// Builds the request for a plan. `constraints` are decisions that the plan has to keep, and `constraintsFile` names
/// them in messages. Fails when settings contradict each other or the constraints.
Result<PlanRequest> makePlanRequest(const ModelSource &model, const JobSettings &settings, const Cluster &cluster,
                                    Plan constraints, const std::string &constraintsFile);

} // namespace kerf
