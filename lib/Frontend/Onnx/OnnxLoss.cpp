// SPDX-License-Identifier: Apache-2.0
#include "Onnx/OnnxLoss.h"
#include "Common/Half.h"
#include "Common/Metrics.h"
#include "Common/WayOut.h"

#include <fmt/format.h>

namespace kerf::frontend {

namespace {

constexpr int64_t kIgnoredLabel = -100; // the label that PyTorch's cross_entropy ignores by default

/// Returns the element type that the model declares.
std::string_view typeOf(const Term &term) { return term.narrow ? term.narrow->name : toString(term.dtype); }

bool isRefused(const Term &value) { return value.narrow && !isHalf(value.narrow); }

} // namespace

Result<Term> buildLoss(TermBuilder &b, const LossRequest &asked, const std::string &text, const GraphValues &values,
                       const std::function<Term(const Shape &shape)> &addLabels) {
  for (const std::string &name : {asked.value, asked.labels})
    if (auto it = values.find(name); it != values.end() && !it->second.isTensor())
      return Error{fmt::format("the loss reads '{}', which is {} instead of a tensor; name a tensor in <loss>", name,
                               toString(it->second.kind))};
  const Term &value = values.at(asked.value).terms.front();
  if (asked.labels.empty()) {
    if (elementsOf(value.shape) != 1 || !isFloat(value.dtype) || isRefused(value))
      return Error{fmt::format("the loss '{}' has the type {} and the shape {}, but a floating-point scalar is needed; "
                               "name a scalar with <loss>, or build one with <loss> \"cross_entropy(LOGITS, LABELS)\"",
                               asked.value, typeOf(value), shapeText(value.shape))};
    return b.reshape(value, {});
  }
  b.setLocation(mlir::NameLoc::get(b.builder.getStringAttr("loss")));
  if (!isFloat(value.dtype) || value.rank() < 1 || isRefused(value))
    return Error{fmt::format("the logits '{}' have the type {} and the shape {}, but a floating-point tensor with a "
                             "class dimension is needed; name other logits in <loss>",
                             asked.value, typeOf(value), shapeText(value.shape))};
  auto found = values.find(asked.labels);
  Term labels = found == values.end() ? addLabels(Shape(value.shape.begin(), value.shape.end() - 1))
                                      : found->second.terms.front();
  if (labels.narrow)
    return Error{
        fmt::format("the labels '{}' have the type {}, but an integer type is needed; name another input in <loss>",
                    asked.labels, typeOf(labels))};
  Result<Term> result = crossEntropy(b, value, labels, kIgnoredLabel, "mean");
  if (!result)
    return withWayOut({fmt::format("the loss '{}': {}", text, result.error().message)},
                      "name other logits or labels in <loss>");
  return result;
}

Result<std::vector<mlir::Value>> buildMetrics(TermBuilder &b, const std::vector<std::string> &names, DType type,
                                              const GraphValues &values,
                                              const std::function<bool(const std::string &name)> &isArgument) {
  std::vector<mlir::Value> metrics;
  for (const std::string &name : names) {
    auto found = values.find(name);
    if (found == values.end() || !found->second.isTensor())
      return Error{fmt::format("the metric '{}' is not a tensor; name a tensor with <metric>", name)};
    if (isArgument(name))
      return Error{fmt::format(
          "the metric '{}' has the name of an input or a parameter; name a value that a node computes", name)};
    const Term &value = found->second.terms.front();
    if (isRefused(value))
      return Error{fmt::format("the metric '{}' has the type {}; return it as f32", name, typeOf(value))};
    KERF_TRY(metric, metricOf(b, name, value, type));
    metrics.push_back(metric);
  }
  return metrics;
}

} // namespace kerf::frontend
