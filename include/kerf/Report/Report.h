// SPDX-License-Identifier: Apache-2.0
// The report of a plan that was searched op by op, and of its training run: plain data, and the same as text, JSON and
// HTML. Seconds are for one step on one rank, and bytes are those of one rank.
#pragma once

#include "kerf/CostModel/Cluster.h"
#include "kerf/Search/Plan.h"
#include "kerf/Support/Units.h"
#include <nlohmann/json.hpp>

namespace kerf {

/// The decisions of a plan, its predicted costs and, after a run, its measured costs.
struct Report {
  /// The strategy of one op, or of all ops with the same key in repeated layers.
  struct Op {
    std::string key;      // name of the op, e.g. "transformer.h.*.mlp.act/gelu"
    std::string strategy; // which factor each mesh axis shards, e.g. "data: b, model: n"; "" for a replicated op
    int64_t calls = 1;    // number of calls in a step
    double seconds = 0;   // predicted seconds of all calls together
    /// Least number of seconds by which every plan on this mesh with another strategy for the op is slower; 0 if
    /// nothing is known, or if the op has no other strategy.
    double nextBestExtraSeconds = 0;
    std::string nextBestStrategy =
        {}; // the strategy with that lower bound; "" for a replicated op, or if there is none
    bool operator==(const Op &) const = default;
  };
  /// Collectives of one kind, over the same axes, for the same cause.
  struct Collective {
    std::string kind;   // "all_reduce", "all_gather", ...
    std::string axes;   // mesh axes of the process groups, e.g. "model"
    std::string cause;  // why the collective is needed
    std::string stream; // stream on which it runs; "" for the stream of kernels
    int64_t calls = 1;  // number of calls in one microbatch
    int64_t bytes = 0;  // bytes of the operand of one call
    double seconds = 0; // predicted seconds of all calls together
  };
  /// Bytes of memory by purpose. `total` is the peak of all allocations, including alignment and workspace.
  struct Memory {
    int64_t parameters = 0, gradients = 0, states = 0, activations = 0, inputs = 0, total = 0;
  };
  /// A plan that was not chosen: on another mesh, or with another strategy for one op.
  struct Alternative {
    std::string description; // e.g. "mesh data 4 x model 1"
    std::string rejected;    // why it was not chosen, e.g. "+12 % step time"
    double stepSeconds = 0;  // predicted seconds of a step; infinite if unknown
    int64_t peakBytes = 0;   // predicted peak memory of a rank, in bytes
  };
  /// A trained parameter with its global shape.
  struct Parameter {
    std::string name;
    Shape shape;
  };

  /// Several collectives of the device program that run as one.
  struct Bucket {
    std::string op;          // op of the bucket's first collective, e.g. "all_reduce"
    std::string stream;      // stream on which the bucket runs; "" for the stream of kernels
    int64_t collectives = 0; // number of collectives in the bucket
    int64_t bytes = 0;       // bytes, on one rank, of the operands of all these collectives together
  };
  /// A pass over a stage's list of steps (kerf/Steps/Steps.h), and its effect.
  struct StepPass {
    std::string name, description;
    int64_t changed = 0; // number of instructions that the pass moved, joined or marked
  };
  /// The effects of all passes on the list of steps of one pipeline stage, counted over all microbatches.
  struct StageSteps {
    int64_t stage = 0;            // index of the pipeline stage, from 0
    std::vector<StepPass> passes; // the passes in the order in which they ran
    std::vector<Bucket> buckets;  // the buckets of the final list, in the order in which they start
  };

  /// Element type of one group of tensors in mixed-precision training.
  struct Type {
    std::string description; // the group, e.g. "parameters"
    std::string type;        // e.g. "f32"
  };

  std::string model, cluster;       // names of the model file and of the cluster
  int64_t ranks = 1, usedRanks = 1; // ranks that were offered, and ranks that the plan uses
  Mesh mesh;                        // mesh of the ranks that the plan uses
  std::string execution;            // for a pipeline plan: "1f1b, 4 microbatches of 1, recompute full"; otherwise ""
  double stepSeconds = 0;           // predicted seconds of a step
  double lowerBoundSeconds = 0;     // lower bound of the seconds of a step for all shardings over the searched axes
  double computeSeconds = 0;        // predicted seconds of all kernels of a step
  double collectiveSeconds = 0;     // predicted seconds of all collectives of a step, hidden behind kernels or not
  int64_t memoryLimitBytes = 0;     // bytes of one rank's device that the plan may use
  double secondsPerByte = 0;        // step seconds that one more byte of memory would save near this limit
  std::vector<Op> ops;              // in the order of the model
  std::vector<Collective> collectives;
  std::vector<StageSteps> steps; // by pipeline stage
  Memory memory;                 // predicted memory of one rank
  std::vector<Alternative> alternatives;
  std::vector<Parameter> trained; // parameters that the optimizer updates
  std::vector<Type> types;        // element types of mixed-precision training; empty without mixed precision
  std::vector<std::string> warnings;
  /// Measured mean seconds of a step of a run, without the first step if there are several; 0 before a run.
  double measuredStepSeconds = 0;
  /// Measured seconds of communication in a step, and the part of these that was hidden behind kernels.
  double measuredCommunicationSeconds = 0, measuredHiddenSeconds = 0;
  std::optional<Memory> measuredMemory; // bytes allocated in the run; none before a run
};

/// Returns the report as text for a terminal.
std::string toText(const Report &report);
/// Returns the report as JSON (keys: docs/interface.md).
nlohmann::ordered_json toJson(const Report &report);
/// Returns the report as one self-contained HTML page. With a cluster, the page also shows where the mesh lies on it.
std::string toHtml(const Report &report, const Cluster *cluster = nullptr);
/// Returns as text how the passes changed the lists of steps; "" if they changed nothing.
std::string toText(const std::vector<Report::StageSteps> &steps);
/// Returns how the passes changed the lists of steps as JSON: the value of the report's key "steps".
nlohmann::ordered_json toJson(const std::vector<Report::StageSteps> &steps);
/// Parses a report that `toJson` wrote, e.g. from a plan file. `where` names the source in the error for damaged JSON.
Result<Report> parseReport(const nlohmann::ordered_json &json, const std::string &where);
/// Returns a mesh as text: "data 2 x model 4", or "one rank" for a mesh without axes.
std::string meshText(const Mesh &mesh);

} // namespace kerf
