// SPDX-License-Identifier: Apache-2.0
// Reads the contest's format with simdjson's On-Demand API: one pass over the text, without a tree in memory. Keys may
// come in any order, so sizes are compared after everything is read.
#include "kerf/Search/ProblemFile.h"
#include "ProblemText.h"
#include <fmt/format.h>
#include <functional>
#include <simdjson.h>

using namespace kerf;
using namespace kerf::search;
namespace json = simdjson::ondemand;

namespace {

/// A place in the file, for messages: `nodes.costs[17][3]`.
struct Place {
  const char *key = "";
  int64_t outer = -1, inner = -1;
};

std::string toString(const Place &place) {
  std::string text = *place.key ? place.key : "the file";
  for (int64_t index : {place.outer, place.inner})
    if (index >= 0)
      text += fmt::format("[{}]", index);
  return text;
}

struct Field {
  const char *key, *path;
  enum { Required, Optional } need;
  std::function<bool(json::value)> read;
};

using Row = std::vector<int64_t>;

/// Reads one file. Functions that return false have set `error`.
class Reader {
public:
  Reader(const ProblemText &text, const std::string &file) : text(text), file(file), tables(problem.tables) {}

  Result<Problem> read() {
    if (!parse() || !assemble())
      return Error{fmt::format("{}: {}{}", file, error,
                               error.find("; ") == std::string::npos ? "; docs/interface.md has the format" : "")};
    if (Status status = check(problem); !status)
      return Error{fmt::format("{}: {}", file, status.error().message)};
    return std::move(problem);
  }

private:
  bool parse() {
    // The text is followed by SIMDJSON_PADDING bytes (ProblemText).
    if (auto code = parser.iterate(text.data(), text.size(), text.size() + simdjson::SIMDJSON_PADDING).get(document))
      return failSyntax(code, {});
    started = true;
    json::value root;
    if (auto code = document.get_value().get(root)) {
      if (code == simdjson::SCALAR_DOCUMENT_AS_VALUE || code == simdjson::INCORRECT_TYPE)
        return fail("must be an object {\"problem\": …}, but is one bare value", {});
      return failSyntax(code, {});
    }
    auto readInner = [this](json::value value) { return readInstance(value); };
    if (!readObject(root, "", {{"problem", "problem", Field::Required, readInner}}))
      return false;
    if (const char *after; !document.current_location().get(after))
      return failSyntax(simdjson::TRAILING_CONTENT, {});
    return true;
  }

  bool readInstance(json::value value) {
    auto rows = [this](const char *path, auto take) {
      return [this, path, take](json::value list) { return readRows(list, path, take); };
    };
    auto keep = [](std::vector<Row> &to) {
      return [&to](const Row &row, const Place &) {
        to.emplace_back(row.begin(), row.end());
        return true;
      };
    };
    auto keepPair = [this](std::vector<LiveInterval> &to, const char *what) {
      return [this, &to, what](const Row &row, const Place &place) {
        if (row.size() != 2)
          return fail(fmt::format("has {} entries; must be two, {}", row.size(), what), place);
        to.push_back({row[0], row[1]});
        return true;
      };
    };
    auto keepTable = [this](const Row &row, const Place &) {
      tableOfEdge.push_back(tables.add(row));
      return true;
    };
    auto readNodes = [=, this](json::value nodes) {
      return readObject(nodes, "nodes",
                        {{"intervals", "nodes.intervals", Field::Required,
                          rows("nodes.intervals", keepPair(intervals, "[begin, end]"))},
                         {"costs", "nodes.costs", Field::Required, rows("nodes.costs", keep(costs))},
                         {"usages", "nodes.usages", Field::Required, rows("nodes.usages", keep(usages))}});
    };
    auto readEdges = [=, this](json::value edges) {
      return readObject(edges, "edges",
                        {{"nodes", "edges.nodes", Field::Required, rows("edges.nodes", keepPair(ends, "[u, v]"))},
                         {"costs", "edges.costs", Field::Required, rows("edges.costs", keepTable)}});
    };
    auto readLimit = [this](json::value limit) {
      problem.memoryLimitBytes.emplace();
      return readNumber(limit, {"usage_limit"}, *problem.memoryLimitBytes);
    };
    auto readName = [this](json::value name) {
      std::string_view text;
      if (auto code = name.get_string().get(text))
        return failValue(code, "a string", {"problem.name"}, name);
      problem.name = text;
      return true;
    };
    return readObject(value, "problem",
                      {{"name", "problem.name", Field::Optional, readName},
                       {"nodes", "nodes", Field::Required, readNodes},
                       {"edges", "edges", Field::Required, readEdges},
                       {"usage_limit", "usage_limit", Field::Optional, readLimit}});
  }

  /// Calls the reader of every known key and ignores other keys.
  bool readObject(json::value value, const char *path, const std::vector<Field> &fields) {
    json::object object;
    if (auto code = value.get_object().get(object))
      return failValue(code, "an object", {path}, value);
    std::vector<bool> seen(fields.size(), false);
    for (auto entry : object) {
      std::string_view key;
      if (auto code = entry.unescaped_key().get(key))
        return failSyntax(code, {path});
      for (size_t f = 0; f < fields.size(); ++f) {
        if (key != fields[f].key)
          continue;
        if (seen[f])
          return fail("is there twice; leave one", {fields[f].path});
        seen[f] = true;
        json::value inner;
        if (auto code = entry.value().get(inner))
          return failSyntax(code, {fields[f].path});
        if (!fields[f].read(inner))
          return false;
      }
    }
    for (size_t f = 0; f < fields.size(); ++f)
      if (!seen[f] && fields[f].need == Field::Required)
        return fail(fmt::format("has no key \"{}\"", fields[f].key), {path});
    return true;
  }

  /// take(row, place) for each of a list of lists of numbers.
  template <typename Take> bool readRows(json::value list, const char *path, Take take) {
    json::array outer;
    if (auto code = list.get_array().get(outer))
      return failValue(code, "a list of lists of numbers", {path}, list);
    Row row;
    int64_t index = 0;
    for (auto element : outer) {
      Place place{path, index++};
      json::value value;
      json::array inner;
      if (auto code = element.get(value))
        return failSyntax(code, place);
      if (auto code = value.get_array().get(inner))
        return failValue(code, "a list of numbers", place, value);
      row.clear();
      for (auto number : inner) {
        int64_t &entry = row.emplace_back();
        if (auto code = number.get_int64().get(entry); code || static_cast<uint64_t>(entry) > kMaxCost) [[unlikely]] {
          place.inner = static_cast<int64_t>(row.size()) - 1;
          json::value wrong;
          if (auto broken = number.get(wrong))
            return failSyntax(broken, place);
          return code ? failValue(code, kNumber, place, wrong) : failRange(entry, place);
        }
      }
      if (!take(row, place))
        return false;
    }
    return true;
  }

  bool readNumber(json::value value, Place place, int64_t &number) {
    if (auto code = value.get_int64().get(number))
      return failValue(code, kNumber, place, value);
    return static_cast<uint64_t>(number) <= kMaxCost || failRange(number, place);
  }

  // ---- from what was read to the problem

  bool assemble() {
    if (!sizesAgree("nodes.costs", costs.size(), "nodes.intervals", intervals.size()) ||
        !sizesAgree("nodes.costs", costs.size(), "nodes.usages", usages.size()) ||
        !sizesAgree("edges.nodes", ends.size(), "edges.costs", tableOfEdge.size()))
      return false;
    problem.nodes.reserve(costs.size());
    for (size_t i = 0; i < costs.size(); ++i)
      if (!addNode(i))
        return false;
    problem.edges.reserve(ends.size());
    for (size_t e = 0; e < ends.size(); ++e)
      if (!addEdge(e))
        return false;
    return true;
  }

  bool sizesAgree(const char *first, size_t sizeOfFirst, const char *second, size_t sizeOfSecond) {
    return sizeOfFirst == sizeOfSecond ||
           fail(fmt::format("has {} entries and {} has {}; they must be as many", sizeOfFirst, second, sizeOfSecond),
                {first});
  }

  bool addNode(size_t i) {
    auto index = static_cast<int64_t>(i);
    if (costs[i].empty())
      return fail("is empty; every node needs at least one strategy", {"nodes.costs", index});
    if (usages[i].size() != costs[i].size())
      return fail(fmt::format("has {} entries and nodes.costs[{}] has {}; both are one per strategy", usages[i].size(),
                              i, costs[i].size()),
                  {"nodes.usages", index});
    if (intervals[i].begin > intervals[i].end)
      return fail(fmt::format("begins at {} and ends at {}; it must not end before it begins", intervals[i].begin,
                              intervals[i].end),
                  {"nodes.intervals", index});
    problem.nodes.push_back({fmt::format("n{}", i), std::move(costs[i])});
    bool needsMemory = std::any_of(usages[i].begin(), usages[i].end(), [](int64_t bytes) { return bytes > 0; });
    if (needsMemory && intervals[i].begin < intervals[i].end)
      problem.usages.push_back({static_cast<int>(i), {intervals[i]}, std::move(usages[i])});
    return true;
  }

  bool addEdge(size_t e) {
    auto index = static_cast<int64_t>(e), count = static_cast<int64_t>(problem.nodes.size());
    auto [u, v] = ends[e];
    if (u >= count || v >= count)
      return fail(fmt::format("joins nodes {} and {}, but there are {} nodes, counted from 0", u, v, count),
                  {"edges.nodes", index});
    if (u == v)
      return fail(fmt::format("joins node {} with itself; add its costs to nodes.costs[{}]", u, u),
                  {"edges.nodes", index});
    size_t entries = problem.tables[tableOfEdge[e]].size(), rows = problem.nodes[u].costs.size(),
           columns = problem.nodes[v].costs.size();
    if (entries != rows * columns)
      return fail(fmt::format("has {} entries; nodes {} and {} have {} x {} = {} pairs of strategies", entries, u, v,
                              rows, columns, rows * columns),
                  {"edges.costs", index});
    problem.edges.push_back({static_cast<int>(u), static_cast<int>(v), tableOfEdge[e]});
    return true;
  }

  // ---- errors

  static constexpr const char *kNumber = "a whole number, written without point or exponent";

  bool fail(const std::string &what, const Place &place) {
    error = fmt::format("{} {}", toString(place), what);
    return false;
  }

  bool failRange(int64_t number, const Place &place) {
    return fail(fmt::format("is {}; must be 0 to {}", number, kMaxCost), place);
  }

  /// Reports a value of the wrong kind, or text that is no JSON value.
  bool failValue(simdjson::error_code code, const char *expected, const Place &place, json::value value) {
    std::string_view token = value.raw_json_token();
    bool startsLikeAValue =
        !token.empty() && std::string_view("{[\"-0123456789tfn").find(token.front()) != std::string_view::npos;
    if (!token.empty() && token.data() + token.size() >= text.data() + text.size())
      return failEnd("no bracket closes what is open", place);
    bool wrongKind =
        code == simdjson::INCORRECT_TYPE || code == simdjson::NUMBER_ERROR || code == simdjson::NUMBER_OUT_OF_RANGE;
    if (!wrongKind || !startsLikeAValue)
      return failSyntax(code, place);
    return fail(fmt::format("must be {}; is {} (byte {})", expected, shortened(token), token.data() - text.data()),
                place);
  }

  static std::string shortened(std::string_view token) {
    constexpr size_t kMostShown = 40;
    token = token.substr(0, token.find_last_not_of(" \t\r\n") + 1);
    std::string shown;
    for (char c : token.substr(0, kMostShown))
      shown += c >= ' ' && c < 127 ? c : '?';
    return shown + (token.size() > kMostShown ? "…" : "");
  }

  static std::string explained(simdjson::error_code code) {
    switch (code) {
    case simdjson::INCORRECT_TYPE:
      return "a value is missing";
    case simdjson::TAPE_ERROR:
    case simdjson::INCOMPLETE_ARRAY_OR_OBJECT:
      return "a comma, a colon, a bracket or a value is missing or too many";
    case simdjson::EMPTY:
      return "it is empty";
    default:
      return simdjson::error_message(code);
    }
  }

  bool failSyntax(simdjson::error_code code, const Place &place) {
    size_t byte = text.size();
    const char *location = nullptr;
    if (code == simdjson::UTF8_ERROR)
      byte = firstBadUtf8();
    else if (started && !document.current_location().get(location) && location >= text.data() &&
             location <= text.data() + text.size())
      byte = static_cast<size_t>(location - text.data());
    std::string why = explained(code);
    if (byte == text.size())
      return failEnd(why, place);
    error = fmt::format("no JSON at byte {} of {}, in {}: {}", byte, text.size(), toString(place), why);
    return false;
  }

  bool failEnd(const std::string &why, const Place &place) {
    error = fmt::format("the text ends at byte {}, in {}, before its JSON does: {}; copy or download the file "
                        "again",
                        text.size(), toString(place), why);
    return false;
  }

  /// Returns the length of the longest valid UTF-8 prefix by bisection. A prefix may end inside of a character.
  size_t firstBadUtf8() const {
    constexpr size_t kLongestCharacter = 4;
    auto good = [&](size_t length) {
      for (size_t cut = 0; cut < kLongestCharacter && cut <= length; ++cut)
        if (simdjson::validate_utf8(text.data(), length - cut))
          return true;
      return false;
    };
    size_t low = 0, high = text.size();
    while (low < high) {
      size_t middle = low + (high - low + 1) / 2;
      if (good(middle))
        low = middle;
      else
        high = middle - 1;
    }
    return low;
  }

  const ProblemText &text;
  const std::string &file;
  simdjson::ondemand::parser parser;
  simdjson::ondemand::document document;
  bool started = false; // whether `document` is initialized
  Problem problem;
  TableSet tables;
  std::vector<Row> costs, usages;
  std::vector<LiveInterval> intervals, ends; // `ends`: the two nodes of each edge
  std::vector<int> tableOfEdge;
  std::string error;
};

} // namespace

Result<Problem> kerf::readProblem(const std::string &path) {
  auto text = ProblemText::load(path);
  if (!text)
    return text.error();
  return Reader(*text, path).read();
}
