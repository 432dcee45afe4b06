// SPDX-License-Identifier: Apache-2.0

// Sizes and forms of a transformer, as names and numbers that other trainers take as arguments. readModelSizes
// (kerf/Frontend/ReadSizes.h) fills them from a config.json.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kerf {

/// The dimension along which Megatron-LM shards a parameter over its tensor-parallel ranks. Heads and the elements of a
/// head are separate dimensions.
struct MegatronSharding {
  /// Dimension of the parameter that is sharded.
  enum class Dimension {
    First,    // the first: embedding tables and output heads, sharded by vocabulary
    NotFirst, // any but the first: column-parallel weights [in, out], row-parallel weights [out, in]
    NotLast,  // any but the last: column-parallel weights [out, in], row-parallel weights [in, out]
    Any,      // any: biases of column-parallel products
  };
  std::string pattern; // glob that matches the parameter's name
  Dimension dimension = Dimension::First;
};

/// Sizes and forms of a transformer model. Widths and sizes are numbers of elements.
struct ModelSizes {
  std::string family;        // model_type of config.json; "": nothing is known (ONNX or kerf IR), and all else is empty
  std::string task;          // what the model is trained for: "causal", "masked", "image", "sequence-to-sequence"
  int64_t layers = 0;        // number of layers; in an encoder-decoder model, of the encoder's layers
  int64_t decoderLayers = 0; // number of the decoder's layers in an encoder-decoder model; otherwise 0
  int64_t hidden = 0;        // hidden size
  int64_t heads = 0;         // number of attention heads (query heads)
  int64_t keyValueHeads = 0; // number of key/value heads; equal to `heads` without grouped-query attention
  int64_t headSize = 0;      // size of a query head
  int64_t mlpWidth = 0;      // width of the MLP that all tokens take; 0: there is none
  int64_t vocabulary = 0;    // number of tokens in the vocabulary
  int64_t positions = 0;     // longest sequence that the model supports
  int64_t sequence = 0;      // length of the training sequences
  std::string norm;          // kind of the norms: "layer", "rms", "rms-plus-one" (the scale is 1 + weight)
  double epsilon = 0;        // number that the norms add to the variance or mean square
  std::string activation;    // activation of the MLP: "gelu", "gelu-tanh", "relu", "silu"
  bool gated = false;        // true if the activation's result is multiplied by a second product (GLU)
  std::string position;      // kind of position embedding: "learned", "rotary", "alibi", "relative"
  double rotaryBase = 0;     // base of rotary positions, e.g. 10000
  double rotaryFraction = 1; // share of a head's elements that are rotated
  std::string rotaryScaling; // scaling of rotary positions for long sequences: "" (none), "linear", "llama3", "yarn"
  double rotaryFactor = 1;   // factor of the rotary scaling
  // Further numbers of the scaling, which apply to the kind named in brackets.
  double rotaryPositions = 0;             // sequence length before the scaling (llama3, yarn)
  double rotaryLow = 1, rotaryHigh = 4;   // factors of low and of high frequencies (llama3)
  double rotaryFast = 32, rotarySlow = 1; // rotations above which a frequency is kept, below which it is divided (yarn)
  double rotaryScale = 0, rotaryScaleAll = 0; // weights mscale and mscale_all_dim of the scale of attention (yarn)
  double rotaryAttention = 1;                 // factor of the cosines and sines (yarn)
  bool rotaryRounds = true; // true if the range of frequencies that are divided in part has whole ends
  int64_t window = 0;       // number of tokens that a token attends to, itself included; 0: all before
  /// Place of the norms and branches in a layer: "pre" or "post" (norm before or after each branch), "parallel"
  /// (attention and MLP side by side), "parallel-shared" (side by side, with one norm for both).
  std::string residual;
  bool queryKeyValueBias = false; // true if the query, key and value projections have biases
  bool outputBias = false;        // true if the output projection of attention has a bias
  bool mlpBias = false;           // true if the products of the MLP have biases
  std::string queryKeyNorm;       // norm of queries and keys: "" (none), "each-head", "all-heads"
  bool tiedEmbeddings = false;    // true if the output head shares the embedding's weight
  bool embeddingNorm = false;     // true if a norm follows the embedding
  bool scaledEmbedding = false;   // true if the embedding is multiplied by the square root of the hidden size
  int64_t queryLatent = 0;        // rank of the queries in multi-head latent attention; 0: not compressed
  int64_t keyValueLatent = 0;     // rank of keys and values in multi-head latent attention; 0: no latent attention
  int64_t valueSize = 0;          // size of a value head in latent attention
  int64_t rotaryHeadSize = 0;     // number of elements of a query head that are rotated
  int64_t experts = 0;            // number of experts; 0: one MLP for all tokens
  int64_t expertsPerToken = 0;    // number of experts that the router chooses for a token (top k)
  int64_t expertWidth = 0;        // width of an expert's MLP
  int64_t denseLayers = 0;        // number of first layers without experts
  int64_t sharedExpertWidth = 0;  // width of the MLP that all tokens take beside the experts; 0: there is none
  bool sharedExpertGate = false;  // true if the shared expert's result is multiplied by a gate for each token
  bool normalizedExpertWeights = false; // true if the weights of a token's experts are normalized to a sum of 1
  std::string router;                   // function of the router's scores: "softmax", "corrected-sigmoid"
  int64_t expertGroups = 1;             // number of groups of experts for group-limited routing; 1: no groups
  int64_t groupsPerToken = 1;           // number of groups from which a token's experts are chosen
  double routedScale = 1;               // factor of the routed experts' result
  bool dropout = false;                 // true if the configuration has a dropout probability above 0
  /// Parameters that Megatron-LM shards; all others are replicated. Empty: not known for this model.
  std::vector<MegatronSharding> cuts;

  /// Returns true if the sizes are known.
  bool known() const { return !family.empty(); }
};

} // namespace kerf
