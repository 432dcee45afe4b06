// SPDX-License-Identifier: Apache-2.0
// The same problem with seconds moved between tables and nodes so that each table alone tells more. Private to Search.
#pragma once

#include "Network.h"

namespace kerf::search {

/// Every choice costs what it cost in `network`; pair tables and unary are shifted by sequential tree-reweighted
/// message passing (Kolmogorov 2006). `extraUnary` (prices of bytes, or empty) guides the messages but is not part of
/// the result.
Network reparametrize(const Network &network, const std::vector<std::vector<double>> &extraUnary, int64_t &steps);

} // namespace kerf::search
