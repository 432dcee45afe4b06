// SPDX-License-Identifier: Apache-2.0
// Finds parameters of the module that an exporter's optimizer folded into constants, merged or removed, so that
// training the graph would not train the module.
#include "Common/Literal.h"
#include "Onnx/OnnxParameters.h"
#include "Onnx/TorchMetadata.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace kerf::frontend {

namespace {

std::string_view lastWord(std::string_view path) { return path.substr(path.rfind('.') + 1); }
std::string_view allButLast(std::string_view path) {
  size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
}

/// Returns whether the missing parameter is tied to an existing one: an embedding whose table has the name of another
/// module (the exporter keeps the last name), or a module that holds its child's parameter. In other cases, equal
/// tensors of a freshly initialized model cannot be told apart from tied ones.
bool isTied(const OnnxFile &file, const std::vector<InitializerRole> &roles, const std::string &missing) {
  std::string module(allButLast(missing));
  auto isParameter = [&](const std::string &name) {
    auto it = file.initializerIndex.find(name);
    return it != file.initializerIndex.end() && roles[it->second] >= InitializerRole::FrozenParameter &&
           lastWord(name) == lastWord(missing);
  };
  for (const onnx::NodeProto &node : file.model->graph().node())
    if (node.op_type() == "Gather" && node.input_size() > 0 && isParameter(node.input(0)) && moduleOf(node) == module)
      return true;
  return std::any_of(file.initializers.begin(), file.initializers.end(), [&](const Initializer &initializer) {
    return isParameter(initializer.name) && initializer.name.rfind(module + ".", 0) == 0;
  });
}

std::string described(const Initializer &initializer) {
  return fmt::format("{} {}", initializer.name, shapeText(initializer.tensor.shape));
}

/// Returns the constants into which each name was folded, by that name.
std::map<std::string, std::vector<int>> constantsMadeOf(const OnnxFile &file) {
  std::map<std::string, std::vector<int>> made;
  for (size_t i = 0; i < file.initializers.size(); ++i)
    for (const std::string &from : listWords(file.initializers[i].foldedFrom))
      made[from].push_back(int(i));
  return made;
}

/// The operands of an operator, from `first` to `last`, that hold weights.
struct Weights {
  std::string_view op;
  int first, last;
};
constexpr Weights kWeights[] = {{"Conv", 1, 2},   {"ConvTranspose", 1, 2}, {"Gemm", 0, 2},
                                {"MatMul", 0, 1}, {"Gather", 0, 0},        {"GRU", 1, 3},
                                {"LSTM", 1, 3},   {"PRelu", 1, 1},         {"RNN", 1, 3}};

/// Returns whether a constant that PyTorch's older exporter folded, without recording its origin, was computed from
/// parameters, as weights of products and tables are.
void addNamelessWeights(const OnnxFile &file, const std::vector<InitializerRole> &roles, const std::vector<int> &needed,
                        LostParameters &lost) {
  for (int index : needed) {
    const onnx::NodeProto &node = file.model->graph().node(index);
    auto weights = std::find_if(std::begin(kWeights), std::end(kWeights),
                                [&](const Weights &one) { return one.op == node.op_type(); });
    for (int i = weights == std::end(kWeights) ? node.input_size() : weights->first;
         i < node.input_size() && i <= weights->last; ++i) {
      const Initializer *constant = file.find(node.input(i));
      if (!constant || constant->name.rfind("onnx::", 0) != 0 || !isFloat(constant->tensor.dtype) ||
          (elementsOf(constant->tensor.shape) < 2 && node.op_type() != "PRelu") ||
          roles[size_t(constant - file.initializers.data())] != InitializerRole::Constant ||
          parameterTransposedTo(file, roles, *constant) || !lost.constants.insert(constant->name).second)
        continue;
      lost.folded.push_back(fmt::format("a parameter that became the constant {} of {} '{}'", described(*constant),
                                        node.op_type(), node.name()));
    }
  }
}

/// Returns the constants into which one use of a trained parameter was folded while other nodes still read the
/// parameter, so that this use gives no gradient. Transposed copies do not count, because they are imported as
/// transposes of the parameter.
const Initializer *usedFolded(const OnnxFile &file, const std::vector<InitializerRole> &roles,
                              const Initializer &parameter, const std::vector<int> &made) {
  if (roles[size_t(&parameter - file.initializers.data())] != InitializerRole::TrainedParameter)
    return nullptr;
  for (int index : made) {
    const Initializer &constant = file.initializers[index];
    if (roles[index] == InitializerRole::Constant && isFloat(constant.tensor.dtype) && &constant != &parameter &&
        !parameterTransposedTo(file, roles, constant))
      return &constant;
  }
  return nullptr;
}

} // namespace

LostParameters lostParameters(const OnnxFile &file, const std::vector<InitializerRole> &roles,
                              const std::vector<int> &needed) {
  LostParameters lost;
  std::set<std::string> transposed = transposedWeights(file), variables = variablesOfCalls(file);
  std::map<std::string, std::vector<int>> madeOf = constantsMadeOf(file);
  bool kinds = exporterMarksParameters(file);
  for (const auto &[variable, name] : signatureParameters(file)) {
    ++lost.parameters;
    if (const Initializer *there = file.find(name)) {
      // The optimizer gives a folded result the name of one of its operands.
      if (kinds && there->kind != "PARAMETER" && isFloat(there->tensor.dtype) && !there->narrow &&
          roles[size_t(there - file.initializers.data())] == InitializerRole::Constant) {
        lost.folded.push_back(fmt::format("{} (a constant has its name)", name));
        lost.constants.insert(name);
      }
      if (const Initializer *constant = usedFolded(file, roles, *there, madeOf[name]);
          constant && lost.constants.insert(constant->name).second)
        lost.folded.push_back(fmt::format("a use of {} (now in the constant {})", name, described(*constant)));
      continue;
    }
    if (auto made = madeOf.find(name); made != madeOf.end()) {
      const Initializer &constant = file.initializers[made->second.front()];
      bool isTrained = std::all_of(made->second.begin(), made->second.end(),
                                   [&](int i) { return roles[i] == InitializerRole::TrainedParameter; });
      lost.constants.insert(constant.name);
      if (transposed.count(constant.name))
        lost.transposed.push_back(fmt::format("{} is {}", name, constant.name));
      else if (isTrained)
        lost.trainedAs.push_back(fmt::format("{} is {}", name, described(constant)));
      else
        lost.folded.push_back(fmt::format("{} (now in the constant {})", name, described(constant)));
    } else if (!isTied(file, roles, name)) {
      bool isRead = variables.empty() || variables.count(variable);
      (isRead ? lost.folded : lost.unread).push_back(name);
    }
  }
  for (const std::string &name : transposed)
    if (lost.constants.insert(name).second)
      lost.transposed.push_back(name);
  addNamelessWeights(file, roles, needed, lost);
  return lost;
}

} // namespace kerf::frontend
