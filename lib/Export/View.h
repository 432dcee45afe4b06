// SPDX-License-Identifier: Apache-2.0
// What the tables of the targets see of an export, and what they write: one row for each key, called where the key is
// set.
#pragma once

#include "kerf/Export/Export.h"
#include "kerf/PlanSearch/StepOfPlan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>

namespace kerf::exporting {

using Json = nlohmann::ordered_json;

/// A completed plan, by the names that trainers use.
struct View {
  const ExportInput &in;
  const Plan &plan;
  const ModelSizes &model;
  int64_t tensor, data, pipeline, context, expert, chunks;
  ScheduleKind schedule;
  int64_t ranks, microbatches, devicesPerNode;
  bool sequenceParallel;
  int64_t sharding;      // of the stage that shards most
  std::string recompute; // of the layer that recomputes most
  /// Every part recomputes its first layers in full and no others: so many, of the part that recomputes most.
  std::optional<int64_t> recomputeBlock;
  bool recomputeAlike = true; // all as these two say
  LayerCut cut;               // by part; empty: one stage, or nobody knows the layers
  bool evenCut = true;        // all parts alike, or no pipeline

  explicit View(const ExportInput &input);
  /// Where single layers are told; `layers` of the model, 0: not known.
  void seeRecomputedLayers(int64_t layers);
  bool overlaps(const char *what) const;
  bool experts() const { return model.experts > 0; }
  /// Ranks that hold different samples. In a model without experts the axis is more data.
  int64_t samplers() const { return data * expert; }
  /// Of parts, in the order of layers.
  std::vector<int64_t> layersByPart() const;
  /// The mesh's axes of size > 1, outermost first, are those of `wanted`, in its order.
  bool orderIs(std::initializer_list<const char *> wanted) const;
};

/// What is written: the file as a tree, arguments of the launch line, and decisions on the key at hand.
class Draft {
public:
  Json config = Json::object(), arguments = Json::object();
  std::map<std::string, std::string> environment;
  std::vector<ExportDecision> decisions;
  std::string key, value; // at hand

  /// Puts a value at "a.b" into the file, and says so.
  void file(const std::string &path, Json what);
  /// An argument of the command line; true: a flag without a value.
  void argument(const std::string &name, Json what = true);
  /// The key is expressed by the target's own behaviour.
  void expressed(std::string text) { decide(ExportDecision::Kind::Expressed, std::move(text)); }
  void idle(std::string text) { decide(ExportDecision::Kind::Idle, std::move(text)); }
  void differs(std::string text) { decide(ExportDecision::Kind::Differs, std::move(text)); }

private:
  void decide(ExportDecision::Kind kind, std::string text) { decisions.push_back({key, value, kind, std::move(text)}); }
};

struct Row {
  const char *key;
  std::function<void(const View &, Draft &)> write;
};
using Table = std::vector<Row>;

const Table &commonTable(); // what is alike for all targets
const Table &megatronTable();
const Table &torchTitanTable();
const Table &deepSpeedTable();
const Table &nemoTable();

// Notes that several targets share.
/// Recomputation that differs from stage to stage or from layer to layer, where the target has one for all: the
/// strongest, so that it fits.
void noteMixedRecompute(const View &view, Draft &out);
/// The same for targets that can recompute the first layers of each part.
void noteMixedBlock(const View &view, Draft &out);
/// Likewise optimizer sharding.
void noteMixedSharding(const View &view, Draft &out);
/// In how many groups of ranks all states are (`optimizer_sharding_ranks`); 1: it says why.
int64_t shardInstances(const View &view, Draft &out);
/// For targets that cut states over all ranks.
void noteAllShare(const View &view, Draft &out);
/// The model is not one that pretrain_gpt.py or its like trains.
void noteTask(const View &view, Draft &out);
void writeLayout(const View &view, Draft &out);
std::string orderText(const View &view);
/// Whether the optimizer is one that targets have: SGD or AdamW.
bool hasTargetsOptimizer(const View &view);
/// For other optimizers: AdamW stands in the file.
void noteOptimizer(const View &view, Draft &out);

/// Every key that is set, with its value: "mesh.data", "model.layers", "optimizer.kind", "dtype".
std::vector<std::pair<std::string, Json>> settings(const View &view);

/// Texts of files; `head` are lines of comments.
std::string shellText(const std::vector<std::string> &head, const std::string &command, const Json &arguments);
std::string tomlText(const std::vector<std::string> &head, const Json &config);
std::string yamlText(const std::vector<std::string> &head, const Json &config);
/// " --a 1 --b", quoted for a shell where that is needed.
std::vector<std::string> words(const Json &arguments);

} // namespace kerf::exporting
