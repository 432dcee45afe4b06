// SPDX-License-Identifier: Apache-2.0
#include "Inputs.h"
#include "CheckpointFiles.h"
#include "StepParts.h"
#include "kerf/Package/Accumulation.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>

namespace kerf::runtime {

namespace {
using package::Arg;
using package::ArgKind;

bool isFloating(DType dtype) {
  return dtype == DType::F64 || dtype == DType::F32 || dtype == DType::BF16 || dtype == DType::F16;
}

/// Returns the first few of the names, quoted, and the number of the others.
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
    return Error{fmt::format("weights: '{}' has shape {}, the model's has {}; give the weights of this model", arg.name,
                             shapeText(tensor.shape), shapeText(arg.exportedShape))};
  if (isFloating(tensor.dtype) != isFloating(arg.dtype))
    return Error{fmt::format("weights: '{}' is {}, the model's is {}; give the weights of this model", arg.name,
                             toString(tensor.dtype), toString(arg.dtype))};
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
      source.kind = ArgSource::Kind::Tensor;
      source.tensor = found->second;
      anyParameter = anyParameter || arg.kind == ArgKind::Parameter;
      used.insert(arg.name);
    } else if (arg.kind == ArgKind::Parameter) {
      source.kind = ArgSource::Kind::Initialize;
      missing.push_back(arg.name);
    } else if (arg.kind != ArgKind::State) { // states start as zeros
      return Error{fmt::format("weights: the {} '{}' of shape {} is missing, and there are {}; add it",
                               toString(arg.kind), arg.name, shapeText(arg.exportedShape), listed(namesOf(weights)))};
    }
  }
  if (anyParameter && !missing.empty())
    return Error{fmt::format("weights: {} of the model's parameters are missing: {}; there are {}. Give all of "
                             "them, or none to initialize all from the seed",
                             missing.size(), listed(missing), listed(namesOf(weights)))};
  inputs.initialized = std::move(missing);
  for (const auto &[name, tensor] : weights)
    if (!used.count(name))
      inputs.unused.push_back(name);
  return ok();
}
} // namespace

std::vector<BatchInput> batchInputs(const package::Program &program) {
  std::vector<BatchInput> inputs;
  for (const Arg &arg : program.args)
    if (arg.kind == ArgKind::Input)
      inputs.push_back({arg.name, arg.dtype, arg.exportedShape});
  return inputs;
}

Result<Inputs> findInputs(const package::Program &program, const TensorMap &weights, const Checkpoint *resume) {
  Inputs inputs;
  if (Status status = resume ? checkCheckpoint(*resume, program) : ok(); !status)
    return status.error();
  inputs.sources.resize(program.args.size());
  if (Status status = findWeights(program, weights, resume, inputs); !status)
    return status.error();
  inputs.batch = batchInputs(program);
  size_t input = 0;
  for (size_t i = 0; i < program.args.size(); ++i) {
    ArgSource &source = inputs.sources[i];
    switch (program.args[i].kind) {
    case ArgKind::LearningRate:
      source.kind = program.args[i].name == package::kRateFactorName ? ArgSource::Kind::RateFactor
                                                                     : ArgSource::Kind::LearningRate;
      break;
    case ArgKind::Step:
      source.kind = ArgSource::Kind::Step;
      break;
    case ArgKind::Seed:
      source.kind = ArgSource::Kind::Seed;
      break;
    case ArgKind::Input:
      source.kind = ArgSource::Kind::Data;
      source.input = input++;
      break;
    default: // findWeights has set the source
      break;
    }
  }
  for (size_t r = 0; r < program.results.size(); ++r)
    if (program.results[r].name == "loss")
      inputs.lossResult = int(r);
  if (inputs.lossResult < 0 || elementsOf(program.results[size_t(inputs.lossResult)].shape) != 1)
    return Error{"the program has no scalar result 'loss'; compile a model with a loss"};
  inputs.metricResults = {inputs.lossResult};
  const std::vector<bool> evaluated = evaluatedResults(program);
  for (size_t r = 0; r < program.results.size(); ++r)
    if (evaluated[r] && int(r) != inputs.lossResult && elementsOf(program.results[r].shape) == 1)
      inputs.metricResults.push_back(int(r));
  auto batchesOfStep = package::batchesOfStep(program);
  if (!batchesOfStep)
    return batchesOfStep.error();
  inputs.batchesOfStep = *batchesOfStep;
  return inputs;
}

Result<Inputs> findInputs(const package::Program &program, const TensorMap &weights, const DataSet &data,
                          const DataOrder &order, const Checkpoint *resume) {
  auto inputs = findInputs(program, weights, resume);
  if (!inputs)
    return inputs;
  auto batches = batchesOf(data, inputs->batch, order);
  if (!batches)
    return batches.error();
  inputs->dataSteps = *batches;
  return inputs;
}

Status findEvaluation(const EvaluationOptions &evaluation, Inputs &inputs) {
  if (!evaluation.data)
    return ok();
  auto batches = batchesOf(*evaluation.data, inputs.batch, DataOrder{evaluation.samples, false, 0});
  if (!batches)
    return Error{fmt::format("evaluation: {}", batches.error().message)};
  inputs.evaluationData = *batches;
  inputs.evaluationBatches = evaluation.batches.value_or(*batches);
  if (inputs.evaluationBatches < 1 || inputs.evaluationBatches > *batches || evaluation.every < 1)
    return Error{fmt::format("evaluation: {} batches every {} steps are requested; both numbers must be at least 1, "
                             "and the data has {} batches",
                             inputs.evaluationBatches, evaluation.every, *batches)};
  return ok();
}

Status checkAssigned(const package::Program &program, const TensorMap &tensors) {
  for (const auto &[name, tensor] : tensors) {
    auto arg = std::find_if(program.args.begin(), program.args.end(), [&](const Arg &one) {
      return one.name == name && (one.kind == ArgKind::Parameter || one.kind == ArgKind::Buffer);
    });
    if (arg == program.args.end())
      return Error{fmt::format("weights: the model has no parameter '{}'; leave it out", name)};
    if (Status status = checkWeight(*arg, tensor); !status)
      return status;
  }
  return ok();
}

} // namespace kerf::runtime
