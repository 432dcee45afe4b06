// SPDX-License-Identifier: Apache-2.0
// Problems as files, in the format of the ASPLOS/EuroSys 2025 contest on intra-operator parallelism
// (docs/interface.md): JSON text, compressed by gzip or not.
#pragma once

#include "kerf/Search/Problem.h"

namespace kerf {

/// Errors name the place (`nodes.costs[17][3]`), or the byte where the text stops being JSON. A node's interval and
/// usages become one MemoryUsage, unless they are empty. Costs are taken as they are: 10^18 is a cost, not kForbidden.
Result<Problem> readProblem(const std::string &path);

/// Writes any problem such that the best answer in the contest's terms is the best one here: its first indices, as many
/// as there are nodes. What the format has no word for becomes nodes and costs:
///   - a node's further usages and intervals: one node each, that must follow it (a table of 0 on the diagonal and
///   10^18 elsewhere);
///   - ties: such tables between the tied nodes; pins and what is forbidden: costs of 10^18;
///   - constantBytes: a node with one strategy that is live all the time.
/// An Error where 10^18 would not be told from a sum of costs. A name that ends in .gz is compressed. The file is whole
/// or untouched.
Status writeProblem(const Problem &problem, const std::string &path);

} // namespace kerf
