// SPDX-License-Identifier: Apache-2.0
#include "Reparametrize.h"
#include <algorithm>
#include <limits>

using namespace kerf;
using namespace kerf::search;

namespace {

constexpr int kIterations = 24; // forward and backward each; later ones move little

class Messages {
public:
  Messages(const Network &network, const std::vector<std::vector<double>> &extraUnary)
      : network(network), belief(network.unary) {
    for (size_t i = 0; i < extraUnary.size(); ++i)
      for (size_t s = 0; s < extraUnary[i].size(); ++s)
        belief[i][s] += extraUnary[i][s];
    for (const PairTable &pair : network.pairs) {
      toU.emplace_back(network.labels(pair.u), 0.0);
      toV.emplace_back(network.labels(pair.v), 0.0);
      work += static_cast<int64_t>(pair.seconds.size());
    }
    for (int i = 0; i < network.size(); ++i) {
      int lower = 0, higher = 0;
      for (int p : network.pairsOf[i])
        ++(network.pairs[p].u == i ? higher : lower);
      share.push_back(1.0 / std::max({lower, higher, 1}));
    }
  }

  int64_t workPerIteration() const { return 2 * work; }

  void iterate() {
    for (int i = 0; i < network.size(); ++i)
      for (int p : network.pairsOf[i])
        if (network.pairs[p].u == i)
          sendToV(p);
    for (int i = network.size(); i-- > 0;)
      for (int p : network.pairsOf[i])
        if (network.pairs[p].v == i)
          sendToU(p);
  }

  Network result(const std::vector<std::vector<double>> &extraUnary) const {
    Network shifted = network;
    shifted.unary = belief;
    for (size_t i = 0; i < extraUnary.size(); ++i)
      for (size_t s = 0; s < extraUnary[i].size(); ++s)
        shifted.unary[i][s] -= extraUnary[i][s];
    for (size_t p = 0; p < shifted.pairs.size(); ++p) {
      PairTable &pair = shifted.pairs[p];
      int columns = network.labels(pair.v);
      for (size_t a = 0; a < toU[p].size(); ++a)
        for (size_t b = 0; b < toV[p].size(); ++b)
          pair.seconds[a * columns + b] -= toU[p][a] + toV[p][b];
    }
    return shifted;
  }

private:
  /// A new message from u to v: the least over u of its share of the belief, without what v told it, and the table.
  void sendToV(int p) {
    const PairTable &pair = network.pairs[p];
    size_t rows = toU[p].size(), columns = toV[p].size();
    fresh.assign(columns, std::numeric_limits<double>::infinity());
    for (size_t a = 0; a < rows; ++a) {
      double own = share[pair.u] * belief[pair.u][a] - toU[p][a];
      const double *row = pair.seconds.data() + a * columns;
      for (size_t b = 0; b < columns; ++b)
        fresh[b] = std::min(fresh[b], own + row[b]);
    }
    replace(belief[pair.v], toV[p]);
  }
  void sendToU(int p) {
    const PairTable &pair = network.pairs[p];
    size_t rows = toU[p].size(), columns = toV[p].size();
    fresh.assign(rows, std::numeric_limits<double>::infinity());
    own.resize(columns);
    for (size_t b = 0; b < columns; ++b)
      own[b] = share[pair.v] * belief[pair.v][b] - toV[p][b];
    for (size_t a = 0; a < rows; ++a) {
      const double *row = pair.seconds.data() + a * columns;
      for (size_t b = 0; b < columns; ++b)
        fresh[a] = std::min(fresh[a], own[b] + row[b]);
    }
    replace(belief[pair.u], toU[p]);
  }
  void replace(std::vector<double> &receiver, std::vector<double> &message) {
    for (size_t s = 0; s < message.size(); ++s) {
      if (fresh[s] == std::numeric_limits<double>::infinity())
        continue; // a label without support: left to the search
      receiver[s] += fresh[s] - message[s];
      message[s] = fresh[s];
    }
  }

  const Network &network;
  std::vector<std::vector<double>> belief; // unary and all messages received
  std::vector<std::vector<double>> toU, toV;
  std::vector<double> share, fresh, own;
  int64_t work = 0;
};

} // namespace

Network kerf::search::reparametrize(const Network &network, const std::vector<std::vector<double>> &extraUnary,
                                    int64_t &steps) {
  Messages messages(network, extraUnary);
  for (int i = 0; i < kIterations && steps > messages.workPerIteration(); ++i) {
    messages.iterate();
    steps -= messages.workPerIteration();
  }
  return messages.result(extraUnary);
}
