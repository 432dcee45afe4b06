// SPDX-License-Identifier: Apache-2.0
#include "RandomJobs.h"
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>

namespace kerf::test {

ModelWork RandomJob::work(const LayoutKey &key) const {
  ModelWork model;
  auto samples = static_cast<double>(key.microbatch) / static_cast<double>(key.context),
       ways = static_cast<double>(key.model);
  std::vector<AxisRef> modelAxis, data, besidesExpert;
  if (key.model > 1)
    modelAxis = {{planAxis("model"), 1, key.model}};
  for (const char *axis : {"data", "context", "expert"})
    data.push_back({planAxis(axis), 1, 0});
  besidesExpert.assign(data.begin(), data.end() - 1);
  // In every second job, attention is one kernel, whose result is saved under every mode but full.
  const bool oneKernel = seed % 2 == 1;
  const RecomputeModes core = oneKernel ? RecomputeModes::Attention : RecomputeModes::Scores;
  double streamHere = samples * stream / (key.sequenceParallel ? ways : 1);
  for (size_t l = 0; l < links.size(); ++l) {
    const Link &link = links[l];
    ChainSegment made;
    made.layers = link.count;
    Segment &segment = made.segment;
    segment.name = link.layer ? "layer" : l == 0 ? "embedding" : l + 1 == links.size() ? "head" : "between";
    segment.recomputable = link.layer;
    auto kernel = [&](const char *name, KernelClass kernelClass, double flops, double bytes,
                      RecomputeModes recomputedBy = RecomputeModes::Others) {
      KernelWork one;
      one.name = name;
      one.recomputedBy = recomputedBy;
      one.work.kernelClass = kernelClass;
      one.work.dtype = "bf16";
      one.work.flops = samples * flops / ways;
      one.work.bytes = samples * bytes;
      if (kernelClass == KernelClass::Product) {
        one.work.m = samples * 64;
        one.work.k = 128;
        one.work.n = std::max(1.0, one.work.flops / (2 * one.work.m * one.work.k));
      }
      return one;
    };
    const double coreBytes = oneKernel ? link.flops / 50 : link.selective; // one kernel takes twice a product's time
    double whole = key.sequenceParallel ? 1 / ways : key.solved ? (1 + 1 / ways) / 2 : 1;
    segment.forward.kernels = {
        kernel("product", KernelClass::Product, link.flops, link.bytes / ways),
        kernel("core", KernelClass::Pointwise, 0, coreBytes / ways, core),
        kernel("norm", KernelClass::Pointwise, 0, link.bytes * whole, RecomputeModes::Pointwise)};
    segment.inputGradient.kernels = {kernel("product", KernelClass::Product, link.flops, link.bytes / ways),
                                     kernel("core", KernelClass::Pointwise, 0, 2 * link.selective / ways)};
    segment.weightGradient.kernels = {kernel("product", KernelClass::Product, link.flops, link.bytes / ways)};
    if (key.model > 1) {
      auto collective = [&](const char *name, Collective kind, bool independent) {
        PassCollective one{name, kind, modelAxis, samples * stream, RecomputeModes::Others, independent};
        one.overlapsProduct = true;
        return one;
      };
      if (key.sequenceParallel) {
        segment.forward.collectives = {collective("gather", Collective::AllGather, false),
                                       collective("scatter", Collective::ReduceScatter, false)};
        segment.inputGradient.collectives = {collective("gather", Collective::AllGather, false),
                                             collective("scatter", Collective::ReduceScatter, true)};
      } else if (key.solved) {
        segment.forward.collectives = {collective("sum", Collective::AllReduce, false)};
        segment.inputGradient.collectives = {collective("scatter", Collective::ReduceScatter, true)};
      } else {
        segment.forward.collectives = {collective("sum", Collective::AllReduce, false)};
        segment.inputGradient.collectives = {collective("sum", Collective::AllReduce, true)};
      }
    }
    auto exchange = [&](PassWork &pass, const char *name, Collective kind, const char *axis, double bytes,
                        int64_t hops) {
      pass.collectives.push_back({name, kind, {{planAxis(axis), 1, 0}}, bytes, core, false, hops});
    };
    for (PassWork *pass : {&segment.forward, &segment.inputGradient}) {
      if (key.context > 1 && link.layer)
        exchange(*pass, "keys", key.ulysses ? Collective::AllToAll : Collective::Permute, "context",
                 samples * link.selective / ways, key.ulysses ? 1 : key.context - 1);
      if (key.expert > 1 && link.layer)
        exchange(*pass, "dispatch", Collective::AllToAll, "expert", streamHere, 1);
      for (PassCollective &one : pass->collectives)
        one.exchangesTokens = one.name == "dispatch";
    }
    segment.saved = {{"stream", streamHere, RecomputeModes::Others, true},
                     {"inner", samples * link.width / 2 / (key.solved ? 1 : ways), RecomputeModes::Others, false},
                     {"norm", samples * link.width / 2 / (key.solved ? 1 : ways), RecomputeModes::Pointwise, true},
                     {"core", samples * link.selective / ways, core, false},
                     {"attention", oneKernel ? streamHere / 2 : 0, RecomputeModes::Context, true}};
    segment.inputBytes = streamHere;
    // In a third of the jobs, a layer that waits for its weight gradients holds more than before its backward pass.
    segment.pendingBytes = streamHere / 2 + static_cast<double>(seed % 3) * samples * link.width / ways;
    segment.workspaceBytes = samples * link.width / ways;
    double experts = link.layer ? static_cast<double>(key.expert) : 1;
    segment.parameters = {{"weights", link.parameters / ways / experts, link.layer ? besidesExpert : data},
                          {"norm", link.parameters / 100, data}};
    model.chain.push_back(std::move(made));
    model.modelFlops += static_cast<double>(link.layer ? link.count : 1) * 3 * samples * link.flops;
  }
  if (tied)
    model.tied.emplace_back(links.size() - 1, ParameterGroup{"tied", links.front().parameters / ways, data});
  model.samples = key.microbatch;
  model.tokens = 64 * static_cast<double>(key.microbatch);
  model.layerOutputBytes = samples * stream;
  model.layerOutputLocalBytes = streamHere;
  return model;
}

LayoutSource RandomJob::source() {
  return [this](const LayoutKey &key) -> Result<const ModelWork *> {
    if (!possible(key))
      return nullptr;
    auto found = known.find(key);
    if (found == known.end())
      found = known.emplace(key, work(key)).first;
    return &found->second;
  };
}

/// Returns Kerf's own trainer with these recomputation modes alone.
static Trainer trainerWith(std::vector<Recompute> modes) {
  Trainer trainer = ownTrainer();
  trainer.space.recompute = std::move(modes);
  return trainer;
}

/// Returns the trainer of a job. Jobs of more than three layers do not have all recomputation modes, so that their plans
/// can be enumerated.
static const Trainer &trainerOf(uint64_t seed, int64_t layers) {
  using enum Recompute;
  static const Trainer selective = trainerWith({None, Selective, Pointwise, Full}),
                       keepsAttention = trainerWith({None, Pointwise, ExceptAttention, Full});
  return layers <= 3 ? ownTrainer() : seed % 2 == 1 ? keepsAttention : selective;
}

RandomJob randomJob(uint64_t seed) {
  std::mt19937_64 random(seed);
  auto pick = [&](std::initializer_list<int64_t> list) { return list.begin()[random() % list.size()]; };
  auto between = [&](double low, double high) { // log-uniform
    return low * std::pow(high / low, static_cast<double>(random() % 10001) / 10000);
  };
  RandomJob job;
  job.seed = seed;
  int64_t ranks = pick({1, 2, 3, 4, 4, 6, 8});
  job.layers = pick({1, 2, 3, 4, 5, 6});
  job.job.trainer = &trainerOf(seed, job.layers);
  job.stream = between(1e5, 1e8);
  for (bool layer : {false, true, false})
    job.links.push_back({layer, between(1e9, layer ? 1e12 : 3e11), between(1e5, 1e8), between(1e5, 1e9),
                         between(1e5, 1e8), between(1e5, 1e9) / (layer ? static_cast<double>(job.layers) : 3),
                         layer ? job.layers : 0});
  job.tied = random() % 3 == 0;

  Cluster &cluster = job.cluster;
  cluster.name = "random";
  cluster.device.kind = "cuda";
  cluster.device.name = "random";
  cluster.device.memoryBandwidth = 1e12;
  cluster.device.peakFlops = {{"bf16", 1e14}, {"f32", 1e13}};
  cluster.device.curves = *knownCurves("cuda", "A100");
  // From memory that hardly holds a rank's share of the model to plenty.
  cluster.device.memoryBytes = static_cast<int64_t>(between(3e9, 4e10));
  cluster.device.curves.contextBytes = 1e8;
  int64_t inner = ranks % 2 == 0 && random() % 2 ? 2 : ranks;
  cluster.levels = {{"inside", inner, between(1e10, 3e11), 1e-6, 0, 0},
                    {"outside", ranks / inner, between(1e9, 5e10), 5e-6, 0, 0}};
  for (size_t i = 0; i < 2; ++i)
    cluster.levels[i].nodeBandwidth = cluster.levels[i].bandwidth * static_cast<double>(i == 0 ? 1 : inner);
  cluster.usedRanks = ranks;

  job.job.model = "a random model";
  job.job.dtype = "bf16";
  job.job.optimizerMoments = static_cast<int>(random() % 3);
  job.job.globalBatch = pick({2, 4, 6, 8, 12});
  job.options.modelSizes = ranks % 2 == 0 ? std::vector<int64_t>{1, 2, 4} : std::vector<int64_t>{1, 3};
  // Half of the jobs have no constraints; the others pin some decisions.
  Plan &given = job.options.constraints;
  switch (random() % 10) {
  case 0:
    given.recompute = {Recompute::Selective};
    break;
  case 1:
    given.optimizerSharding = {1};
    break;
  case 2:
    given.schedule.name = "interleaved";
    break;
  case 3:
    given.overlap = std::vector<std::string>{std::array{"tensor", "stage", "products"}[seed % 3]};
    break;
  case 4:
    given.microbatch = 1;
    break;
  default:
    break;
  }
  if (ranks <= 4 && ranks % 2 == 0 && seed % 3 == 0) // the search space grows with every axis
    (random() % 2 ? job.options.contextSizes : job.options.expertSizes) = {1, 2};
  if (seed % 4 == 1 && job.layers > 1) { // two kinds of layers
    RandomJob::Link other = job.links[1], nothing;
    other.count = 1 + static_cast<int64_t>(random() % (job.layers - 1));
    other.flops *= between(0.1, 10);
    other.width *= between(0.1, 10);
    other.parameters *= between(0.1, 10);
    job.links[1].count -= other.count;
    job.links.insert(job.links.begin() + 2, {nothing, other});
  }
  if (seed % 6 == 4 && ranks > 1) { // a mixed cluster
    Cluster mixed = cluster;
    mixed.device = DeviceSpec();
    mixed.levels.clear();
    int64_t first = 1 + static_cast<int64_t>(random() % (ranks - 1));
    if (ranks % 2 == 0 && random() % 2)
      first = ranks / 2;
    mixed.groups = {*firstRanks(cluster, first), *firstRanks(cluster, ranks - first)};
    DeviceSpec &other = mixed.groups[random() % 2].device;
    other.name = "another";
    other.memoryBandwidth *= between(0.3, 1);
    for (auto &[dtype, flops] : other.peakFlops)
      flops *= between(0.3, 1);
    other.memoryBytes = static_cast<int64_t>(static_cast<double>(other.memoryBytes) * between(0.5, 2));
    mixed.groupLinks = {{between(1e9, 5e10), 5e-6, 0}};
    cluster = std::move(mixed);
  }
  return job;
}

std::pair<uint64_t, uint64_t> seedsOr(uint64_t from, uint64_t to) {
  unsigned long long first = from, last = to;
  if (const char *asked = std::getenv("KERF_SEEDS"))
    std::sscanf(asked, "%llu..%llu", &first, &last);
  return {first, last};
}

std::vector<Cluster *> uniformGroups(Cluster &cluster) {
  if (!cluster.mixed())
    return {&cluster};
  std::vector<Cluster *> parts;
  for (Cluster &group : cluster.groups)
    parts.push_back(&group);
  return parts;
}

} // namespace kerf::test
