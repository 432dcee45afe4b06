// SPDX-License-Identifier: Apache-2.0
// Internal interface of the export: the plan as the targets' tables see it (View), the output that the tables write
// (Draft), and the tables themselves, with one row for each key.
#pragma once

#include "kerf/Export/Export.h"
#include "kerf/PlanSearch/StepOfPlan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>
#include <initializer_list>

namespace kerf::exporting {

using Json = nlohmann::ordered_json;

/// A complete plan under the names that trainers use.
struct View {
  const ExportInput &in;
  const Plan &plan;
  const ModelSizes &model;
  int64_t tensor, data, pipeline, context, expert; // sizes of the mesh axes model, data, stage, context and expert
  int64_t chunks;                                  // model chunks on each stage
  ScheduleKind schedule;
  int64_t ranks, microbatches; // number of ranks, and of microbatches in a step
  int64_t devicesPerNode;      // number of devices on a node that the plan uses
  bool sequenceParallel;
  int64_t sharding;      // optimizer sharding, 0 to 3, of the stage that shards most
  std::string recompute; // recomputation of the layer that recomputes most: "none", "selective", "full", "offload"
  /// Number of layers that are recomputed in the part that recomputes most. Set only if every part recomputes its first
  /// layers in full and no others.
  std::optional<int64_t> recomputeBlock;
  bool uniformRecompute = true; // true if all layers recompute as `recompute` and `recomputeBlock` say
  LayerCut cut;                 // layers of each part; empty if there is one stage, or the layers are not known
  bool evenCut = true;          // true if all parts have the same number of layers, or there is no pipeline

  /// Creates a view of `input`, which must outlive the view. The cut and the recomputed layers are filled later.
  explicit View(const ExportInput &input);
  /// Sets the members about recomputation from the plan's rules for single layers. `layers` is the model's number of
  /// layers; 0 if it is not known.
  void findRecomputedLayers(int64_t layers);
  /// Returns true if the plan overlaps the communication `what` ("gradients", "stage", ...) with compute.
  bool overlaps(const char *what) const;
  /// Returns true if the model has experts.
  bool experts() const { return model.experts > 0; }
  /// Returns the number of ranks that process different samples. The axis expert shards the batch too.
  int64_t dataParallelRanks() const { return data * expert; }
  /// Returns the number of layers of each part, in the order of the layers.
  std::vector<int64_t> layersByPart() const;
  /// Returns true if the mesh's axes of size > 1, outermost first, have the order of `wanted`.
  bool axisOrderIs(std::initializer_list<const char *> wanted) const;
};

/// The output of an export: configuration file, launch command and decisions. Rows write it key by key.
class Draft {
public:
  Json config = Json::object();    // configuration file as a tree
  Json arguments = Json::object(); // arguments of the launch command, with their values; true: a flag without a value
  std::map<std::string, std::string> environment; // environment variables of the launch command
  std::vector<ExportDecision> decisions;
  bool readsOrder = false; // whether the target reads the order of the stages' tasks from a file
  PlanAsExported runs;     // the plan as the target runs it: rows change it where the target does something else
  std::string key, value;  // key that is being written, and its value as JSON

  /// Sets the value at the path "a.b" of the configuration file, and records that the key is expressed by it.
  void file(const std::string &path, Json what);
  /// Sets an argument of the launch command, and records that the key is expressed by it; true is a flag without
  /// a value.
  void argument(const std::string &name, Json what = true);
  /// Records that the target's default behaviour expresses the key.
  void expressed(std::string text) { decide(ExportDecision::Kind::Expressed, std::move(text)); }
  /// Records that the key has no effect in this plan.
  void idle(std::string text) { decide(ExportDecision::Kind::Idle, std::move(text)); }
  /// Records that the target does something else than planned.
  void differs(std::string text) { decide(ExportDecision::Kind::Differs, std::move(text)); }

private:
  void decide(ExportDecision::Kind kind, std::string text) { decisions.push_back({key, value, kind, std::move(text)}); }
};

/// A key and the function that writes it for one target.
struct Row {
  const char *key;
  std::function<void(const View &, Draft &)> write;
};
/// Rows of a target; the first row of a key counts.
using Table = std::vector<Row>;

/// Returns the rows of keys that all targets treat alike.
const Table &commonTable();
/// Return the rows of one target.
const Table &megatronTable();
const Table &torchTitanTable();
const Table &deepSpeedTable();
const Table &nemoTable();
const Table &accelerateTable();
const Table &transformersTable();
const Table &torchTitanPythonTable();
const Table &nanotronTable();
const Table &msSwiftTable();
const Table &megatronBridgeTable();
const Table &mindSpeedTable();
const Table &mindSporeTable();

/// Returns the rows of all tables, one table after the other.
Table joinTables(std::initializer_list<Table> tables);
/// Returns rows for the properties of a model, for a trainer that has them from the model itself. `why` says so in the
/// notes.
Table modelTableOfTrainer(const char *why);

// Functions that several targets share.
/// Sets the plan that runs to 1F1B, without chunks and with stages of as many layers.
void runsPlain1F1B(Draft &out);
/// Adds the kind of communication `what` to those that overlap in the plan that runs, or removes it.
void runsOverlap(const char *what, bool on, Draft &out);
/// Sets the order of the axes of the plan that runs, outermost first.
void runsOrder(std::initializer_list<const char *> order, Draft &out);
/// Notes that all layers recompute like the layer that recomputes most, so that the plan fits, if the plan's
/// recomputation differs between stages or layers.
void noteMixedRecompute(const View &view, Draft &out);
/// Notes the same for targets that can recompute the first layers of each part.
void noteMixedBlock(const View &view, Draft &out);
/// Notes that all stages shard the optimizer like the stage that shards most, if stages differ.
void noteMixedSharding(const View &view, Draft &out);
/// Returns over how many groups of ranks the optimizer states are replicated (`optimizer_sharding_ranks`); if it is 1,
/// also records that the key is expressed or has no effect.
int64_t shardInstances(const View &view, Draft &out);
/// Notes, for targets that always shard optimizer states over all ranks, that the plan wanted smaller groups.
void noteShardingOverAllRanks(const View &view, Draft &out);
/// Writes the key "schedule.variant" for targets that run 1F1B in place of zero-bubble schedules.
void noteNoZeroBubble(const View &view, Draft &out);
/// Writes the key "schedule.in_flight" for targets without the schedules that it limits.
void noteInFlight(const View &view, Draft &out);
/// Notes that the target's program trains causal language models, if the model is another one.
void noteTask(const View &view, Draft &out);
/// Writes the key "optimizer_states" for targets that keep all states in f32 on the device.
void noteStatesOnDevice(const View &view, Draft &out);
/// Notes, for targets that wait for exchanges of tokens with experts, that the plan overlaps them.
void noteTokensWait(const View &view, Draft &out);
/// Writes the key "layout": expressed for Megatron-LM's layout, a difference for a solved one.
void writeLayout(const View &view, Draft &out);
/// Returns the order of the mesh's axes as text, outermost first.
std::string orderText(const View &view);
/// Returns true if the optimizer is SGD or AdamW, which targets have.
bool hasCommonOptimizer(const View &view);
/// Notes, for other optimizers, that the file has AdamW instead.
void noteOptimizer(const View &view, Draft &out);

/// Returns every key that is set, with its value: "mesh.data", "model.layers", "optimizer.kind", "dtype", ...
std::vector<std::pair<std::string, Json>> settings(const View &view);

/// Return the text of a configuration file: a shell script, TOML or YAML. `head` holds lines of comments.
std::string shellText(const std::vector<std::string> &head, const std::string &command, const Json &arguments);
std::string tomlText(const std::vector<std::string> &head, const Json &config);
std::string yamlText(const std::vector<std::string> &head, const Json &config);
/// A file with the order of the stages' tasks: its name, and whether it has both halves of split backward passes.
struct OrderFile {
  std::string name;
  bool splitBackward = false;
};
/// Returns the order of the stages' tasks as PyTorch's pipelines read it: a row for each stage, with "0F3" for the
/// forward of microbatch 3 on part 0.
std::string pytorchOrderText(const Schedule &schedule);
/// Returns the Python module of a job of TorchTitan 0.3 from the configuration that its table writes. `order` is null
/// if the schedule has a name there.
std::string torchTitanPythonText(const std::vector<std::string> &head, Json config, const ModelSizes &model,
                                 const OrderFile *order);
/// Returns the Python program of a job of Megatron Bridge from the configuration that its table writes.
std::string megatronBridgeText(const std::vector<std::string> &head, const Json &config, const ModelSizes &model);
/// Returns a value as Python has it.
std::string pythonValue(const Json &value);
/// Returns the Python module of MindSpore from the settings that its table writes.
std::string mindSporeText(const std::vector<std::string> &head, const Json &config);
/// Returns arguments as words of a command line, quoted for a shell where needed: "--a 1", "--b".
std::vector<std::string> commandLineWords(const Json &arguments);

} // namespace kerf::exporting
