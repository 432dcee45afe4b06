// SPDX-License-Identifier: Apache-2.0
// The table of gradient codecs: what a planner, a pass and a runtime need to know about a codec besides its arithmetic.
// docs/compression-planning.md explains the columns.
//
//   codec int8, gradient of 1000 elements:  4 blocks of 256 elements, each 256 bytes of integers and a scale of 4 bytes
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kerf::compression {

/// The shape of a gradient on one rank. A gradient of rank 2 or more is a matrix for low-rank codecs: its first
/// dimension counts the rows, and all others together count the columns.
using GradientShape = std::span<const int64_t>;

/// Returns the number of elements of a gradient.
int64_t elementsOf(GradientShape shape);

/// The seconds in which one device encodes or decodes: `startSeconds` + `secondsPerByte` * f32 bytes of the gradient.
/// Decoding includes the addition to the sum. A payload that holds few elements is decoded faster than a dense one,
/// which `secondsPerByte` expresses too.
struct CodecCurve {
  double encodeStart = 0, encodePerByte = 0; // seconds, and seconds per f32 byte of the gradient
  double decodeStart = 0, decodePerByte = 0; // as above, for decoding one payload and adding it to the sum
  double encodeSeconds(double f32Bytes) const { return encodeStart + encodePerByte * f32Bytes; }
  double decodeSeconds(double f32Bytes) const { return decodeStart + decodePerByte * f32Bytes; }
  bool operator==(const CodecCurve &) const = default;
};

/// A gradient codec, as a row of the table that codecs() returns.
struct CodecRecord {
  std::string_view name;    // word in plan.json and on the command line
  std::string_view summary; // what the payload holds, and the publication
  /// Elements of a block, and the bytes of its payload: those of the codec's functions in lib/Codec/codecs. The last
  /// block of a gradient is padded. 0 for a low-rank codec.
  int64_t block = 0, blockBytes = 0;
  bool summable = false; // whether the sum of payloads is a payload of the sum, so that an all-reduce can add them
  /// Whether the expected value of a decoded gradient differs from the gradient, so that the loss of one step has to be
  /// added to the next one (error feedback).
  bool biased = false;
  bool momentumFirst = false;    // whether training needs the momentum before encoding, as codecs of signs do
  bool rank2Only = false;        // whether the codec needs a matrix
  bool cutsPayload = true;       // whether a sum of payloads has a payload of that size (two-stage scheme)
  int64_t dependentMessages = 1; // collectives that run one after the other: 2 for the factors P and Q of PowerSGD
  int64_t rankOfFactors = 0;     // columns of the factors of a low-rank codec; 0: not low-rank
  double keptFraction = 1;       // share of the elements that the payload holds, on average
  /// Whether a plan may choose the codec if the user names no codecs: training with it reached a loss within 5 % of
  /// that of f32 gradients in the short run of docs/compression-planning.md, or it is unbiased with the same error.
  bool plannedByDefault = false;
  /// Bytes/s of f32 gradients that one CPU core of 2023 encodes, and decodes and adds.
  double coreEncodeRate = 1e9, coreDecodeRate = 1e9;
  /// Bytes of device memory that encoding and decoding read and write for each f32 byte of the gradient, and the number
  /// of kernels; they give the speed on a device without measured curves.
  double encodeTraffic = 2, decodeTraffic = 2;
  int64_t encodeKernels = 1, decodeKernels = 1;
};

/// Returns the records of all codecs, in the order of documentation.
std::span<const CodecRecord> codecs();
/// Returns the record of the codec `name`, or null if there is none.
const CodecRecord *findCodec(std::string_view name);
/// Returns the names of all codecs, in the order of codecs().
std::vector<std::string> codecNames();

/// Returns the bytes of the payload of a gradient; 0 for a gradient without elements.
int64_t payloadBytes(const CodecRecord &codec, GradientShape shape);
/// Returns the f32 bytes of a gradient divided by the bytes of its payload.
double compressionRatio(const CodecRecord &codec, GradientShape shape);
/// Returns whether the codec can encode gradients of this shape: a low-rank codec needs a matrix.
bool accepts(const CodecRecord &codec, GradientShape shape);

/// Returns whether gradients of this shape are those of norms and biases, which are not compressed unless a plan names
/// them.
bool isVector(GradientShape shape);
/// Returns whether the pattern "*" leaves gradients of this shape uncompressed: vectors, and gradients below
/// kLeastBytesCoded.
bool excludedByDefault(GradientShape shape);

/// Returns the bytes that one rank keeps from step to step for the codec: error feedback of the worker (the gradient in
/// f32) and, if `owns` is above 0, of `owns` elements that the rank sums for all; and the
/// factor of a low-rank codec.
double stateBytes(const CodecRecord &codec, GradientShape shape, bool errorFeedback, double owns);

/// Returns the codec's speed on one CPU core that `oversubscription` ranks share.
CodecCurve coreCurve(const CodecRecord &codec, double oversubscription);
/// Returns the codec's speed on a device whose kernels reach `bytesPerSecond` of memory traffic and whose launches take
/// `launchSeconds`. Codecs are limited by memory traffic.
CodecCurve memoryBoundCurve(const CodecRecord &codec, double bytesPerSecond, double launchSeconds);

} // namespace kerf::compression
