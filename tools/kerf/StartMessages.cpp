// SPDX-License-Identifier: Apache-2.0
#include "StartMessages.h"
#include "Command.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <map>

namespace kerf::tool {

namespace {

/// A group of tensors whose names differ in layer numbers only.
struct TensorGroup {
  std::string name; // the name of a single tensor, or the common name with '*' for the numbers
  int64_t tensors = 0, elements = 0;
};

/// Replaces the numbers between dots by '*': "blocks.12.fc.weight" -> "blocks.*.fc.weight".
std::string withoutNumbers(const std::string &name) {
  std::string pattern;
  for (size_t i = 0; i < name.size(); ++i) {
    bool isStart = i == 0 || name[i - 1] == '.' || name[i - 1] == '_' || name[i - 1] == '/';
    size_t end = i;
    while (end < name.size() && std::isdigit(static_cast<unsigned char>(name[end])))
      ++end;
    bool isNumber = isStart && end > i && (end == name.size() || name[end] == '.' || name[end] == '/');
    pattern += isNumber ? '*' : name[i];
    i = isNumber ? end - 1 : i;
  }
  return pattern;
}

/// Returns the number with commas between thousands: 110400 -> "110,400".
std::string grouped(int64_t number) {
  std::string text = std::to_string(number);
  for (size_t at = text.size(); at > 3;)
    text.insert(at -= 3, ",");
  return text;
}

/// Collects tensors of one kind (trained, frozen, ...) for the line that lists them.
class TensorList {
public:
  void add(const package::Arg &arg) {
    tensors.push_back({arg.name, 1, elementsOf(arg.shape)});
    all += tensors.back().elements;
  }

  size_t count() const { return tensors.size(); }
  int64_t elements() const { return all; }
  /// Returns the names, largest tensors first. More than ten tensors are grouped by layer, and groups after the tenth
  /// are only counted: "blocks.*.fc.weight (12), head.weight and 3 more".
  std::string names() const {
    constexpr size_t kShown = 10;
    std::vector<TensorGroup> sorted = tensors.size() > kShown ? stacked() : tensors;
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const TensorGroup &a, const TensorGroup &b) { return a.elements > b.elements; });
    std::string text;
    int64_t left = int64_t(tensors.size());
    for (size_t i = 0; i < sorted.size() && i < kShown; ++i) {
      text += (i ? ", " : "") + sorted[i].name;
      if (sorted[i].tensors > 1)
        text += fmt::format(" ({})", sorted[i].tensors);
      left -= sorted[i].tensors;
    }
    return left ? fmt::format("{} and {} more", text, left) : text;
  }

private:
  std::vector<TensorGroup> stacked() const {
    std::vector<TensorGroup> groups;
    std::map<std::string, size_t> index;
    for (const TensorGroup &tensor : tensors) {
      auto [it, isNew] = index.try_emplace(withoutNumbers(tensor.name), groups.size());
      if (isNew) {
        groups.push_back(tensor);
        continue;
      }
      TensorGroup &group = groups[it->second];
      group.name = it->first;
      ++group.tensors;
      group.elements += tensor.elements;
    }
    return groups;
  }

  std::vector<TensorGroup> tensors;
  int64_t all = 0;
};

bool isFloating(DType dtype) {
  return dtype == DType::F64 || dtype == DType::F32 || dtype == DType::BF16 || dtype == DType::F16;
}

} // namespace

void printWarnings(const std::vector<std::string> &warnings) {
  for (const std::string &warning : warnings)
    printToStderr(fmt::format("warning: {}\n", settingsAsOptions(warning)));
}

std::string trainedTensorsText(const package::Program &program) {
  using package::ArgKind;
  TensorList trained, frozen, constant, updated;
  bool isRandom = false;
  for (const package::Arg &arg : program.args) {
    isRandom |= arg.kind == ArgKind::Seed;
    if (arg.kind == ArgKind::Parameter)
      (arg.trainable ? trained : frozen).add(arg);
    else if ((arg.kind == ArgKind::Buffer || arg.kind == ArgKind::Constant) && isFloating(arg.dtype) &&
             elementsOf(arg.shape) > 1)
      (arg.updatedBy >= 0 ? updated : constant).add(arg);
  }
  std::string text = fmt::format("training {} tensor{}, {} parameters: {}", trained.count(),
                                 trained.count() == 1 ? "" : "s", grouped(trained.elements()), trained.names());
  if (frozen.count())
    text += fmt::format("; frozen: {}", frozen.names());
  if (constant.count())
    text += fmt::format("; constant: {}", constant.names());
  if (updated.count())
    text += fmt::format("; running statistics: {}", updated.names());
  return text + (isRandom ? "; with dropout" : "; no dropout");
}

} // namespace kerf::tool
