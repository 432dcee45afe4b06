// SPDX-License-Identifier: Apache-2.0
// Strategies by name: as attributes of ops, and as entries of a plan.
#include "kerf/Transforms/Placement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

using namespace mlir;

namespace kerf {

namespace {

int findFactor(const Rule &rule, StringRef name) {
  for (size_t f = 0; f < rule.factors.size(); ++f)
    if (rule.factors[f].name == name)
      return static_cast<int>(f);
  return -1;
}

Error unknownFactor(StringRef factor, const Rule &rule) {
  return {fmt::format("there is no factor \"{}\"; the rule is {}", factor.str(), toString(rule))};
}

Error unknownAxis(StringRef axis, const Mesh &mesh) {
  std::vector<std::string> names;
  for (const MeshAxis &known : mesh.axes)
    names.push_back(known.name);
  return {fmt::format("the mesh has no axis \"{}\" of more than one rank; it has [{}]", axis.str(),
                      fmt::join(names, ", "))};
}

} // namespace

Rule argumentRule(const Shape &shape) { return elementwiseRule(shape, 1, 1, {{0}}); }

DictionaryAttr strategyAttr(MLIRContext *context, const Mesh &mesh, const Rule &rule, const Strategy &strategy) {
  NamedAttrList list;
  for (size_t axis = 0; axis < mesh.axes.size(); ++axis)
    if (int factor = strategy.factorOfAxis[axis]; factor >= 0)
      list.set(mesh.axes[axis].name, StringAttr::get(context, rule.factors[factor].name));
  return list.getDictionary(context);
}

std::string strategyText(const Mesh &mesh, const Rule &rule, const Strategy &strategy) {
  std::string text;
  for (size_t axis = 0; axis < mesh.axes.size(); ++axis)
    if (int factor = strategy.factorOfAxis[axis]; factor >= 0)
      text += (text.empty() ? "" : ", ") + mesh.axes[axis].name + ": " + rule.factors[factor].name;
  return text;
}

Result<Strategy> parseStrategyAttr(DictionaryAttr attr, const Mesh &mesh, const Rule &rule) {
  Strategy strategy{std::vector<int>(mesh.axes.size(), -1)};
  for (NamedAttribute entry : attr) {
    int axis = mesh.find(entry.getName().getValue());
    if (axis < 0)
      return unknownAxis(entry.getName().getValue(), mesh);
    auto name = dyn_cast<StringAttr>(entry.getValue());
    int factor = name ? findFactor(rule, name.getValue()) : -1;
    if (factor < 0)
      return unknownFactor(name ? name.getValue() : StringRef("?"), rule);
    strategy.factorOfAxis[axis] = factor;
  }
  return strategy;
}

Result<Strategy> parseOpPlan(const OpPlan &op, const Mesh &mesh, const Rule &rule) {
  Strategy strategy{std::vector<int>(mesh.axes.size(), op.strategy.empty() ? -1 : -2)};
  for (const auto &[name, axes] : op.strategy) {
    int factor = findFactor(rule, name);
    if (factor < 0)
      return unknownFactor(name, rule);
    for (const std::string &axisName : axes) {
      int axis = mesh.find(axisName);
      if (axis < 0)
        return unknownAxis(axisName, mesh);
      if (strategy.factorOfAxis[axis] >= 0)
        return Error{fmt::format("\"{}\" is given for two factors; an axis shards at most one", axisName)};
      strategy.factorOfAxis[axis] = factor;
    }
  }
  return strategy;
}

Result<Strategy> parseArgumentPlan(const ArgumentPlan &argument, const Mesh &mesh, const Rule &rule,
                                   const std::string &name) {
  const FactorMap &dims = rule.results[0];
  if (argument.dims.size() != dims.size())
    return Error{fmt::format("arguments[\"{}\"] has {} dimensions; {} has {}", argument.pattern, argument.dims.size(),
                             name, dims.size())};
  Strategy strategy{std::vector<int>(mesh.axes.size(), -1)};
  for (size_t d = 0; d < dims.size(); ++d)
    for (const std::string &axisName : argument.dims[d]) {
      int axis = mesh.find(axisName);
      if (axis < 0)
        return Error{fmt::format("arguments[\"{}\"]: {}", argument.pattern, unknownAxis(axisName, mesh).message)};
      if (strategy.factorOfAxis[axis] >= 0)
        return Error{fmt::format("arguments[\"{}\"]: \"{}\" is given for two dimensions; an axis shards at most one",
                                 argument.pattern, axisName)};
      strategy.factorOfAxis[axis] = dims[d].empty() ? -1 : dims[d][0];
    }
  return strategy;
}

} // namespace kerf
