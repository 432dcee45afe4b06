// SPDX-License-Identifier: Apache-2.0
// The planner of HiPress (Bai et al., SOSP 2021), called SeCoPa, for comparison: it decides for each gradient alone
// whether compression and how many partitions take the least time, without a timeline.
#pragma once

#include <cstdint>
#include <optional>

namespace kerf::compression {

/// Milliseconds of one primitive for x elements: `bias` + `weight` * x, or `overhead` below the x at which both are
/// equal.
struct SecopaCurve {
  double weight = 0, bias = 0, overhead = 0;
  double milliseconds(double elements) const;
};

/// The facts of a cluster and a codec that SeCoPa uses.
struct SecopaModel {
  int64_t nodes = 1;
  double ratio = 1.0 / 16;                                        // bytes of the payload by bytes of the gradient
  SecopaCurve encode, decode, aggregate, send, gather, broadcast; // primitives
};
/// Returns the constants that HiPress's source has for 4, 8 or 16 nodes; nothing for other numbers.
std::optional<SecopaModel> publishedSecopa(int64_t nodes);

enum class SecopaTopology { ParameterServer, Ring };

/// SeCoPa's answer for one gradient.
struct SecopaChoice {
  bool compress = false;
  int64_t partitions = 1; // the best number for the form that is taken
  double plainMilliseconds = 0, codedMilliseconds = 0;
};
/// Returns the choice for a gradient of `elements` elements. With N nodes, K partitions, m elements, ratio r:
///   servers, plain: gather(m/K) + broadcast(m/K) + (N-1) aggregate(m/K)
///   servers, coded: gather(r m/K) + broadcast(r m/K) + min(K+1, N) encode(m/K) + min(N-1+K, 2(N-1)) decode(r m/K)
///                   + (N-1) aggregate(m/K)
///   ring, plain:    2(N-1) send(m/K) + (N-1) aggregate(m/K)
///   ring, coded:    2(N-1) send(r m/K) + N encode(m/K) + N decode(r m/K) + (N-1) aggregate(m/K)
/// K is the number from 1 to N with the least sum, and the gradient is compressed if the coded sum is smaller.
SecopaChoice secopaChoice(const SecopaModel &model, SecopaTopology topology, double elements);

} // namespace kerf::compression
