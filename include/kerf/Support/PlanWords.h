// SPDX-License-Identifier: Apache-2.0
// The ways between which a plan chooses, and their words in plan.json. A word stands here and nowhere else.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace kerf {

/// The activations of a layer that the backward pass makes again instead of keeping them.
enum class Recompute {
  None,
  Selective, // attention's core: scores, softmax, dropout
  Full,      // all but the layer's input
  Offload,   // none: they are kept in the host's memory
};
/// The way in which the mesh axis "model" cuts operators.
enum class OpLayout {
  Megatron, // products column by column, then row by row; the vocabulary of embedding and loss
  Solved,   // of each operator what a search has chosen
};
enum class AttentionKernels { Fused, Unfused };
/// How attention runs over a sequence that "context" cuts.
enum class ContextStyle {
  Ring,    // queries stay, blocks of keys and values pass round all ranks (Liu et al. 2023)
  Ulysses, // all-to-alls exchange the cut of the sequence for one of heads, and back (Jacobs et al. 2023)
};

/// The words of an enumeration, in its order.
template <typename Way> struct PlanWords;
template <> struct PlanWords<Recompute> {
  static constexpr std::array<std::string_view, 4> words = {"none", "selective", "full", "offload"};
};
template <> struct PlanWords<OpLayout> {
  static constexpr std::array<std::string_view, 2> words = {"megatron", "solved"};
};
template <> struct PlanWords<AttentionKernels> {
  static constexpr std::array<std::string_view, 2> words = {"fused", "unfused"};
};
template <> struct PlanWords<ContextStyle> {
  static constexpr std::array<std::string_view, 2> words = {"ring", "ulysses"};
};

template <typename Way>
  requires requires { PlanWords<Way>::words; }
constexpr std::string_view toString(Way way) {
  return PlanWords<Way>::words[static_cast<size_t>(way)];
}
/// The way of a word; nothing for a word that is none.
template <typename Way> constexpr std::optional<Way> parseWay(std::string_view word) {
  const auto &words = PlanWords<Way>::words;
  auto found = std::find(words.begin(), words.end(), word);
  return found == words.end() ? std::nullopt : std::optional(static_cast<Way>(found - words.begin()));
}

} // namespace kerf
