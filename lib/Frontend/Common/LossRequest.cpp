// SPDX-License-Identifier: Apache-2.0
#include "Common/LossRequest.h"

#include <fmt/format.h>
#include <string_view>

namespace kerf::frontend {

Result<LossRequest> parseLoss(const std::string &text) {
  auto trimmed = [](std::string_view part) {
    size_t first = part.find_first_not_of(' '), last = part.find_last_not_of(' ');
    return first == std::string_view::npos ? std::string() : std::string(part.substr(first, last - first + 1));
  };
  constexpr std::string_view call = "cross_entropy(";
  std::string whole = trimmed(text);
  if (whole.compare(0, call.size(), call) != 0)
    return LossRequest{whole, ""};
  size_t comma = whole.find(',');
  if (whole.back() != ')' || comma == std::string::npos)
    return Error{fmt::format("the loss '{}' is not of the form cross_entropy(LOGITS, LABELS); give both names, or "
                             "only the name of the loss",
                             text)};
  LossRequest request{trimmed(std::string_view(whole).substr(call.size(), comma - call.size())),
                      trimmed(std::string_view(whole).substr(comma + 1, whole.size() - comma - 2))};
  if (request.value.empty() || request.labels.empty())
    return Error{fmt::format("the loss '{}' is not of the form cross_entropy(LOGITS, LABELS); give both names, or "
                             "only the name of the loss",
                             text)};
  return request;
}

} // namespace kerf::frontend
