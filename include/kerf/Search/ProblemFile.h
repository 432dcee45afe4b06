// SPDX-License-Identifier: Apache-2.0
// Reads and writes placement problems in the file format of the ASPLOS/EuroSys 2025 contest on intra-operator
// parallelism (docs/interface.md): JSON text, plain or compressed by gzip.
#pragma once

#include "kerf/Search/Problem.h"

namespace kerf {

/// Reads a problem. A node's interval and usages in the file become one MemoryUsage, unless they are empty. Costs are
/// taken as they are: 10^18 is a cost, not kForbidden. Fails when the file cannot be read or is malformed; the error
/// names the place (`nodes.costs[17][3]`), or the byte at which the text stops being JSON.
Result<Problem> readProblem(const std::string &path);

/// Writes a problem so that the optimum of the file, restricted to its first `problem.nodes.size()` entries, is the
/// optimum of `problem`. Features that the format lacks become nodes and costs:
///   - each further usage or interval of a node: a node that must take the same strategy (a table with 0 on the
///     diagonal and 10^18 elsewhere);
///   - ties: such tables between the tied nodes;
///   - pins and forbidden strategies: costs of 10^18;
///   - constantBytes: a node with one strategy that is live at all moments.
/// Fails where allowed costs can sum to 10^18 or more, since 10^18 could then not stand for "forbidden". The file is
/// compressed when its name ends in .gz. After an error the file is unchanged.
Status writeProblem(const Problem &problem, const std::string &path);

} // namespace kerf
