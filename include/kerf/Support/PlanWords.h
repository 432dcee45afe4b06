// SPDX-License-Identifier: Apache-2.0
// The enumerations that a plan chooses from, and the word that each value has in plan.json. Each word is defined here
// and nowhere else.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace kerf {

/// Activation checkpointing mode of a layer: which activations are dropped after the forward pass, and how the backward
/// pass gets them back.
enum class Recompute {
  None,      // all activations that the backward pass needs stay in device memory
  Selective, // attention scores, softmax and dropout are recomputed in the backward pass
  Pointwise, // norms, activations and other ops without products are recomputed from what stays saved
  /// All but attention in one kernel is recomputed; what this kernel computes stays saved, and the layer's input.
  ExceptAttention,
  Full,    // only the layer's input is kept; the whole forward pass of the layer is recomputed
  Offload, // nothing is recomputed: activations are copied to the host's memory and back
};
/// The way in which the mesh axis "model" (tensor parallelism) shards the operators of a layer.
enum class OpLayout {
  Megatron, // Megatron-LM's: a column-parallel product, then a row-parallel one; embedding and loss cut by vocabulary
  Solved,   // a separate sharding for each operator, which a search has chosen
};
/// The implementation of attention: one fused kernel (FlashAttention), or separate kernels that write the scores.
enum class AttentionKernels { Fused, Unfused };
/// The algorithm of context parallelism: how attention runs when the mesh axis "context" cuts the sequence.
enum class ContextStyle {
  Ring,    // queries stay; blocks of keys and values travel around a ring of all ranks (Liu et al. 2023)
  Ulysses, // all-to-alls exchange the cut of the sequence for a cut of the heads, and back (Jacobs et al. 2023)
};
/// How Adam's states of parameters with 16 bits are kept: the master weight and the two moments of each element.
enum class OptimizerStates {
  Device,     // all in f32 on the device
  Remainders, // of a master weight only the 16 bits that the bf16 weight lacks, moments in f32; the same numbers
  Bf16,       // master weights as remainders, moments in bf16
  Host,       // all in f32 in the host's memory, where the host updates them
};

/// The plan.json words of the enumeration `Choice`, in the order of its values. Specialized for each enumeration above.
template <typename Choice> struct PlanWords;
template <> struct PlanWords<Recompute> {
  static constexpr std::array<std::string_view, 6> words = {"none", "selective", "pointwise", "except-attention",
                                                            "full", "offload"};
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
template <> struct PlanWords<OptimizerStates> {
  static constexpr std::array<std::string_view, 4> words = {"device", "remainders", "bf16", "host"};
};

/// Returns whether training with states kept so computes the numbers that it computes with OptimizerStates::Device.
constexpr bool keepsNumbers(OptimizerStates states) { return states != OptimizerStates::Bf16; }

/// Returns the word of `choice` in plan.json, for example "selective" for Recompute::Selective.
template <typename Choice>
  requires requires { PlanWords<Choice>::words; }
constexpr std::string_view toString(Choice choice) {
  return PlanWords<Choice>::words[static_cast<size_t>(choice)];
}
/// Returns the value of the enumeration `Choice` that has the plan.json word `word`, or nothing if no value has it.
template <typename Choice> constexpr std::optional<Choice> parsePlanWord(std::string_view word) {
  const auto &words = PlanWords<Choice>::words;
  auto found = std::find(words.begin(), words.end(), word);
  return found == words.end() ? std::nullopt : std::optional(static_cast<Choice>(found - words.begin()));
}

} // namespace kerf
