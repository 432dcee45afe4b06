// SPDX-License-Identifier: Apache-2.0
// Reads the keys of rotary position embeddings, and changes the frequencies of models whose context was extended
// (modeling_rope_utils.py of Transformers).
#include "Config/TransformerFamilies.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <numbers>

namespace kerf::frontend {

double yarnScale(double factor, double weight) { return factor <= 1 ? 1 : 0.1 * weight * std::log(factor) + 1; }

/// Applies YaRN (Peng et al. 2023). Frequencies with fewer than `beta_slow` rotations over the original context are
/// divided by `factor`, those with more than `beta_fast` rotations are kept, and a ramp blends the frequencies between
/// them.
static void stretchAsYarn(ConfigReader &section, double base, TransformerModel &m) {
  double original = section.number("original_max_position_embeddings", double(m.maxPositions), 0);
  double factor = section.number("factor", double(m.maxPositions) / original, 0);
  double fast = section.number("beta_fast", 32, 0), slow = section.number("beta_slow", 1, 0);
  double ofPositions = section.number("mscale", 0, -1), ofAll = section.number("mscale_all_dim", 0, -1);
  double usual =
      ofPositions != 0 && ofAll != 0 ? yarnScale(factor, ofPositions) / yarnScale(factor, ofAll) : yarnScale(factor, 1);
  m.rotaryScale = section.number("attention_factor", usual, 0);
  if (fast < slow)
    return section.fail(fmt::format("rope_parameters: beta_fast {} is below beta_slow {}", fast, slow));
  if (base <= 1)
    return section.fail(fmt::format("rope_theta is {}, but rope_type 'yarn' needs a number above 1", base));
  double rotated = 2 * double(m.rotaryFrequencies.size());
  auto pairThatTurns = [&](double times) {
    return rotated * std::log(original / (times * 2 * std::numbers::pi)) / (2 * std::log(base));
  };
  double low = pairThatTurns(fast), high = pairThatTurns(slow);
  if (section.flag("truncate", true)) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, rotated - 1);
  if (low == high)
    high += 0.001; // avoids a division by zero
  for (size_t i = 0; i < m.rotaryFrequencies.size(); ++i) {
    double stretched = std::clamp((double(i) - low) / (high - low), 0.0, 1.0);
    m.rotaryFrequencies[i] *= stretched / factor + 1 - stretched;
  }
}

void readRotary(ConfigReader &config, TransformerModel &m, const StepSize &step, const RotaryKeys &keys) {
  std::optional<ConfigReader> section = config.section("rope_parameters|rope_scaling");
  // Older configurations have the base and the fraction outside of the section.
  double base = config.number(keys.base, keys.baseDefault, 0),
         fraction = config.number(keys.fraction, keys.fractionDefault, 0);
  std::string type = "default";
  if (section) {
    base = section->number("rope_theta", base, 0);
    fraction = section->number("partial_rotary_factor", fraction, 0);
    type = section->text("rope_type|type", "default");
  }
  if (fraction > 1)
    return config.fail(fmt::format("{} is {}, but at most the whole head (1) can be rotated", keys.fraction, fraction));
  int64_t rotated = int64_t(double(m.headSize) * fraction);
  if (rotated < 2 || rotated % 2 != 0)
    return config.fail(
        fmt::format("{} of a head's {} elements are rotated, but an even number is needed", rotated, m.headSize));
  for (int64_t i = 0; i < rotated; i += 2)
    m.rotaryFrequencies.push_back(std::pow(base, -double(i) / double(rotated)));
  if (type == "linear") {
    double factor = section->number("factor", 1, 0);
    for (double &frequency : m.rotaryFrequencies)
      frequency /= factor;
  } else if (type == "llama3") {
    // Llama 3.1: low frequencies are divided by `factor`, high ones are kept, and those between are blended
    // (modeling_rope_utils.py of Transformers).
    double factor = section->number("factor", 8, 0), low = section->number("low_freq_factor", 1, 0),
           high = section->number("high_freq_factor", 4, 0);
    double original = section->number("original_max_position_embeddings", 8192, 0);
    if (high <= low)
      return config.fail(
          fmt::format("rope_parameters: high_freq_factor {} is not above low_freq_factor {}", high, low));
    for (double &frequency : m.rotaryFrequencies) {
      double wave = 2 * std::numbers::pi / frequency;
      double kept = std::clamp((original / wave - low) / (high - low), 0.0, 1.0);
      frequency = (1 - kept) * frequency / factor + kept * frequency;
    }
  } else if (type == "yarn") {
    stretchAsYarn(*section, base, m);
  } else if (type == "dynamic" && step.sequence > m.maxPositions) {
    return config.fail(fmt::format("rope_type 'dynamic' is supported up to max_position_embeddings, which is {}, but "
                                   "<sequence> is {}; give a shorter <sequence>",
                                   m.maxPositions, step.sequence));
  } else if (type != "default" && type != "dynamic") {
    return config.fail(
        fmt::format("rope_type '{}' is not supported; supported are default, linear, dynamic, llama3 and yarn", type));
  }
  for (double &frequency : m.rotaryFrequencies)
    frequency = float(frequency); // Transformers stores frequencies in float32, whatever the type of the model
}

} // namespace kerf::frontend
