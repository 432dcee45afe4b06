// SPDX-License-Identifier: Apache-2.0
// The search over placements. For each mesh (each factorization of the ranks into data x model and the axes of the
// constraints), the placement problem is built and solved, and the step is compiled under the solution. The fastest
// compiled program that fits into memory wins.
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

/// Returns a plan without strategies for each mesh that the constraints allow: sizes of "data" and "model" whose
/// product with the pinned axes is `ranks`. Fails when the pinned axes do not divide `ranks`.
Result<std::vector<Plan>> frames(const Plan &constraints, const std::string &where, int64_t ranks) {
  int64_t fixed = 1;
  for (const auto &[axis, size] : constraints.meshSizes)
    fixed *= size;
  bool freeData = !constraints.meshSizes.contains("data"), freeModel = !constraints.meshSizes.contains("model");
  std::vector<std::string> sizes;
  for (const auto &[axis, size] : constraints.meshSizes)
    sizes.push_back(fmt::format("{} = {}", axis, size));
  if (ranks % fixed != 0 || (!freeData && !freeModel && fixed != ranks))
    return Error{
        fmt::format("{}: the mesh ({}) has {} ranks, which does not fit {} ranks; change a size of the mesh or <ranks>",
                    where, fmt::join(sizes, ", "), fixed, ranks)};
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

/// A compiled plan for one mesh.
struct Candidate {
  Plan plan;
  CompileResult compiled;
  Placement placement;
  Solution solution;
  int64_t ranks() const { return plan.mesh().ranks(); }
  int64_t bytes() const { return compiled.report.memory.total; }
  /// Returns the predicted step time of the compiled program. The cost of the placement problem ignores what
  /// compilation merges and adds.
  double seconds() const { return compiled.figures.stepSeconds; }
  /// Converts a cost of the placement problem to seconds, scaled so that the cost of the solution becomes `seconds()`.
  double secondsOf(TotalCost cost) const {
    double whole = placement.seconds(solution.cost);
    return whole > 0 ? seconds() * (placement.seconds(cost) / whole) : seconds();
  }
  double boundSeconds() const { return secondsOf(solution.lowerBound); }
};

/// Returns the memory of a rank as text, "parameters 1.20 MiB, activations 3.00 MiB", without parts below a thousandth
/// of the total.
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

/// The effort of the search under a memory limit. Thorough tries more limits, and is used when no mesh has a plan that
/// fits.
enum class Effort { Normal, Thorough };

/// The search on one mesh. The memory estimate of the placement problem ignores buffers of reshards and kernels, so the
/// memory plan of the compiled program decides whether a solution fits. The next round lowers the limit of the estimate
/// by the bytes that the program needed beyond it. `run` returns nothing when no plan of this mesh fits; `least` is
/// then the least memory of a compiled program.
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
  plan.predicted = Prediction(); // a plan with a prediction counts as complete
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

/// Solves the placement under a limit for the estimated memory and compiles it. Updates `least` with the memory of the
/// program.
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
        fmt::format("mesh {}: the pins contradict each other, so no combination of strategies is left; remove a pin",
                    meshText(placement.mesh))};
  auto candidate = lower(placement, std::move(*solution));
  if (candidate && candidate->bytes() < least.total)
    least = candidate->compiled.report.memory;
  return candidate;
}

Result<std::optional<Candidate>> MeshSearch::run(Effort effort, Report::Memory &least) {
  auto placement = buildProblem(*step.module, collectives, options.constraints, limit);
  if (!placement)
    return placement.error();
  TotalCost bound =
      0; // a lower bound is known only if the estimate fits, because a program may need less memory than its estimate
  auto settled = [&](Candidate &candidate) {
    candidate.solution.lowerBound = std::min(bound, candidate.solution.cost);
    candidate.plan.predicted->lowerBoundSeconds = candidate.boundSeconds();
    return std::optional<Candidate>(std::move(candidate));
  };
  int64_t allowed = limit, leastEstimate = 0;
  for (int round = 0; round < kMemoryRounds; ++round) {
    bool last = round == kMemoryRounds - 1 || allowed <= 0; // the last round minimizes memory
    // Only the last round, which does not depend on the limit, counts as least memory: giving this number as the limit
    // must find the same plan.
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
  // The plan with the least estimated memory need not be the plan with the least real memory.
  auto free = attempt(*placement, std::nullopt, least);
  if (!free)
    return free.error();
  if (free->bytes() <= limit)
    return settled(*free);
  for (double share : kFallbackLimitShares) {
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

/// Returns the best plan that gives the most expensive operator with a choice another strategy, for the report.
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

/// Adds to the report, for each operator, the least cost of choosing another strategy, and the seconds that more memory
/// would save.
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
    const std::vector<TotalCost> &lowerBounds = explanation.lowerBounds[found->second];
    int other = -1;
    for (int s = 0; s < static_cast<int>(lowerBounds.size()); ++s)
      if (s != best.solution.choice[found->second] && lowerBounds[s] < kUnboundedTotal &&
          (other < 0 || lowerBounds[s] < lowerBounds[other]))
        other = s;
    if (other < 0 || lowerBounds[other] <= best.solution.cost)
      continue;
    op.nextBestExtraSeconds = placement.seconds(lowerBounds[other] - best.solution.cost);
    op.nextBestStrategy = strategyText(placement.mesh, node.rule, node.strategies[other]);
  }
  report.secondsPerByte = explanation.costPerByte * placement.secondsPerCost;
}

/// Returns a memory larger than that of any plan, as the initial value of a minimum.
Report::Memory unknownMemory() {
  Report::Memory memory;
  memory.total = std::numeric_limits<int64_t>::max();
  return memory;
}

/// The best plans of several meshes.
struct SearchedMeshes {
  std::vector<Candidate> fitting;
  std::vector<Report::Alternative> rejected; // meshes without a plan that fits into memory
  std::optional<Error> error;                // the error of a mesh that the pins do not allow
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
        // A pin may be valid on some meshes only, because it names an axis that has size 1 on this mesh.
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
             fmt::format("needs {} of memory, but a rank has {}", bytesText(leastOfMesh.total), bytesText(limit)), 0,
             leastOfMesh.total});
        continue;
      }
      searched.bound = std::min(searched.bound, (*candidate)->boundSeconds());
      searched.fitting.push_back(std::move(**candidate));
    }
  }
  return searched;
}

/// Searches the meshes of all ranks, then of half as many ranks, as long as fewer ranks make the step no slower. Fails
/// when no mesh of all ranks can be tried.
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
    // Fewer ranks need more memory each, so the search ends when no plan fits on this number.
    if (options.allRanks || searched.fitting.empty() || seconds > fewestSeconds)
      break;
    fewestSeconds = seconds;
  }
  return all;
}

/// Adds the reasons of the choice and the alternatives to the report of `planned`, whose plan is the first of
/// `searched.fitting`.
void reportChoice(const SearchedMeshes &searched, const Cluster &cluster, const PlanOptions &options,
                  PlanResult &planned) {
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
    other.description = "mesh " + other.description;
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

Result<PlanResult> planStep(const TrainingStep &step, const Cluster &cluster, const PlanOptions &given) {
  PlanOptions options = given;
  addPins(step, options.constraints);
  if (Status status = checkOneGroup(cluster, "kerf plan"); !status)
    return status.error();
  if (Status status = checkLowerable(options.constraints, options.constraintsFile); !status)
    return status.error();
  int64_t batch = batchOf(*step.module);
  if (options.constraints.globalBatch && options.constraints.globalBatch != batch)
    return Error{
        fmt::format("{}: global_batch is {}, but the model was exported with a batch of {}; leave global_batch out",
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
        fmt::format("no plan for {} fits into {} of memory per rank; the smallest plan found needs {} bytes ({}): {}; "
                    "give <memory> {} or more, or more ranks",
                    countText(cluster.ranks(), "rank"), bytesText(limit), least.total, bytesText(least.total),
                    memoryText(least), least.total),
        ExitStatus::Infeasible};
  }

  // Among equally fast plans, the plan with the fewest ranks comes first.
  std::stable_sort(fitting.begin(), fitting.end(), [](const Candidate &a, const Candidate &b) {
    return std::pair(a.seconds(), a.ranks()) < std::pair(b.seconds(), b.ranks());
  });
  Candidate &best = fitting.front();
  best.plan.predicted->lowerBoundSeconds = searched->bound;
  PlanResult planned{best.plan, std::move(best.compiled), best.placement.problem};
  planned.problem.name =
      fmt::format("mesh {}, costs in units of 2^{} s, cost of the plan {}", meshText(best.placement.mesh),
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
