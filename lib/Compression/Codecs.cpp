// SPDX-License-Identifier: Apache-2.0
// The records of the codecs. Payload sizes follow from the formats; docs/compression-planning.md lists the source of
// each speed and default.
#include "kerf/Compression/Codec.h"
#include "kerf/Support/Compression.h"

#include <algorithm>

namespace kerf::compression {

namespace {

constexpr int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

constexpr int64_t kPowerRank = 4;
constexpr double GB = 1e9;

const CodecRecord kCodecs[] = {
    {.name = "bf16",
     .summary = "each element rounded to bfloat16",
     .block = 16,
     .blockBytes = 32,
     .summable = true,
     .plannedByDefault = true,
     .coreEncodeRate = 27.9 * GB,
     .coreDecodeRate = 31 * GB,
     .encodeTraffic = 1.5,
     .decodeTraffic = 1.5},
    {.name = "fp16",
     .summary = "each element rounded to half precision, after the division by the number of ranks",
     .block = 16,
     .blockBytes = 32,
     .summable = true,
     .plannedByDefault = true,
     .coreEncodeRate = 27.9 * GB,
     .coreDecodeRate = 31 * GB,
     .encodeTraffic = 1.5,
     .decodeTraffic = 1.5},
    {.name = "int8",
     .summary = "8-bit integers with stochastic rounding and a scale for each 256 elements",
     .block = 256,
     .blockBytes = 260,
     .plannedByDefault = true,
     .coreEncodeRate = 4.5 * GB,
     .coreDecodeRate = 35 * GB,
     .encodeTraffic = 1.26,
     .decodeTraffic = 2.26},
    {.name = "int4",
     .summary = "4-bit integers with stochastic rounding and a scale for each 256 elements",
     .block = 256,
     .blockBytes = 132,
     .plannedByDefault = true,
     .coreEncodeRate = 5.1 * GB,
     .coreDecodeRate = 40 * GB,
     .encodeTraffic = 1.13,
     .decodeTraffic = 2.13},
    {.name = "onebit",
     .summary = "signs and the mean magnitude of a block (Karimireddy et al., ICML 2019)",
     .block = 1024,
     .blockBytes = 132,
     .biased = true,
     .momentumFirst = true,
     .coreEncodeRate = 12.5 * GB,
     .coreDecodeRate = 67 * GB,
     .encodeTraffic = 5,
     .decodeTraffic = 2.03,
     .encodeKernels = 2},
    {.name = "sign",
     .summary = "signs, of which the majority decides (Bernstein et al., ICML 2018)",
     .block = 1024,
     .blockBytes = 128,
     .biased = true,
     .momentumFirst = true,
     .coreEncodeRate = 12.5 * GB,
     .coreDecodeRate = 67 * GB,
     .encodeTraffic = 3.03,
     .decodeTraffic = 2.03},
    {.name = "terngrad",
     .summary = "-1, 0 or 1 at random times the largest clipped magnitude of a block (Wen et al., NIPS 2017)",
     .block = 1024,
     .blockBytes = 260,
     .coreEncodeRate = 5.1 * GB,
     .coreDecodeRate = 40 * GB,
     .encodeTraffic = 2.06,
     .decodeTraffic = 2.06,
     .encodeKernels = 2},
    {.name = "tbq",
     .summary = "-t, 0 or t by a threshold t (Strom, Interspeech 2015)",
     .block = 1024,
     .blockBytes = 260,
     .biased = true,
     .coreEncodeRate = 1.5 * GB,
     .coreDecodeRate = 40 * GB,
     .encodeTraffic = 3.06,
     .decodeTraffic = 2.06},
    {.name = "topk",
     .summary = "the 40 elements of 4,096 (1 %) with the largest magnitudes, and their positions",
     .block = 4096,
     .blockBytes = 240,
     .biased = true,
     .cutsPayload = false,
     .keptFraction = 0.01,
     .coreEncodeRate = 4.3 * GB,
     .coreDecodeRate = 100 * GB,
     .encodeTraffic = 12,
     .decodeTraffic = 0.06,
     .encodeKernels = 8},
    {.name = "topk-sampled",
     .summary = "about 1 % of the elements, at most 52 of 4,096: those above a threshold that a sample gives",
     .block = 4096,
     .blockBytes = 312,
     .biased = true,
     .cutsPayload = false,
     .keptFraction = 0.01,
     .coreEncodeRate = 3.3 * GB,
     .coreDecodeRate = 100 * GB,
     .encodeTraffic = 5,
     .decodeTraffic = 0.06,
     .encodeKernels = 3},
    {.name = "dgc",
     .summary = "4 elements of 4,096 (0.1 %) of the gradient with momentum (Lin et al., ICLR 2018)",
     .block = 4096,
     .blockBytes = 24,
     .biased = true,
     .momentumFirst = true,
     .cutsPayload = false,
     .keptFraction = 0.001,
     .coreEncodeRate = 5.8 * GB,
     .coreDecodeRate = 1000 * GB,
     .encodeTraffic = 9,
     .decodeTraffic = 0.006,
     .encodeKernels = 4},
    {.name = "graddrop",
     .summary = "about 1 % of the elements, above a sampled threshold (Aji & Heafield, EMNLP 2017)",
     .block = 4096,
     .blockBytes = 312,
     .biased = true,
     .cutsPayload = false,
     .keptFraction = 0.01,
     .coreEncodeRate = 3.4 * GB,
     .coreDecodeRate = 100 * GB,
     .encodeTraffic = 5,
     .decodeTraffic = 0.06,
     .encodeKernels = 3},
    {.name = "randomk",
     .summary = "10 % of the elements, at places that all ranks draw from one seed",
     .block = 4096,
     .blockBytes = 1640,
     .summable = true,
     .biased = true,
     .keptFraction = 0.1,
     .coreEncodeRate = 5.1 * GB,
     .coreDecodeRate = 20 * GB,
     .encodeTraffic = 3.2,
     .decodeTraffic = 0.3},
    {.name = "powersgd",
     .summary = "two factors with 4 columns (Vogels et al., NeurIPS 2019)",
     .summable = true,
     .biased = true,
     .rank2Only = true,
     .cutsPayload = false,
     .dependentMessages = 2,
     .rankOfFactors = kPowerRank,
     .coreEncodeRate = 3.4 * GB,
     .coreDecodeRate = 1.3 * GB,
     .encodeTraffic = 5,
     .decodeTraffic = 4,
     .encodeKernels = 4,
     .decodeKernels = 2},
    {.name = "natural",
     .summary = "the sign and a power of two, rounded at random (Horvath et al., MSML 2022)",
     .block = 512,
     .blockBytes = 516,
     .plannedByDefault = true,
     .coreEncodeRate = 5.1 * GB,
     .coreDecodeRate = 35 * GB,
     .encodeTraffic = 1.25,
     .decodeTraffic = 2.25},
    {.name = "qsgd",
     .summary = "8-bit levels of the norm of each 128 elements, rounded at random (Alistarh et al., NIPS 2017)",
     .block = 128,
     .blockBytes = 132,
     .plannedByDefault = true,
     .coreEncodeRate = 4.5 * GB,
     .coreDecodeRate = 35 * GB,
     .encodeTraffic = 1.26,
     .decodeTraffic = 2.26},
    {.name = "identity",
     .summary = "the elements themselves, to compare with",
     .block = 256,
     .blockBytes = 1024,
     .coreEncodeRate = 10 * GB,
     .coreDecodeRate = 10 * GB},
};

constexpr double kCoreStartSeconds = 2e-6; // a call of a kernel on a CPU core

} // namespace

int64_t elementsOf(GradientShape shape) {
  int64_t elements = 1;
  for (int64_t size : shape)
    elements *= size;
  return elements;
}

std::span<const CodecRecord> codecs() { return kCodecs; }

const CodecRecord *findCodec(std::string_view name) {
  auto found =
      std::find_if(std::begin(kCodecs), std::end(kCodecs), [&](const CodecRecord &one) { return one.name == name; });
  return found == std::end(kCodecs) ? nullptr : found;
}

std::vector<std::string> codecNames() {
  std::vector<std::string> names;
  for (const CodecRecord &one : kCodecs)
    names.emplace_back(one.name);
  return names;
}

int64_t payloadBytes(const CodecRecord &codec, GradientShape shape) {
  int64_t elements = elementsOf(shape);
  if (elements <= 0)
    return 0;
  if (codec.rankOfFactors == 0)
    return ceilDiv(elements, codec.block) * codec.blockBytes;
  int64_t rows = shape.empty() ? 1 : shape.front(), columns = ceilDiv(elements, rows);
  return 4 * std::min({codec.rankOfFactors, rows, columns}) * (rows + columns);
}

double compressionRatio(const CodecRecord &codec, GradientShape shape) {
  int64_t payload = payloadBytes(codec, shape);
  return payload > 0 ? 4 * static_cast<double>(elementsOf(shape)) / static_cast<double>(payload) : 1;
}

bool accepts(const CodecRecord &codec, GradientShape shape) {
  return !codec.rank2Only || (shape.size() >= 2 && elementsOf(shape) > 0);
}

bool isVector(GradientShape shape) { return shape.size() < 2; }

bool excludedByDefault(GradientShape shape) { return isVector(shape) || 4 * elementsOf(shape) < kLeastBytesCoded; }

double stateBytes(const CodecRecord &codec, GradientShape shape, bool errorFeedback, double owns) {
  auto elements = static_cast<double>(elementsOf(shape));
  double copies = errorFeedback ? 1 : 0;
  double factor = 0; // the factor Q, which the next step starts from
  if (codec.rankOfFactors && !shape.empty() && elements > 0)
    factor = static_cast<double>(codec.rankOfFactors) * elements / static_cast<double>(shape.front());
  return 4 * (copies * elements + (errorFeedback ? owns : 0) + factor);
}

CodecCurve coreCurve(const CodecRecord &codec, double oversubscription) {
  return {kCoreStartSeconds * oversubscription, oversubscription / codec.coreEncodeRate,
          kCoreStartSeconds * oversubscription, oversubscription / codec.coreDecodeRate};
}

CodecCurve memoryBoundCurve(const CodecRecord &codec, double bytesPerSecond, double launchSeconds) {
  return {launchSeconds * static_cast<double>(codec.encodeKernels), codec.encodeTraffic / bytesPerSecond,
          launchSeconds * static_cast<double>(codec.decodeKernels), codec.decodeTraffic / bytesPerSecond};
}

} // namespace kerf::compression
