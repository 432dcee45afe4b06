// SPDX-License-Identifier: Apache-2.0
// Lagrange multipliers of the memory rows. Private to Search.
//
//   L(price) = min_x [ seconds(x) + sum_r price_r * (extraBytes_r(x) - slack_r) ]  <=  the optimum, for every price >=
//   0
//
// is concave in the prices; extraBytes_r(x) - slack_r of a minimizer x is a supergradient.
#pragma once

#include "DepthFirst.h"

namespace kerf::search {

struct Prices {
  std::vector<double> secondsPerByte; // per row
  double bound = 0;                   // L
  bool unbounded = false;             // L grows without end: the memory rows can't be met
};

/// Node seconds with the prices of their bytes, and the constant -sum_r price_r * slack_r.
std::vector<std::vector<double>> pricedUnary(const Network &network, const std::vector<double> &secondsPerByte);
double priceOfSlack(const Network &network, const std::vector<double> &secondsPerByte);

/// Raises L from the prices `start`. Every minimizer met on the way is repaired and offered to `incumbent`.
Prices raisePrices(const Network &network, Buckets &buckets, const std::vector<double> &start, Incumbent &incumbent,
                   int64_t &steps);

} // namespace kerf::search
