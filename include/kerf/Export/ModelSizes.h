// SPDX-License-Identifier: Apache-2.0
// What other trainers want to be told of a transformer: its sizes and forms, as words and numbers. The reader of
// config.json fills it (kerf/Frontend/ReadSizes.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kerf {

/// Which dimension of a parameter Megatron-LM cuts over its tensor ranks. Heads and their elements are dimensions of
/// their own.
struct MegatronCut {
  enum class Where {
    First,    // tables and heads of words: the vocabulary
    NotFirst, // products on the way in of [in, out]; on the way out of [out, in]
    NotLast,  // products on the way in of [out, in]; on the way out of [in, out]
    Any,      // biases of products on the way in
  };
  std::string pattern; // glob on the parameter's name
  Where where = Where::First;
};

struct ModelSizes {
  std::string family; // model_type of config.json; "": nothing below is known (an export, kerf IR)
  std::string task;   // "causal", "masked", "image", "sequence-to-sequence"
  int64_t layers = 0; // of the encoder, where there is a decoder after it
  int64_t decoderLayers = 0;
  int64_t hidden = 0, heads = 0, groups = 0, headSize = 0; // groups: key/value heads
  int64_t inner = 0;                                       // width of the MLP that all tokens take; 0: there is none
  int64_t vocabulary = 0, positions = 0, sequence = 0;     // positions: the most that the model has
  std::string norm;                                        // "layer", "rms", "rms-plus-one" (the scale is 1 + weight)
  double epsilon = 0;
  std::string activation; // "gelu", "gelu-tanh", "relu", "silu"
  bool gated = false;     // its result times a second product
  std::string position;   // "learned", "rotary", "alibi", "relative"
  double rotaryBase = 0, rotaryFraction = 1;
  std::string rotaryScaling; // "", "linear", "llama3", "yarn"
  double rotaryFactor = 1;   // of the scaling
  int64_t window = 0;        // tokens that a token sees, itself included; 0: all before it
  std::string residual;      // "pre", "post", "parallel", "parallel-shared"
  bool queryKeyValueBias = false, outputBias = false, mlpBias = false;
  std::string queryKeyNorm; // "", "each-head", "all-heads"
  bool tiedEmbeddings = false, embeddingNorm = false, scaledEmbedding = false;
  /// Latent attention; keyValueLatent 0: there is none. Of headSize elements of a query `rotated` carry the position.
  int64_t queryLatent = 0, keyValueLatent = 0, valueSize = 0, rotated = 0;
  int64_t experts = 0, choices = 0, expertInner = 0; // experts 0: one MLP for all tokens
  int64_t denseLayers = 0;                           // the first ones, without experts
  int64_t sharedInner = 0;                           // width of the MLP beside the experts; 0: none
  bool sharedGate = false;                           // whose result each token multiplies by a number of its own
  bool choicesAddToOne = false;
  std::string router; // "softmax", "corrected-sigmoid"
  int64_t expertGroups = 1, chosenGroups = 1;
  double routedScale = 1;
  bool dropout = false;          // the configuration has one above 0
  std::vector<MegatronCut> cuts; // all other parameters are whole; empty: not known

  bool known() const { return !family.empty(); }
};

} // namespace kerf
