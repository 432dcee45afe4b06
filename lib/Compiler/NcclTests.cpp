// SPDX-License-Identifier: Apache-2.0
// Reads the output of nccl-tests (github.com/NVIDIA/nccl-tests). A line of its table is
//
//   size (B)   count (elements)   type   redop   root   time (us)   algbw   busbw   #wrong   ...in place
//
// where the size counts the bytes of one rank as CollectiveModel does: the output of an all-gather, else the input.
#include "kerf/Compiler/Calibrate.h"
#include "kerf/Support/Csv.h"

#include <algorithm>
#include <fmt/format.h>
#include <sstream>

namespace kerf {

namespace {

struct Program {
  std::string_view name;
  Collective kind;
};
constexpr Program kPrograms[] = {{"all_reduce", Collective::AllReduce},
                                 {"all_gather", Collective::AllGather},
                                 {"reduce_scatter", Collective::ReduceScatter},
                                 {"alltoall", Collective::AllToAll}};

constexpr size_t kTimeColumn = 5;
constexpr double kMicrosecond = 1e-6;

/// Returns the program that a text names, if it names exactly one.
const Program *programIn(std::string_view text) {
  const Program *found = nullptr;
  for (const Program &program : kPrograms)
    if (text.find(program.name) != std::string_view::npos) {
      if (found)
        return nullptr;
      found = &program;
    }
  return found;
}

} // namespace

Result<std::vector<MeasuredCollective>> parseNcclTests(std::string_view text, const std::string &where) {
  const Program *program = programIn(text);
  if (!program)
    program = programIn(where.substr(where.find_last_of('/') + 1));
  if (!program)
    return Error{fmt::format("{}: neither the text nor the name of the file says which collective was measured; name "
                             "the file after the program, for example all_reduce_perf.txt",
                             where)};
  int64_t ranks = 0;
  std::vector<MeasuredCollective> rows;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream cells(line);
    std::vector<std::string> words;
    for (std::string word; cells >> word;)
      words.push_back(word);
    ranks +=
        words.size() > 3 && words[0] == "#" && words[1] == "Rank"; // "#  Rank  0 Group  0 Pid ... on host device 0"
    if (words.size() <= kTimeColumn || !positiveNumber(words[0]))
      continue;
    if (auto time = positiveNumber(words[kTimeColumn]))
      rows.push_back({"", program->kind, 0, *positiveNumber(words[0]), *time * kMicrosecond});
  }
  if (ranks < 2 || rows.empty())
    return Error{
        fmt::format("{}: it has {} lines of ranks (\"#  Rank  0 ...\") and {} of times, but two or more ranks and "
                    "one or more times are needed; give the complete output of a program of nccl-tests",
                    where, ranks, rows.size())};
  for (MeasuredCollective &row : rows) {
    row.name = fmt::format("{}, {} of {:.0f} bytes", where, program->name, row.bytes);
    row.ranks = ranks;
    row.weight = 1 / static_cast<double>(rows.size());
  }
  return rows;
}

} // namespace kerf
