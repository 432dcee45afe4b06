// SPDX-License-Identifier: Apache-2.0
// The search over meshes: for each way to factor the ranks into data x model (and what the constraints name), the
// placement problem is built, solved and lowered; the fastest that really fits wins.
#include "HandWritten.h"
#include "Tuning.h"

#include "kerf/CostModel/Margin.h"
#include "kerf/Search/Explain.h"
#include "kerf/Support/Units.h"
#include "kerf/Transforms/Placement.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
#include <map>

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

namespace {

/// Every plan frame that the constraints leave open: sizes of "data" and "model" whose product, with the pinned axes,
/// is the ranks.
Result<std::vector<Plan>> frames(const Plan &constraints, const std::string &where, int64_t ranks) {
  int64_t fixed = 1;
  for (const auto &[axis, size] : constraints.meshSizes)
    fixed *= size;
  bool freeData = !constraints.meshSizes.contains("data"), freeModel = !constraints.meshSizes.contains("model");
  std::vector<std::string> sizes;
  for (const auto &[axis, size] : constraints.meshSizes)
    sizes.push_back(fmt::format("{} = {}", axis, size));
  if (ranks % fixed != 0 || (!freeData && !freeModel && fixed != ranks))
    return Error{fmt::format("{}: the mesh ({}) has {} ranks, which does not make {}; change a size or <ranks>", where,
                             fmt::join(sizes, ", "), fixed, ranks)};
  int64_t open = ranks / fixed;
  std::vector<Plan> list;
  for (int64_t model = 1; model <= open; ++model) {
    if (open % model != 0 || (!freeModel && model != 1) || (!freeData && model != open))
      continue;
    Plan plan;
    plan.meshSizes = constraints.meshSizes;
    if (freeData)
      plan.meshSizes["data"] = open / model;
    if (freeModel)
      plan.meshSizes["model"] = model;
    for (const char *axis : kPlanAxes)
      plan.meshSizes.try_emplace(axis, 1);
    plan.order = constraints.order;
    for (const char *axis : kPlanAxes)
      if (std::find(plan.order.begin(), plan.order.end(), axis) == plan.order.end())
        plan.order.push_back(axis);
    for (const auto &[axis, size] : plan.meshSizes)
      if (std::find(plan.order.begin(), plan.order.end(), axis) == plan.order.end())
        plan.order.push_back(axis);
    list.push_back(std::move(plan));
  }
  return list;
}

struct Candidate {
  Plan plan;
  Compiled compiled;
  Placement placement;
  Solution solution;
  int64_t ranks() const { return plan.mesh().ranks(); }
  int64_t bytes() const { return compiled.report.memory.total; }
  /// Of the lowered program. The problem's own price leaves out what lowering merges and adds.
  double seconds() const { return compiled.figures.stepSeconds; }
  /// What the problem says of another of its costs, in seconds of the program.
  double secondsOf(TotalCost cost) const {
    double whole = placement.seconds(solution.cost);
    return whole > 0 ? seconds() * (placement.seconds(cost) / whole) : seconds();
  }
  double boundSeconds() const { return secondsOf(solution.lowerBound); }
};

/// "parameters 1.20 MiB, activations 3.00 MiB": what a rank holds, leaving out what is less than a thousandth of it.
std::string memoryText(const Report::Memory &memory) {
  const std::pair<const char *, int64_t> parts[] = {{"parameters", memory.parameters},
                                                    {"gradients", memory.gradients},
                                                    {"optimizer states", memory.states},
                                                    {"activations", memory.activations},
                                                    {"inputs", memory.inputs}};
  std::vector<std::string> texts;
  for (const auto &[name, bytes] : parts)
    if (bytes > memory.total / 1000)
      texts.push_back(fmt::format("{} {}", name, bytesText(bytes)));
  return fmt::format("{}", fmt::join(texts, ", "));
}

/// Thorough: where no mesh has a plan that fits, more estimates are tried before the user is told so.
enum class Effort { Normal, Thorough };

/// One mesh. The problem's memory leaves out the buffers of reshards and kernels; the program's real plan decides, and
/// what it needs beyond the problem's estimate is taken off the limit of the next round. Nothing when no plan of this
/// mesh fits; `leastBytes` then tells what one needs.
class MeshSearch {
public:
  MeshSearch(const TrainingStep &step, const Cluster &cluster, const PlanOptions &options, Plan frame, int64_t limit)
      : step(step), cluster(cluster), options(options), frame(std::move(frame)), limit(limit),
        collectives(this->frame.mesh(), cluster) {}

  Result<std::optional<Candidate>> run(Effort effort, Report::Memory &least);

private:
  Result<Candidate> lower(Placement placement, Solution solution);
  Result<Candidate> attempt(Placement &placement, std::optional<int64_t> estimateLimit, Report::Memory &least);
  const TrainingStep &step;
  const Cluster &cluster;
  const PlanOptions &options;
  Plan frame;
  int64_t limit;
  CollectiveModel collectives;
};

Result<Candidate> MeshSearch::lower(Placement placement, Solution solution) {
  Candidate candidate{frame, {}, std::move(placement), std::move(solution)};
  Plan &plan = candidate.plan;
  plan.globalBatch = batchOf(*step.module);
  int64_t data = plan.meshSizes.at("data");
  plan.microbatch = (plan.globalBatch + data - 1) / data;
  plan.recompute = {Recompute::None};
  plan.optimizerSharding = {0};
  plan.sequenceParallel = {false};
  writeChoice(*step.module, candidate.placement, candidate.solution.choice, plan);
  plan.modelHash = step.modelHash;
  plan.clusterHash = sha256(toJson(cluster));
  plan.predicted = Prediction(); // complete
  auto compiled = compileStep(step, plan, "the plan found", cluster);
  if (!compiled)
    return compiled.error();
  candidate.compiled = std::move(*compiled);
  plan.predicted->stepSeconds = candidate.seconds();
  plan.predicted->lowerBoundSeconds = candidate.boundSeconds();
  plan.predicted->peakBytes = {candidate.bytes()};
  plan.predicted->fits = candidate.bytes() <= limit;
  return candidate;
}

/// The best under an estimated limit; its real bytes are noted.
Result<Candidate> MeshSearch::attempt(Placement &placement, std::optional<int64_t> estimateLimit,
                                      Report::Memory &least) {
  placement.problem.memoryLimitBytes = estimateLimit;
  SolveOptions solveOptions;
  solveOptions.workBudget = options.workBudget / kMemoryRounds;
  auto solution = solve(placement.problem, solveOptions);
  if (!solution)
    return solution.error();
  if (solution->choice.empty())
    return Error{
        fmt::format("mesh {}: the pins contradict each other: no strategies go together", meshText(placement.mesh))};
  auto candidate = lower(placement, std::move(*solution));
  if (candidate && candidate->bytes() < least.total)
    least = candidate->compiled.report.memory;
  return candidate;
}

Result<std::optional<Candidate>> MeshSearch::run(Effort effort, Report::Memory &least) {
  auto placement = buildProblem(*step.module, collectives, options.constraints, limit);
  if (!placement)
    return placement.error();
  TotalCost bound = 0; // known only where the estimate itself fits: a plan may need less than its estimate
  auto settled = [&](Candidate &candidate) {
    candidate.solution.lowerBound = std::min(bound, candidate.solution.cost);
    candidate.plan.predicted->lowerBoundSeconds = candidate.boundSeconds();
    return std::optional<Candidate>(std::move(candidate));
  };
  int64_t allowed = limit, leastEstimate = 0;
  for (int round = 0; round < kMemoryRounds; ++round) {
    bool last = round == kMemoryRounds - 1 || allowed <= 0; // the last try is for the least memory
    // Only what is found whatever the limit counts as least: the same number, given as the limit, finds it again.
    Report::Memory ofThisLimit = least;
    auto candidate = attempt(*placement, last ? 0 : allowed, last ? least : ofThisLimit);
    if (!candidate)
      return candidate.error();
    if (round == 0 && candidate->solution.feasible)
      bound = candidate->solution.lowerBound;
    if (candidate->bytes() <= limit)
      return settled(*candidate);
    leastEstimate = candidate->solution.peakBytes;
    if (last)
      break;
    int64_t beyond = candidate->bytes() - candidate->solution.peakBytes;
    int64_t next = std::min(limit - std::max<int64_t>(beyond, 0), candidate->solution.peakBytes - 1);
    allowed = candidate->solution.feasible ? std::min(next, allowed - 1) : 0;
  }
  if (effort == Effort::Normal)
    return std::optional<Candidate>();
  // What the estimate calls least need not be the least in truth.
  auto free = attempt(*placement, std::nullopt, least);
  if (!free)
    return free.error();
  if (free->bytes() <= limit)
    return settled(*free);
  for (double share : kOtherTries) {
    int64_t between = leastEstimate + static_cast<int64_t>(share * static_cast<double>(std::max<int64_t>(
                                                                       0, free->solution.peakBytes - leastEstimate)));
    auto candidate = attempt(*placement, between, least);
    if (!candidate)
      return candidate.error();
    if (candidate->bytes() <= limit)
      return settled(*candidate);
  }
  return std::optional<Candidate>();
}

/// The dearest op that has another way: what the best plan with it changed would cost.
std::optional<Report::Alternative> decisionRunnerUp(const Candidate &best, const PlanOptions &options) {
  const Problem &problem = best.placement.problem;
  int dearest = -1;
  for (size_t i = 0; i < problem.nodes.size(); ++i)
    if (best.placement.nodes[i].op && best.placement.nodes[i].strategies.size() > 1 &&
        (dearest < 0 ||
         problem.nodes[i].costs[best.solution.choice[i]] > problem.nodes[dearest].costs[best.solution.choice[dearest]]))
      dearest = static_cast<int>(i);
  if (dearest < 0)
    return std::nullopt;
  SolveOptions solveOptions;
  solveOptions.workBudget = options.workBudget;
  auto other = solveExcluding(problem, best.solution, dearest, solveOptions);
  if (!other || !other->feasible)
    return std::nullopt;
  double seconds = best.secondsOf(other->cost);
  const PlacementNode &node = best.placement.nodes[dearest];
  std::string strategy = strategyText(best.placement.mesh, node.rule, node.strategies[other->choice[dearest]]);
  return Report::Alternative{
      fmt::format("{} with {}", problem.nodes[dearest].name, strategy.empty() ? "not cut" : strategy),
      fmt::format("{:+.1f} % step time", 100 * (seconds / best.seconds() - 1)), seconds, other->peakBytes};
}

/// What every op's other strategies would cost at least, and what memory is worth.
void explainChoice(const Candidate &best, Report &report) {
  const Placement &placement = best.placement;
  SolutionExplanation explanation = explain(placement.problem, best.solution);
  std::map<std::string, size_t> nodeOf;
  for (size_t i = 0; i < placement.nodes.size(); ++i)
    if (placement.nodes[i].op)
      nodeOf.try_emplace(placement.problem.nodes[i].name, i);
  for (Report::Op &op : report.ops) {
    auto found = nodeOf.find(op.key);
    if (found == nodeOf.end())
      continue;
    const PlacementNode &node = placement.nodes[found->second];
    const std::vector<TotalCost> &atLeast = explanation.atLeast[found->second];
    int other = -1;
    for (int s = 0; s < static_cast<int>(atLeast.size()); ++s)
      if (s != best.solution.choice[found->second] && atLeast[s] < kUnboundedTotal &&
          (other < 0 || atLeast[s] < atLeast[other]))
        other = s;
    if (other < 0 || atLeast[other] <= best.solution.cost)
      continue;
    op.otherSeconds = placement.seconds(atLeast[other] - best.solution.cost);
    op.other = strategyText(placement.mesh, node.rule, node.strategies[other]);
  }
  report.secondsPerByte = explanation.costPerByte * placement.secondsPerCost;
}

/// More than any plan needs.
Report::Memory unknownMemory() {
  Report::Memory memory;
  memory.total = std::numeric_limits<int64_t>::max();
  return memory;
}

/// The best plan of each mesh.
struct SearchedMeshes {
  std::vector<Candidate> fitting;
  std::vector<Report::Alternative> rejected; // meshes without a plan that fits
  std::optional<Error> error;                // of a mesh that the pins do not suit
  Report::Memory leastMemory = unknownMemory();
  double bound = std::numeric_limits<double>::infinity();
};

SearchedMeshes searchMeshes(const TrainingStep &step, const Cluster &cluster, const PlanOptions &options,
                            const std::vector<Plan> &meshes, int64_t limit) {
  SearchedMeshes searched;
  for (Effort effort : {Effort::Normal, Effort::Thorough}) {
    if (effort == Effort::Thorough && (!searched.fitting.empty() || searched.rejected.empty()))
      break;
    searched.rejected.clear();
    for (const Plan &frame : meshes) {
      Report::Memory leastOfMesh = unknownMemory();
      auto candidate = MeshSearch(step, cluster, options, frame, limit).run(effort, leastOfMesh);
      if (!candidate) {
        // A pin may suit some meshes only (it names an axis that has size 1 here).
        searched.error = candidate.error();
        if (candidate.error().status == ExitStatus::InternalCheck)
          return searched;
        continue;
      }
      if (leastOfMesh.total < searched.leastMemory.total)
        searched.leastMemory = leastOfMesh;
      if (!*candidate) {
        searched.rejected.push_back(
            {meshText(frame.mesh()),
             fmt::format("needs {} of memory, {} are there", bytesText(leastOfMesh.total), bytesText(limit)), 0,
             leastOfMesh.total});
        continue;
      }
      searched.bound = std::min(searched.bound, (*candidate)->boundSeconds());
      searched.fitting.push_back(std::move(**candidate));
    }
  }
  return searched;
}

/// Searches the meshes of all ranks, then of half as many, for as long as that makes the step no slower. Fails where no
/// mesh of all ranks can be tried.
Result<SearchedMeshes> searchRankCounts(const TrainingStep &step, const Cluster &cluster, const PlanOptions &options,
                                        int64_t limit) {
  SearchedMeshes all;
  double fewestSeconds = std::numeric_limits<double>::infinity();
  for (int64_t ranks = cluster.ranks(); ranks >= 1; ranks /= 2) {
    auto open = frames(options.constraints, options.constraintsFile, ranks);
    if (!open && ranks == cluster.ranks())
      return open.error();
    if (!open)
      continue;
    SearchedMeshes searched = searchMeshes(step, cluster, options, *open, limit);
    if (searched.error && searched.error->status == ExitStatus::InternalCheck)
      return *searched.error;
    if (searched.fitting.empty() && searched.rejected.empty() && ranks == cluster.ranks())
      return searched.error ? *searched.error : Error{"no mesh is left to try", ExitStatus::InternalCheck};
    if (searched.leastMemory.total < all.leastMemory.total)
      all.leastMemory = searched.leastMemory;
    all.bound = std::min(all.bound, searched.bound);
    double seconds = std::numeric_limits<double>::infinity();
    for (Candidate &candidate : searched.fitting) {
      seconds = std::min(seconds, candidate.seconds());
      all.fitting.push_back(std::move(candidate));
    }
    for (Report::Alternative &other : searched.rejected)
      all.rejected.push_back(std::move(other));
    // Fewer ranks need more memory: where these do not fit, fewer will not either.
    if (options.allRanks || searched.fitting.empty() || seconds > fewestSeconds)
      break;
    fewestSeconds = seconds;
  }
  return all;
}

/// Adds to the report of `planned`, whose plan is the first of `searched.fitting`, how the choice was made and the
/// plans that were not chosen.
void reportChoice(const SearchedMeshes &searched, const Cluster &cluster, const PlanOptions &options,
                  Planned &planned) {
  const std::vector<Candidate> &fitting = searched.fitting;
  const Candidate &best = fitting.front();
  Report &report = planned.compiled.report;
  double ofAll = std::numeric_limits<double>::infinity();
  for (const Candidate &candidate : fitting)
    if (candidate.ranks() == cluster.ranks())
      ofAll = std::min(ofAll, candidate.seconds());
  if (best.ranks() < cluster.ranks() && std::isfinite(ofAll))
    planned.notes.push_back(fewerRanksText(cluster.ranks(), ofAll, best.ranks(), best.seconds()));
  explainChoice(best, report);
  if (auto other = decisionRunnerUp(best, options))
    report.alternatives.push_back(std::move(*other));
  for (size_t i = 1; i < fitting.size() && static_cast<int>(i) <= options.alternatives; ++i)
    report.alternatives.push_back(
        {"mesh " + meshText(fitting[i].placement.mesh),
         fmt::format("{:+.1f} % step time", 100 * (fitting[i].seconds() / best.seconds() - 1)), fitting[i].seconds(),
         fitting[i].bytes()});
  for (Report::Alternative other : searched.rejected) {
    other.what = "mesh " + other.what;
    report.alternatives.push_back(std::move(other));
  }
}

} // namespace

std::string fewerRanksText(int64_t ranks, double seconds, int64_t fewer, double fewerSeconds) {
  std::string all = secondsText(seconds), its = secondsText(fewerSeconds);
  std::string takes = fewer == 1 ? "1 takes" : fmt::format("{} take", fewer);
  return fmt::format("{} ranks would take {} a step, {} {}: planned for {}; <all-ranks> plans for {}", ranks, all,
                     takes, all == its ? "as long" : its, fewer, ranks);
}

Result<Planned> planStep(const TrainingStep &step, const Cluster &cluster, const PlanOptions &given) {
  PlanOptions options = given;
  addPins(step, options.constraints);
  if (Status status = checkOneGroup(cluster, "kerf plan"); !status)
    return status.error();
  if (Status status = checkLowerable(options.constraints, options.constraintsFile); !status)
    return status.error();
  int64_t batch = batchOf(*step.module);
  if (options.constraints.globalBatch && options.constraints.globalBatch != batch)
    return Error{fmt::format("{}: global_batch is {}; the model was exported with a batch of {}",
                             options.constraintsFile, options.constraints.globalBatch, batch)};
  int64_t limit = withMargin(cluster, options.margin).device.memoryBytes;
  if (options.memoryLimitBytes)
    limit = std::min(limit, *options.memoryLimitBytes);
  auto searched = searchRankCounts(step, cluster, options, limit);
  if (!searched)
    return searched.error();
  std::vector<Candidate> &fitting = searched->fitting;
  if (fitting.empty()) {
    const Report::Memory &least = searched->leastMemory;
    return Error{
        fmt::format("no plan for {} fits into {} of memory per rank: the smallest found needs {} bytes ({}): {}; "
                    "give <memory> {} or more, or more ranks",
                    countText(cluster.ranks(), "rank"), bytesText(limit), least.total, bytesText(least.total),
                    memoryText(least), least.total),
        ExitStatus::Infeasible};
  }

  // Of plans that are equally fast, the one on the fewest ranks comes first.
  std::stable_sort(fitting.begin(), fitting.end(), [](const Candidate &a, const Candidate &b) {
    return std::pair(a.seconds(), a.ranks()) < std::pair(b.seconds(), b.ranks());
  });
  Candidate &best = fitting.front();
  best.plan.predicted->lowerBoundSeconds = searched->bound;
  Planned planned{best.plan, std::move(best.compiled), best.placement.problem};
  planned.problem.name = fmt::format("mesh {}, costs in 2^{} s, the plan's is {}", meshText(best.placement.mesh),
                                     std::ilogb(best.placement.secondsPerCost), toString(best.solution.cost));
  planned.problem.memoryLimitBytes = limit;
  Report &report = planned.compiled.report;
  report.stepSeconds = best.plan.predicted->stepSeconds;
  report.lowerBoundSeconds = searched->bound;
  report.memoryLimitBytes = limit;
  reportChoice(*searched, cluster, options, planned);
  return planned;
}

} // namespace kerf
