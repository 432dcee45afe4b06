// SPDX-License-Identifier: Apache-2.0
// What a family of models is: a row of the table in TransformerFamilies.cpp, and the readers that several rows share.
#pragma once

#include "Config/TransformerModel.h"

namespace kerf::frontend {

inline constexpr int64_t kMostSize = int64_t(1) << 30; // of a width, a vocabulary
inline constexpr int64_t kMostLayers = 1024;
inline constexpr int64_t kMostExperts = 1 << 14, kMostHeadSize = 2048;

struct Family {
  const char *modelType = "";    // as config.json has it
  const char *architecture = ""; // of Transformers' classes, the one that is built

  /// The keys of what every family has, with the defaults of its configuration class. No names: the default always.
  struct Count {
    const char *names = "";
    std::optional<int64_t> otherwise; // nothing: derived from other sizes
  };
  struct Number {
    const char *names = "";
    double otherwise = 0;
  };
  struct Text {
    const char *names = "", *otherwise = "";
  };
  struct Keys {
    Count layers, hidden, heads;
    Count groups;   // derived: heads
    Count headSize; // derived: hidden / heads
    Count inner;    // derived: 4 * hidden
    Count vocabulary, maxPositions;
    Number epsilon;
    Text activation;
    bool tiedHead = false; // default of tie_word_embeddings
  } keys;

  /// Keys that may only have this value: another one asks for something that is not supported.
  std::vector<std::pair<const char *, nlohmann::json>> fixed;
  TransformerModel model; // without its sizes
  /// Reads the rest of the keys. Null: there is no rest.
  void (*refine)(ConfigReader &config, TransformerModel &model, const StepSize &step) = nullptr;
};

struct RefusedFamily {
  const char *modelType, *missing;
};

const std::vector<Family> &families();
/// Families that many will ask for, and what is missing for them.
const std::vector<RefusedFamily> &refusedFamilies();

/// Those of the table whose layers have experts (MixtureFamilies.cpp).
std::vector<Family> mixtureFamilies();
/// The names of LLaMA's modules.
ModuleNames decoderNames();
/// LLaMA and its many descendants: RMS norms, rotary positions, a gated MLP, no biases.
Family llamaLike(const char *modelType, const char *architecture);

/// The activation of that name, which `key` has.
void setActivation(ConfigReader &config, TransformerModel &model, const std::string &key, const std::string &name);

struct RotaryKeys {
  const char *base = "rope_theta", *fraction = "partial_rotary_factor";
  double fractionOtherwise = 1, baseOtherwise = 10000;
};
/// Rotary positions: rope_parameters (Transformers 5), or rope_scaling and the keys beside it.
void readRotary(ConfigReader &config, TransformerModel &model, const StepSize &step, const RotaryKeys &keys);
/// YaRN's scale of what positions turn, where they are stretched by `factor` (Peng et al. 2023, section 3.4).
double yarnScale(double factor, double weight);

/// Defaults of sliding_window (nothing: none) and of max_window_layers, the first layer that has it.
struct WindowKeys {
  std::optional<int64_t> window;
  int64_t firstLayer;
};
/// sliding_window, in all layers or in none. Nothing where the sequence is inside the window.
void readWindow(ConfigReader &config, TransformerModel &model, const StepSize &step, const WindowKeys &keys);

/// Experts: their number and width under the family's keys, how many a token takes, and the slots that `step` asks for.
struct ExpertKeys {
  Family::Count experts, inner, choices;
};
void readExperts(ConfigReader &config, TransformerModel &model, const StepSize &step, const ExpertKeys &keys);

} // namespace kerf::frontend
