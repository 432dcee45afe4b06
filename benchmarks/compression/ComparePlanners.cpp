// SPDX-License-Identifier: Apache-2.0
// Compares planners of gradient compression on one list of gradients, by the timeline of lib/Compression.
//
//   compare-planners FILE NODES PER_NODE TOKENS GIGABITS...
//
// FILE has a line "NAME ROWS COLUMNS" for each gradient, in forward order; COLUMNS is 0 for a vector. compare.py writes
// such files and documents the table.
#include "kerf/Compression/Planner.h"
#include "kerf/Compression/Secopa.h"

#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>

using namespace kerf::compression;

namespace {

// An A100: dense bf16 products at half of their peak, and memory at the efficiency of the cost model.
constexpr double kFlops = 312e12 * 0.5, kMemoryBandwidth = 1555e9 * 0.8, kLaunchSeconds = 2e-6;
constexpr double kBucketBytes = 1 << 20;     // of Kerf's runtime
constexpr double kThreshold = 1 << 20;       // the size threshold of HiPress's option
constexpr const char *kSecopaCodec = "int4"; // the codec that "all", the threshold and SeCoPa use

CodecCurve curveOf(const CodecRecord &codec) { return memoryBoundCurve(codec, kMemoryBandwidth, kLaunchSeconds); }

struct Gradient {
  std::string name;
  std::vector<int64_t> shape;
};

std::vector<Gradient> readGradients(const char *path) {
  std::vector<Gradient> gradients;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    Gradient one;
    int64_t rows = 0, columns = 0;
    if (!(words >> one.name >> rows >> columns))
      continue;
    one.shape = columns ? std::vector<int64_t>{rows, columns} : std::vector<int64_t>{rows};
    gradients.push_back(std::move(one));
  }
  return gradients;
}

PlanProblem makeProblem(const std::vector<Gradient> &gradients, const SyncNetwork &network, double tokens) {
  PlanProblem problem;
  problem.rules.bucketBytes = kBucketBytes;
  CodecLimits limits;
  limits.codecs = usualCodecs();
  for (auto one = gradients.rbegin(); one != gradients.rend(); ++one) {
    PlanGradient gradient;
    gradient.name = one->name;
    gradient.gradient = {one->shape, 4, false, kBucketBytes / 4};
    gradient.bytes = 4 * static_cast<double>(elementsOf(one->shape));
    gradient.layer = problem.layers.size();
    gradient.options = {plainOption(gradient.gradient, network)};
    if (!excludedByDefault(one->shape))
      gradient.options = withoutBeaten(allOptions(gradient.gradient, network, limits, curveOf));
    // Both gradients of a product take two floating-point operations for each element and token.
    problem.layers.emplace_back().body = tokens * gradient.bytes / kFlops;
    problem.gradients.push_back(std::move(gradient));
  }
  return problem;
}

/// Returns SeCoPa's choice with the curves of these machines: a ring, and the codec of the other simple planners.
OptionIndices planBySecopa(const PlanProblem &problem, const SyncNetwork &network) {
  const CodecRecord &codec = *findCodec(kSecopaCodec);
  CodecCurve curve = curveOf(codec);
  int64_t typical[] = {1024, 1024};
  SecopaModel model;
  model.nodes = network.members;
  model.ratio = 1 / compressionRatio(codec, typical);
  model.encode = {1e3 * 4 * curve.encodePerByte, 1e3 * curve.encodeStart, 0};
  model.decode = {1e3 * 4 * curve.decodePerByte / model.ratio, 1e3 * curve.decodeStart, 0}; // by elements of payload
  // A ring of N steps: the seconds of an all-reduce of N x bytes are those of 2 (N - 1) sends.
  auto sends = 2 * static_cast<double>(network.members - 1);
  double start = network.seconds(kerf::Collective::AllReduce, Reach::All, 0) / sends;
  double million =
      network.seconds(kerf::Collective::AllReduce, Reach::All, 4e6 * static_cast<double>(network.members)) / sends;
  model.send = {1e3 * (million - start) / 1e6, 1e3 * start, 0};
  OptionIndices choice(problem.gradients.size(), 0);
  for (size_t t = 0; t < choice.size(); ++t) {
    const PlanGradient &gradient = problem.gradients[t];
    if (!secopaChoice(model, SecopaTopology::Ring, gradient.bytes / 4).compress)
      continue;
    for (size_t o = 1; o < gradient.options.size(); ++o)
      if (gradient.options[o].choice.codec == &codec)
        choice[t] = static_cast<int>(o);
  }
  return choice;
}

/// Returns the least F of compressing every gradient of at least `leastBytes` with one codec, scheme and hierarchy.
double bestBySize(const PlanProblem &problem, double leastBytes) {
  double best = finishSeconds(problem, OptionIndices(problem.gradients.size(), 0)) * 1e9;
  for (const PlanGradient &gradient : problem.gradients)
    for (const SyncOption &option : gradient.options)
      if (option.choice.codec == findCodec(kSecopaCodec))
        best = std::min(best, finishSeconds(problem, chooseBySize(problem, option.choice, leastBytes)));
  return best;
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 6) {
    std::fprintf(stderr, "usage: compare-planners FILE NODES PER_NODE TOKENS GIGABITS...\n");
    return 1;
  }
  std::vector<Gradient> gradients = readGradients(argv[1]);
  int64_t nodes = std::atoll(argv[2]), perNode = std::atoll(argv[3]);
  double tokens = std::atof(argv[4]);
  std::printf("| Gbit/s | none | all | threshold | SeCoPa | Espresso | Kerf | bound | compressed | plan |\n");
  std::printf("|---|---|---|---|---|---|---|---|---|---|\n");
  for (int a = 5; a < argc; ++a) {
    double bandwidth = std::atof(argv[a]) * 1e9 / 8;
    SyncNetwork network = linkNetwork(nodes, perNode, {25e9, 5e-6}, {bandwidth, 30e-6}, bandwidth);
    PlanProblem problem = makeProblem(gradients, network, tokens);
    double plain = finishSeconds(problem, OptionIndices(gradients.size(), 0));
    auto start = std::chrono::steady_clock::now();
    PlannedGradients kerf = planGradients(problem, {.leastGain = 0.01 * plain});
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    std::printf("| %s | %.4g | %.4g | %.4g | %.4g | %.4g | %.4g | %.4g | %.0f %% | %.0f ms |\n", argv[a], plain,
                bestBySize(problem, 0), bestBySize(problem, kThreshold),
                finishSeconds(problem, planBySecopa(problem, network)), planByEspresso(problem).seconds, kerf.seconds,
                finishLowerBound(problem), 100 * compressedShare(problem, kerf.choice), 1e3 * took.count());
  }
  return 0;
}
