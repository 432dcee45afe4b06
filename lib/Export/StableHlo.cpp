// SPDX-License-Identifier: Apache-2.0
#include "kerf/Export/StableHlo.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <numeric>
#include <optional>
#include <regex>

namespace kerf {

namespace {

int64_t elementsIn(const Shape &shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t(1), std::multiplies<>());
}

/// Returns the shape in "tensor<4x8xf32>".
Shape shapeIn(const std::string &type) {
  Shape shape;
  std::string inner = type.substr(7);
  for (size_t at = 0, next; (next = inner.find('x', at)) != std::string::npos; at = next + 1) {
    std::string part = inner.substr(at, next - at);
    if (part.empty() || !std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; }))
      break;
    shape.push_back(std::stoll(part));
  }
  return shape;
}

std::string axisOf(const Mesh &mesh, const AxisRef &ref) {
  const MeshAxis &axis = mesh.axes[size_t(ref.axis)];
  return ref == wholeAxis(mesh, ref.axis) ? fmt::format("\"{}\"", axis.name)
                                          : fmt::format("\"{}\":({}){}", axis.name, ref.before, ref.size);
}

/// Returns the sharding of a tensor whose shape in the text is `shape`: "<@mesh, [{"data"}, {}]>". Returns nothing, and
/// sets `why`, where a dimension of the text is cut in its middle, or unevenly.
std::optional<std::string> shardingText(const Mesh &mesh, const Shape &shape, const ShardedTensor &tensor,
                                        std::string &why) {
  auto cannot = [&](std::string reason) {
    why = std::move(reason);
    return std::nullopt;
  };
  if (shape != tensor.shape && shape.size() == tensor.shape.size() &&
      std::is_permutation(shape.begin(), shape.end(), tensor.shape.begin()))
    return cannot(fmt::format("the program of the plan has the dimensions [{}] in another order, [{}]",
                              fmt::join(shape, ", "), fmt::join(tensor.shape, ", ")));
  std::vector<std::string> dims;
  size_t at = 0;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    std::vector<std::string> axes;
    int64_t inner = 1;
    bool whole = false; // whether a more significant part of the dimension still has several elements on a rank
    while (at < tensor.shape.size() && inner * tensor.shape[at] <= shape[dim] &&
           (inner < shape[dim] || tensor.shape[at] == 1)) {
      int64_t size = tensor.shape[at], shards = shardCount(tensor.sharding.dims[at].axes);
      if (shards > 1 && whole)
        return cannot(
            fmt::format("dimension {} of {} elements is cut in its middle, in parts of {}", dim, shape[dim], size));
      if (size % shards != 0)
        return cannot(fmt::format("dimension {} has {} elements, which {} ranks do not divide", dim, size, shards));
      for (const AxisRef &ref : tensor.sharding.dims[at].axes)
        axes.push_back(axisOf(mesh, ref));
      whole |= size > shards;
      inner *= size;
      ++at;
    }
    if (inner != shape[dim])
      return cannot(fmt::format("the program of the plan joins dimension {} with others: [{}] became [{}]", dim,
                                fmt::join(shape, ", "), fmt::join(tensor.shape, ", ")));
    dims.push_back(fmt::format("{{{}}}", fmt::join(axes, ", ")));
  }
  return fmt::format("<@mesh, [{}]>", fmt::join(dims, ", "));
}

std::string meshLine(const Mesh &mesh) {
  std::vector<std::string> axes;
  for (const MeshAxis &axis : mesh.axes)
    axes.push_back(fmt::format("\"{}\"={}", axis.name, axis.size));
  return fmt::format("  sdy.mesh @mesh = <[{}]>\n", fmt::join(axes, ", "));
}

/// Writes the shardings of the arguments into the line of @main.
Result<std::string> annotateMain(const std::string &line, const TextShardings &shardings, AnnotatedText &made) {
  static const std::regex argument(R"(%arg(\d+): (tensor<[^>]*>)( \{)?)");
  std::string result;
  size_t end = 0;
  for (std::sregex_iterator found(line.begin(), line.end(), argument), last; found != last; ++found) {
    const std::smatch &match = *found;
    size_t index = std::stoull(match[1]);
    if (index >= shardings.arguments.size())
      return Error{fmt::format("@main has an argument {}, but the plan has {} arguments; plan again for this text",
                               index, shardings.arguments.size())};
    std::string why;
    auto text = shardingText(shardings.mesh, shapeIn(match[2]), shardings.arguments[index], why);
    if (!text)
      return Error{fmt::format("argument {} of @main: {}, which cannot be written as a sharding; plan with a pin of "
                               "this argument in \"arguments\"",
                               index, why)};
    result += line.substr(end, size_t(match.position()) - end);
    result += fmt::format("%arg{}: {} {{sdy.sharding = #sdy.sharding{}{}", match[1].str(), match[2].str(), *text,
                          match[3].matched ? ", " : "}");
    end = size_t(match.position() + match.length());
    ++made.arguments;
  }
  return result + line.substr(end);
}

/// Writes a constraint after an operation, where the plan has a sharding of its result. The operation's result gets
/// another name, and the constraint its old one.
std::string annotateOperation(const std::string &line, int64_t number, const TextShardings &shardings,
                              AnnotatedText &made) {
  static const std::regex operation(R"(^(\s*)(%[A-Za-z0-9_]+) = (.*[:>] (tensor<[^>]*>))( loc\(.*\))?$)");
  auto found = shardings.lines.find(number);
  std::smatch match;
  if (found == shardings.lines.end())
    return line;
  if (!std::regex_match(line, match, operation)) {
    made.left.push_back(fmt::format("line {}: the operation has regions or several results", number));
    return line;
  }
  Shape shape = shapeIn(match[4]);
  auto fitting = std::find_if(found->second.rbegin(), found->second.rend(),
                              [&](const ShardedTensor &tensor) { return tensor.shape == shape; });
  if (fitting == found->second.rend())
    fitting = std::find_if(found->second.rbegin(), found->second.rend(),
                           [&](const ShardedTensor &tensor) { return elementsIn(tensor.shape) == elementsIn(shape); });
  if (fitting == found->second.rend())
    return line;
  std::string why;
  auto text = shardingText(shardings.mesh, shape, *fitting, why);
  if (!text) {
    made.left.push_back(fmt::format("line {}: {}", number, why));
    return line;
  }
  ++made.constraints;
  std::string indent = match[1], name = match[2], unplaced = "%kerf_" + name.substr(1);
  return fmt::format("{}{} = {}{}\n{}{} = sdy.sharding_constraint {} {} : {}", indent, unplaced, match[3].str(),
                     match[5].str(), indent, name, unplaced, *text, match[4].str());
}

} // namespace

Result<AnnotatedText> annotate(std::string_view text, const TextShardings &shardings) {
  AnnotatedText made;
  bool module = false, main = false;
  int64_t number = 0;
  static const std::regex partitions(R"(mhlo\.num_partitions = \d+ : i32)");
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    std::string line(text.substr(at, end - at));
    at = end + 1;
    ++number;
    if (!module && line.rfind("module ", 0) == 0 && line.find(" {") != std::string::npos) {
      module = true;
      made.text +=
          std::regex_replace(line, partitions, fmt::format("mhlo.num_partitions = {} : i32", shardings.mesh.ranks())) +
          "\n" + meshLine(shardings.mesh);
      continue;
    }
    if (!main && line.find("func.func public @main(") != std::string::npos) {
      main = true;
      auto annotated = annotateMain(line, shardings, made);
      if (!annotated)
        return annotated.error();
      made.text += *annotated + "\n";
      continue;
    }
    made.text += annotateOperation(line, number, shardings, made) + "\n";
  }
  if (!module || !main)
    return Error{fmt::format("the text has no line with {}; give the text that lowered.as_text() of JAX returns",
                             module ? "\"func.func public @main(\"" : "\"module ... {\"")};
  return made;
}

} // namespace kerf
