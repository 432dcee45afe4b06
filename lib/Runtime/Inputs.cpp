// SPDX-License-Identifier: Apache-2.0
#include "Inputs.h"
#include "CheckpointFiles.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>

namespace kerf::runtime {

namespace {
using package::Arg;
using package::ArgKind;

std::string text(const Shape &shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

bool isFloating(DType dtype) {
  return dtype == DType::F64 || dtype == DType::F32 || dtype == DType::BF16 || dtype == DType::F16;
}

/// A few of many names.
std::string listed(const std::vector<std::string> &names) {
  constexpr size_t kMost = 8;
  std::string out;
  for (size_t i = 0; i < std::min(names.size(), kMost); ++i)
    out += fmt::format("{}'{}'", i ? ", " : "", names[i]);
  return names.size() > kMost ? fmt::format("{} and {} more", out, names.size() - kMost) : names.empty() ? "none" : out;
}

template <typename Map> std::vector<std::string> namesOf(const Map &map) {
  std::vector<std::string> names;
  for (const auto &[name, value] : map)
    names.push_back(name);
  return names;
}

Status checkWeight(const Arg &arg, const Tensor &tensor) {
  if (tensor.shape != arg.exportedShape)
    return Error{fmt::format("weights: '{}' has shape {}, the model's has {}", arg.name, text(tensor.shape),
                             text(arg.exportedShape))};
  if (isFloating(tensor.dtype) != isFloating(arg.dtype))
    return Error{
        fmt::format("weights: '{}' is {}, the model's is {}", arg.name, toString(tensor.dtype), toString(arg.dtype))};
  return ok();
}

Status findWeights(const package::Program &program, const TensorMap &weights, const Checkpoint *resume,
                   Inputs &inputs) {
  std::vector<std::string> missing;
  bool anyParameter = false;
  std::set<std::string> used;
  for (size_t i = 0; i < program.args.size(); ++i) {
    const Arg &arg = program.args[i];
    if (arg.kind > ArgKind::State)
      continue;
    ArgSource &source = inputs.sources[i];
    auto found = weights.find(arg.name);
    if (resume && isSaved(program, i) && resume->index.tensors.count(arg.name)) {
      source.kind = ArgSource::Kind::Resume;
      used.insert(arg.name);
    } else if (found != weights.end()) {
      if (Status status = checkWeight(arg, found->second); !status)
        return status;
      source = {ArgSource::Kind::Tensor, found->second};
      anyParameter = anyParameter || arg.kind == ArgKind::Parameter;
      used.insert(arg.name);
    } else if (arg.kind == ArgKind::Parameter) {
      source.kind = ArgSource::Kind::Initialize;
      missing.push_back(arg.name);
    } else if (arg.kind != ArgKind::State) { // states start as zeros
      return Error{fmt::format("weights: the {} '{}' of shape {} is missing; there are {}", toString(arg.kind),
                               arg.name, text(arg.exportedShape), listed(namesOf(weights)))};
    }
  }
  if (anyParameter && !missing.empty())
    return Error{fmt::format("weights: {} of the model's parameters are missing: {}; there are {}. Give all, or none "
                             "to initialize from the seed",
                             missing.size(), listed(missing), listed(namesOf(weights)))};
  inputs.initialized = std::move(missing);
  for (const auto &[name, tensor] : weights)
    if (!used.count(name))
      inputs.unused.push_back(name);
  return ok();
}

Result<Tensor> findData(const Arg &arg, const std::vector<std::string> &inputNames, const TensorMap &data) {
  auto found = data.find(arg.name);
  if (found == data.end())
    return Error{fmt::format("data: the model's input '{}' is missing; it takes {}, the data has {}", arg.name,
                             listed(inputNames), listed(namesOf(data)))};
  const Tensor &tensor = found->second;
  bool matches = tensor.shape.size() == arg.exportedShape.size() + 1 &&
                 std::equal(arg.exportedShape.begin(), arg.exportedShape.end(), tensor.shape.begin() + 1);
  if (!matches)
    return Error{fmt::format("data: '{}' has shape {}, the model takes {} for each step: [steps{}{}]", arg.name,
                             text(tensor.shape), text(arg.exportedShape), arg.exportedShape.empty() ? "" : ", ",
                             fmt::join(arg.exportedShape, ", "))};
  if (tensor.shape[0] < 1)
    return Error{fmt::format("data: '{}' has no steps: its shape is {}", arg.name, text(tensor.shape))};
  auto converted = convertTensor(tensor, arg.dtype);
  if (!converted)
    return Error{fmt::format("data: '{}' is {}, the model takes {}: {}", arg.name, toString(tensor.dtype),
                             toString(arg.dtype), converted.error().message)};
  return converted;
}
} // namespace

Result<Inputs> findInputs(const package::Program &program, const TensorMap &weights, const TensorMap &data,
                          const Checkpoint *resume) {
  Inputs inputs;
  if (Status status = resume ? checkCheckpoint(*resume, program) : ok(); !status)
    return status.error();
  inputs.sources.resize(program.args.size());
  if (Status status = findWeights(program, weights, resume, inputs); !status)
    return status.error();
  std::vector<std::string> inputNames;
  for (const Arg &arg : program.args)
    if (arg.kind == ArgKind::Input)
      inputNames.push_back(arg.name);
  const Arg *first = nullptr;
  for (size_t i = 0; i < program.args.size(); ++i) {
    const Arg &arg = program.args[i];
    ArgSource &source = inputs.sources[i];
    if (arg.kind == ArgKind::LearningRate)
      source.kind = ArgSource::Kind::LearningRate;
    if (arg.kind == ArgKind::Step)
      source.kind = ArgSource::Kind::Step;
    if (arg.kind == ArgKind::Seed)
      source.kind = ArgSource::Kind::Seed;
    if (arg.kind != ArgKind::Input)
      continue;
    auto tensor = findData(arg, inputNames, data);
    if (!tensor)
      return tensor.error();
    if (first && tensor->shape[0] != inputs.dataSteps)
      return Error{fmt::format("data: '{}' has {} steps, '{}' has {}", first->name, inputs.dataSteps, arg.name,
                               tensor->shape[0])};
    first = &arg;
    inputs.dataSteps = tensor->shape[0];
    source = {ArgSource::Kind::Data, std::move(*tensor)};
  }
  for (size_t r = 0; r < program.results.size(); ++r)
    if (program.results[r].name == "loss")
      inputs.lossResult = int(r);
  if (inputs.lossResult < 0 || elementsOf(program.results[size_t(inputs.lossResult)].shape) != 1)
    return Error{"the program has no scalar result 'loss': compile a model with a loss"};
  return inputs;
}

} // namespace kerf::runtime
