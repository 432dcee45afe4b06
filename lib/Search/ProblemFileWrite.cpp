// SPDX-License-Identifier: Apache-2.0
// Writes the contest's format. Features that the format lacks become nodes and costs (ProblemFile.h).
#include "ProblemText.h"
#include "kerf/Search/ProblemFile.h"
#include "kerf/Support/File.h"
#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>

using namespace kerf;

namespace {

/// The cost that stands for "forbidden" in files of the contest.
constexpr Cost kForbiddenInFiles = 1'000'000'000'000'000'000;

struct Buffer {
  int64_t begin = 0, end = 0;
  std::vector<int64_t> bytes;
};

/// A node of the file; the problem's own nodes come first.
struct FileNode {
  std::vector<Cost> costs;
  Buffer buffer;
};

struct FileEdge {
  int u, v;
  const std::vector<Cost> *table;
};

struct FileProblem {
  std::vector<FileNode> nodes;
  std::vector<FileEdge> edges;
  std::map<size_t, std::vector<Cost>> sameStrategy; // tables that force equal strategies, by the number of strategies
  bool forbids = false;                             // whether kForbiddenInFiles stands for "forbidden" somewhere
};

/// Maps moments to the file's range, 0 or more. Only their order matters, so moments out of range are renumbered.
class Moments {
public:
  explicit Moments(const Problem &problem) {
    for (const MemoryUsage &usage : problem.usages)
      for (const LiveInterval &live : usage.live)
        all.push_back(live.begin), all.push_back(live.end);
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    numbered = !all.empty() && (all.front() < 0 || all.back() > kMaxCost);
  }
  int64_t of(int64_t moment) const {
    return numbered ? std::lower_bound(all.begin(), all.end(), moment) - all.begin() : moment;
  }
  int64_t first() const { return all.empty() ? 0 : of(all.front()); }
  int64_t last() const { return all.empty() ? 1 : of(all.back()); }

private:
  std::vector<int64_t> all;
  bool numbered = false;
};

Cost inFile(Cost cost) { return cost == kForbidden ? kForbiddenInFiles : cost; }

const std::vector<Cost> *sameStrategyTable(FileProblem &file, size_t strategies) {
  std::vector<Cost> &table = file.sameStrategy[strategies];
  table.assign(strategies * strategies, kForbiddenInFiles);
  for (size_t s = 0; s < strategies; ++s)
    table[s * strategies + s] = 0;
  file.forbids |= strategies > 1;
  return &table;
}

void addNodes(const Problem &problem, FileProblem &file) {
  for (const ProblemNode &node : problem.nodes) {
    file.nodes.push_back({node.costs, {0, 0, std::vector<int64_t>(node.costs.size(), 0)}});
    for (Cost &cost : file.nodes.back().costs)
      file.forbids |= cost == kForbidden, cost = inFile(cost);
  }
  for (const Pin &pin : problem.pins)
    for (int s = 0; s < problem.strategies(pin.node); ++s)
      if (s != pin.strategy)
        file.nodes[pin.node].costs[s] = kForbiddenInFiles, file.forbids = true;
  for (const std::vector<Cost> &table : problem.tables)
    file.forbids |= std::find(table.begin(), table.end(), kForbidden) != table.end();
}

void addEdges(const Problem &problem, FileProblem &file) {
  for (const ProblemEdge &edge : problem.edges)
    file.edges.push_back({edge.u, edge.v, &problem.tables[edge.table]});
  for (const std::vector<int> &tie : problem.ties)
    for (int node : tie)
      if (node != tie.front())
        file.edges.push_back({tie.front(), node, sameStrategyTable(file, problem.nodes[node].costs.size())});
}

/// Merges a node's buffers with equal intervals. The first interval belongs to the node itself; each further one gets a
/// node that must take the same strategy.
void addMemory(const Problem &problem, FileProblem &file) {
  Moments moments(problem);
  std::map<std::pair<int, LiveInterval>, std::vector<int64_t>, decltype([](const auto &a, const auto &b) {
             return std::tuple(a.first, a.second.begin, a.second.end) <
                    std::tuple(b.first, b.second.begin, b.second.end);
           })>
      bytesOf;
  for (const MemoryUsage &usage : problem.usages)
    for (const LiveInterval &live : usage.live) {
      if (live.begin >= live.end)
        continue;
      std::vector<int64_t> &bytes = bytesOf[{usage.node, live}];
      bytes.resize(usage.bytes.size(), 0);
      for (size_t s = 0; s < bytes.size(); ++s)
        bytes[s] += usage.bytes[s];
    }
  int last = -1;
  for (auto &[key, bytes] : bytesOf) {
    const auto &[node, live] = key;
    Buffer buffer{moments.of(live.begin), moments.of(live.end), std::move(bytes)};
    if (node != last) {
      file.nodes[node].buffer = std::move(buffer);
      last = node;
      continue;
    }
    size_t strategies = buffer.bytes.size();
    file.edges.push_back({node, static_cast<int>(file.nodes.size()), sameStrategyTable(file, strategies)});
    file.nodes.push_back({std::vector<Cost>(strategies, 0), std::move(buffer)});
  }
  if (problem.constantBytes > 0)
    file.nodes.push_back({{0}, {moments.first(), moments.last(), {problem.constantBytes}}});
}

/// Checks that every allowed choice costs less than kForbiddenInFiles.
Status checkForbiddenIsApart(const Problem &problem, const FileProblem &file) {
  if (!file.forbids)
    return ok();
  auto largest = [](const std::vector<Cost> &costs) {
    Cost most = 0;
    for (Cost cost : costs)
      most = cost == kForbidden ? most : std::max(most, cost);
    return most;
  };
  TotalCost total = 0;
  for (const ProblemNode &node : problem.nodes)
    total += largest(node.costs);
  std::vector<Cost> ofTable;
  for (const std::vector<Cost> &table : problem.tables)
    ofTable.push_back(largest(table));
  for (const ProblemEdge &edge : problem.edges)
    total += ofTable[edge.table];
  if (total >= kForbiddenInFiles)
    return Error{fmt::format(
        "the allowed costs can sum to {}; in a file 10^18 stands for \"forbidden\", and sums must stay below it; "
        "give costs in a larger unit",
        toString(total))};
  return ok();
}

class Text {
public:
  Text &operator<<(std::string_view text) { return out += text, *this; }
  Text &operator<<(int64_t number) {
    char digits[20];
    auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
    out.append(digits, end);
    return *this;
  }
  /// Appends a list such as [a,b,c].
  template <typename List, typename Write> Text &list(const List &list, std::string_view between, Write write) {
    out += '[';
    bool first = true;
    for (const auto &element : list) {
      if (!first)
        out += between;
      first = false;
      write(element);
    }
    out += ']';
    return *this;
  }
  Text &row(const std::vector<int64_t> &numbers) {
    return list(numbers, ",", [&](int64_t number) { *this << number; });
  }
  std::string out;
};

std::string textOf(const Problem &problem, const FileProblem &file) {
  constexpr std::string_view kNextRow = ",\n";
  Text text;
  std::string name = nlohmann::json(problem.name).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  text << "{\"problem\":{\"name\":" << name << ",\n\"nodes\":{\n\"intervals\":";
  text.list(file.nodes, kNextRow, [&](const FileNode &node) { text.row({node.buffer.begin, node.buffer.end}); });
  text << ",\n\"costs\":";
  text.list(file.nodes, kNextRow, [&](const FileNode &node) { text.row(node.costs); });
  text << ",\n\"usages\":";
  text.list(file.nodes, kNextRow, [&](const FileNode &node) { text.row(node.buffer.bytes); });
  text << "},\n\"edges\":{\n\"nodes\":";
  text.list(file.edges, kNextRow, [&](const FileEdge &edge) { text.row({edge.u, edge.v}); });
  text << ",\n\"costs\":";
  text.list(file.edges, kNextRow,
            [&](const FileEdge &edge) { text.list(*edge.table, ",", [&](Cost cost) { text << inFile(cost); }); });
  text << "}";
  if (problem.memoryLimitBytes)
    text << ",\n\"usage_limit\":" << *problem.memoryLimitBytes;
  text << "}}\n";
  return std::move(text.out);
}

} // namespace

Status kerf::writeProblem(const Problem &problem, const std::string &path) {
  if (Status status = check(problem); !status)
    return status;
  FileProblem file;
  addNodes(problem, file);
  addEdges(problem, file);
  addMemory(problem, file);
  if (Status status = checkForbiddenIsApart(problem, file); !status)
    return Error{fmt::format("cannot write '{}': {}", path, status.error().message)};
  std::string text = textOf(problem, file);
  if (!path.ends_with(".gz"))
    return writeFile(path, text);
  auto packed = search::gzip(text);
  return packed ? writeFile(path, *packed) : Status(packed.error());
}
