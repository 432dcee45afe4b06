// SPDX-License-Identifier: Apache-2.0
// What a plan does, why, and what it costs: plain data, and its text and JSON. Seconds are per step on one rank, bytes
// on one rank.
#pragma once

#include "kerf/CostModel/Cluster.h"
#include "kerf/Search/Plan.h"
#include <nlohmann/json.hpp>

namespace kerf {

struct Report {
  struct Op {
    std::string key, strategy; // "data: b, model: n"; "" where nothing is cut
    int64_t calls = 1;
    double seconds = 0; // all calls together
    /// Every plan on this mesh in which the op has another strategy is slower by so much at least; `other` is the
    /// strategy with that bound. 0 and "" where nothing is known, or where there is no other.
    double otherSeconds = 0;
    std::string other = {};
    bool operator==(const Op &) const = default;
  };
  struct Collective {
    std::string kind, axes, cause, stream; // "all_reduce", "model"
    int64_t calls = 1, bytes = 0;          // bytes of one call's operand; calls of one microbatch
    double seconds = 0;                    // all calls together
  };
  struct Memory {
    int64_t parameters = 0, gradients = 0, states = 0, activations = 0, inputs = 0, total = 0;
  };
  /// Another mesh, or another strategy of one op: what it would cost.
  struct Alternative {
    std::string what, rejected; // "data 4 x model 1", "12 % slower"
    double stepSeconds = 0;
    int64_t peakBytes = 0;
  };
  struct Parameter {
    std::string name;
    Shape shape;
  };

  /// Collectives of the program that are started together. `stream`: "" where they are waited for at once.
  struct Bucket {
    std::string op, stream;
    int64_t collectives = 0, bytes = 0;
  };
  /// A pass over a stage's list of steps, and how many instructions it moved, joined or marked.
  struct StepPass {
    std::string name, what;
    int64_t changed = 0;
  };
  /// Counts of the changes that passes made to a stage's list of steps, over all microbatches.
  struct StageSteps {
    int64_t stage = 0;
    std::vector<StepPass> passes;
    std::vector<Bucket> buckets;
  };

  struct Type {
    std::string what, type; // "parameters", "f32"
  };

  std::string model, cluster;
  int64_t ranks = 1, usedRanks = 1;
  Mesh mesh;
  std::string execution; // "1f1b, 4 microbatches of 1, recompute full": of an execution plan
  double stepSeconds = 0, lowerBoundSeconds = 0, computeSeconds = 0, collectiveSeconds = 0;
  int64_t memoryLimitBytes = 0;
  double secondsPerByte = 0; // what one byte more of memory would save at about this limit
  std::vector<Op> ops;
  std::vector<Collective> collectives;
  std::vector<StageSteps> steps;
  Memory memory;
  std::vector<Alternative> alternatives;
  std::vector<Parameter> trained;
  std::vector<Type> types; // of mixed precision; else everything has one type
  std::vector<std::string> warnings;
  /// After a run: mean seconds of a step (the first left out where there are more), and real bytes.
  double measuredStepSeconds = 0;
  /// Of communication in it: under way, and of these beside kernels.
  double measuredCommunicationSeconds = 0, measuredHiddenSeconds = 0;
  std::optional<Memory> measuredMemory;
};

std::string toText(const Report &report);
nlohmann::ordered_json toJson(const Report &report);
/// One page that needs nothing else; with the mesh drawn on the cluster where it is known.
std::string toHtml(const Report &report, const Cluster *cluster = nullptr);
/// The lists of steps alone.
std::string toText(const std::vector<Report::StageSteps> &steps);
nlohmann::ordered_json toJson(const std::vector<Report::StageSteps> &steps);
/// A report that `toJson` wrote, as a plan file carries it.
Result<Report> parseReport(const nlohmann::ordered_json &json, const std::string &where);
/// "data 2 x model 4", "1.234 ms", "3.1 MB": for people.
std::string meshText(const Mesh &mesh);
std::string secondsText(double seconds);
std::string bytesText(int64_t bytes);

} // namespace kerf
