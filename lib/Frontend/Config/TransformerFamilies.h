// SPDX-License-Identifier: Apache-2.0
// Families of Hugging Face models: the type of a row of the table in TransformerFamilies.cpp, and readers of keys that
// several rows share.
#pragma once

#include "Config/TransformerModel.h"

namespace kerf::frontend {

// The largest sizes that a configuration may have; larger values are taken for damaged files.
inline constexpr int64_t kMaxSize = int64_t(1) << 30; // of a width or a vocabulary, in elements
inline constexpr int64_t kMaxLayers = 1024;           // layers
inline constexpr int64_t kMaxExperts = 1 << 14;       // experts of a layer
inline constexpr int64_t kMaxHeadSize = 2048;         // elements of an attention head

/// A family of models: the keys of its configuration, and its structure.
struct Family {
  const char *modelType = "";    // value of model_type in config.json, such as "llama"
  const char *architecture = ""; // the class of Hugging Face Transformers that is imported, such as "LlamaForCausalLM"

  /// A key with an integer value. `names` are the names of the key, separated by '|'; if there are none, the value is
  /// always the default.
  struct Count {
    const char *names = "";
    std::optional<int64_t> fallback; // default; absent: derived from other sizes
  };
  /// A key with a number as its value; `names` and `fallback` as for Count.
  struct Number {
    const char *names = "";
    double fallback = 0;
  };
  /// A key with a text as its value; `names` and `fallback` as for Count.
  struct Text {
    const char *names = "", *fallback = "";
  };
  /// The keys that every family has, with the defaults of its configuration class.
  struct Keys {
    Count layers, hidden, heads;
    Count groups;   // default: heads
    Count headSize; // default: hidden / heads
    Count inner;    // default: 4 * hidden
    Count vocabulary, maxPositions;
    Number epsilon;
    Text activation;
    bool tiedHead = false; // default of tie_word_embeddings
  } keys;

  /// Keys with the only value that is supported; another value is an error.
  std::vector<std::pair<const char *, nlohmann::json>> fixed;
  TransformerModel model; // the structure of the family, without sizes
  /// Reads the remaining keys of the family into `model`; null: there are none.
  void (*refine)(ConfigReader &config, TransformerModel &model, const StepSize &step) = nullptr;
};

/// A family that is not supported, with the reason.
struct RefusedFamily {
  const char *modelType; // value of model_type in config.json
  const char *missing;   // the feature that Kerf lacks
};

/// Returns the supported families.
const std::vector<Family> &families();
/// Returns well-known families that are not supported.
const std::vector<RefusedFamily> &refusedFamilies();

/// Returns the supported families whose layers have experts (MixtureFamilies.cpp).
std::vector<Family> mixtureFamilies();
/// Returns the module names of LLaMA.
ModuleNames decoderNames();
/// Returns a family with the structure of LLaMA: RMS norms, rotary position embeddings, a gated MLP, and no biases.
Family llamaLike(const char *modelType, const char *architecture);

/// Sets the activation of the model to `name`, the value of the key `key`. Stores an error in `config` for an unknown
/// name.
void setActivation(ConfigReader &config, TransformerModel &model, const std::string &key, const std::string &name);

/// The names and defaults of the keys of rotary position embeddings.
struct RotaryKeys {
  const char *base = "rope_theta", *fraction = "partial_rotary_factor";
  double fractionDefault = 1, baseDefault = 10000;
};
/// Reads rotary position embeddings: rope_parameters (Transformers 5), or rope_scaling and the keys beside it.
void readRotary(ConfigReader &config, TransformerModel &model, const StepSize &step, const RotaryKeys &keys);
/// Returns YaRN's factor for the cosines and sines of positions stretched by `factor`, 0.1 * weight * ln(factor) + 1
/// (Peng et al. 2023, section 3.4).
double yarnScale(double factor, double weight);

/// The defaults of the keys of sliding-window attention.
struct WindowKeys {
  std::optional<int64_t> window; // default of sliding_window in tokens; absent: no window
  int64_t firstLayer;            // default of max_window_layers, the first layer with a window
};
/// Reads sliding_window, which must apply to all layers or to none. Sets no window when the sequence of `step` is not
/// longer than the window.
void readWindow(ConfigReader &config, TransformerModel &model, const StepSize &step, const WindowKeys &keys);

/// The keys of a mixture of experts.
struct ExpertKeys {
  Family::Count experts; // number of experts
  Family::Count inner;   // width of an expert's MLP
  Family::Count choices; // number of experts that each token is routed to
};
/// Reads the sizes of the experts, and sets the capacity of each expert that `step` asks for.
void readExperts(ConfigReader &config, TransformerModel &model, const StepSize &step, const ExpertKeys &keys);

} // namespace kerf::frontend
