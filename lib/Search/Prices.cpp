// SPDX-License-Identifier: Apache-2.0
#include "Prices.h"
#include "LocalMoves.h"
#include <algorithm>
#include <cmath>

using namespace kerf;
using namespace kerf::search;

namespace {

constexpr double kEnough = 1e-7;       // relative rise of L below which more evaluations are not worth it
constexpr int kMaxGrowth = 40;         // steps of x8 in which a price is looked for before its row counts as impossible
constexpr int kMaxBisections = 16;     // of one price
constexpr int kSubgradientRounds = 30; // after the one-row searches

/// L and a supergradient at some prices.
struct Evaluation {
  double bound = 0;
  std::vector<double> gradient; // bytes over the slack, per row
};

class Ascent {
public:
  Ascent(const Network &network, Buckets &buckets, const std::vector<double> &start, Incumbent &incumbent,
         int64_t &steps)
      : network(network), buckets(buckets), incumbent(incumbent), steps(steps), price(start) {}

  Prices run() {
    Evaluation here = evaluate(price);
    keep(price, here);
    double start =
        std::max(std::abs(here.bound), 1e-30) / static_cast<double>(std::max<int64_t>(network.limitBytes, 1));
    int rounds = 3 * static_cast<int>(network.rows.size()) + 8;
    for (int round = 0; round < rounds && steps > 0; ++round) {
      double before = here.bound;
      int row = worstRow(here);
      if (row < 0)
        break;
      here = searchRow(row, here, start * 1e-3);
      if (best.unbounded)
        return best;
      if (round > 2 && here.bound - before <= kEnough * std::abs(before))
        break;
    }
    subgradient();
    return best;
  }

private:
  Evaluation evaluate(const std::vector<double> &at) {
    steps -= buckets.workPerRun();
    Evaluation result;
    double constant = network.constantSeconds + priceOfSlack(network, at);
    result.bound = buckets.run(pricedUnary(network, at), Buckets::PairSeconds::Counted) + constant;
    Labels labels(network.size(), 0);
    buckets.decode(network.size(), labels);
    std::vector<int64_t> extra = extraBytesOf(network, labels);
    for (size_t r = 0; r < extra.size(); ++r)
      result.gradient.push_back(static_cast<double>(extra[r] - network.slack(static_cast<int>(r))));
    if (repair(network, labels, steps)) {
      descend(network, labels, steps);
      double seconds = secondsOf(network, labels);
      if (seconds < incumbent.seconds)
        incumbent = {labels, seconds, incumbent.peakBytes};
    }
    return result;
  }
  void keep(const std::vector<double> &at, const Evaluation &evaluation) {
    if (best.secondsPerByte.empty() || evaluation.bound > best.bound)
      best.secondsPerByte = at, best.bound = evaluation.bound;
  }
  /// The row whose price is most wrong: exceeded, or priced and not full. -1: all are right.
  int worstRow(const Evaluation &here) const {
    int worst = -1;
    double most = 0;
    for (size_t r = 0; r < price.size(); ++r) {
      double wrong = here.gradient[r] > 0 ? here.gradient[r] : price[r] > 0 ? -here.gradient[r] * 0.5 : 0;
      if (wrong > most)
        most = wrong, worst = static_cast<int>(r);
    }
    return worst;
  }

  /// Maximizes L along one price, exactly when the buckets are: between a point that exceeds the row and one that does
  /// not, the next point is where their two tangents meet.
  Evaluation searchRow(int row, const Evaluation &start, double firstPrice) {
    struct Point {
      double at;
      Evaluation evaluation;
    };
    auto probe = [&](double at) {
      price[row] = at;
      Point point{at, evaluate(price)};
      keep(price, point.evaluation);
      return point;
    };
    Point low{price[row], start}, high = low;
    if (start.gradient[row] > 0) {
      double at = std::max(price[row] * 2, firstPrice);
      for (int grown = 0;; ++grown, at *= 8) {
        if (steps <= 0 || grown > kMaxGrowth) {
          best.unbounded = grown > kMaxGrowth;
          return settle(row, low.at, low.evaluation);
        }
        Point point = probe(at);
        (point.evaluation.gradient[row] > 0 ? low : high) = point;
        if (point.evaluation.gradient[row] <= 0)
          break;
        if (std::isinf(point.evaluation.bound)) {
          best.unbounded = true;
          return point.evaluation;
        }
      }
    } else {
      low = probe(0);
      if (low.evaluation.gradient[row] <= 0)
        return low.evaluation;
    }
    for (int i = 0; i < kMaxBisections && steps > 0; ++i) {
      double rise = low.evaluation.gradient[row], fall = high.evaluation.gradient[row];
      if (fall == 0)
        break;
      double at = (high.evaluation.bound - low.evaluation.bound + rise * low.at - fall * high.at) / (rise - fall);
      if (!(at > low.at && at < high.at))
        break; // a split bucket's bound is no exact tangent
      double promise = low.evaluation.bound + rise * (at - low.at);
      Point point = probe(at);
      bool done = point.evaluation.bound >= promise - std::abs(promise) * kEnough;
      (point.evaluation.gradient[row] > 0 ? low : high) = point;
      if (done)
        break;
    }
    return low.evaluation.bound > high.evaluation.bound ? settle(row, low.at, low.evaluation)
                                                        : settle(row, high.at, high.evaluation);
  }
  Evaluation settle(int row, double at, const Evaluation &evaluation) {
    price[row] = at;
    return evaluation;
  }

  /// Polyak's steps from the best prices: what one-row searches can't do where several rows bind together.
  void subgradient() {
    double reach = 1;
    price = best.secondsPerByte;
    for (int round = 0; round < kSubgradientRounds && steps > 0; ++round) {
      if (incumbent.seconds - best.bound <= kEnough * std::abs(best.bound))
        return;
      Evaluation here = evaluate(price);
      if (here.bound <= best.bound + kEnough * std::abs(best.bound))
        reach *= 0.8;
      keep(price, here);
      double norm = 0;
      for (size_t r = 0; r < price.size(); ++r)
        if (price[r] > 0 || here.gradient[r] > 0)
          norm += here.gradient[r] * here.gradient[r];
      if (norm == 0)
        return;
      double target = std::isinf(incumbent.seconds) ? best.bound + std::abs(best.bound) * 0.1 : incumbent.seconds;
      double step = reach * std::max(target - here.bound, 0.0) / norm;
      for (size_t r = 0; r < price.size(); ++r)
        price[r] = std::max(0.0, price[r] + step * here.gradient[r]);
    }
  }

  const Network &network;
  Buckets &buckets;
  Incumbent &incumbent;
  int64_t &steps;
  std::vector<double> price;
  Prices best;
};

} // namespace

std::vector<std::vector<double>> kerf::search::pricedUnary(const Network &network,
                                                           const std::vector<double> &secondsPerByte) {
  std::vector<std::vector<double>> unary = network.unary;
  for (size_t r = 0; r < network.rows.size(); ++r)
    if (secondsPerByte[r] > 0)
      for (const RowTerm &term : network.rows[r].terms)
        for (size_t s = 0; s < term.extraBytes.size(); ++s)
          unary[term.variable][s] += secondsPerByte[r] * static_cast<double>(term.extraBytes[s]);
  return unary;
}

double kerf::search::priceOfSlack(const Network &network, const std::vector<double> &secondsPerByte) {
  double seconds = 0;
  for (size_t r = 0; r < network.rows.size(); ++r)
    seconds -= secondsPerByte[r] * static_cast<double>(network.slack(static_cast<int>(r)));
  return seconds;
}

Prices kerf::search::raisePrices(const Network &network, Buckets &buckets, const std::vector<double> &start,
                                 Incumbent &incumbent, int64_t &steps) {
  return Ascent(network, buckets, start, incumbent, steps).run();
}
