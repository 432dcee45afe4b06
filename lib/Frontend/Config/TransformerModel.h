// SPDX-License-Identifier: Apache-2.0
// A transformer as plain data: its sizes, its structure, and the names of its parameters in Hugging Face checkpoints. A
// family of models (TransformerFamilies.cpp) is one such record together with the configuration keys that fill it.
// TransformerImport.cpp and TransformerLayer.cpp write a record as IR.
#pragma once

#include "Config/ConfigReader.h"
#include "kerf/Frontend/Import.h"

namespace kerf::frontend {

/// The objective for which a model is trained.
enum class TrainingObjective {
  CausalLm,            // next-token prediction; the loss shifts the labels by one token, as in Hugging Face's models
  MaskedLm,            // prediction of masked tokens; labels are -100 except at masked positions
  ImageClassification, // one label for each image, predicted from the first token (the class token)
  SequenceToSequence,  // encoder and decoder; the decoder reads the labels shifted by one token
};
/// The kind of normalization.
enum class NormKind {
  Layer,
  Rms,
  RmsPlusOne, // RMS norm whose scale is 1 + weight
};
/// The encoding of token positions.
enum class PositionKind {
  Learned,
  Rotary,
  Alibi,
  RelativeBias, // T5: a trained number for each head and bucket of distances, added to the scores
};
/// The place of attention `a`, MLP `f` and the norms `n` and `m` in a layer with the residual stream `x`.
enum class ResidualForm {
  PreNorm,            // y = x + a(n(x)); y + f(m(y))
  PostNorm,           // y = n(x + a(x)); m(y + f(y))
  Parallel,           // x + a(n(x)) + f(m(x))
  ParallelSharedNorm, // x + a(n(x)) + f(n(x))
};
/// The form of the weights of queries, keys and values. H heads and G key/value heads have D elements each.
enum class ProjectionForm {
  Separate, // three weights [H, D], [G, D], [G, D]
  Stacked,  // one weight [3, H, D]; G = H
  Grouped,  // one weight [G, H / G + 2, D]: the queries of each group, then its key and its value
  Latent,   // multi-head latent attention (DeepSeek-V2): a product to a latent vector, a norm, and a product to the
          // heads, for keys and values (with a rotated part of the key that all heads share), and for queries or [H, D]
};
/// The dimensions over which queries and keys are normalized.
enum class HeadNorm { None, EachHead, AllHeads };
/// The scores by which the experts of a token are chosen and their results are weighted.
enum class Router {
  Softmax,
  CorrectedSigmoid, // chosen by the sigmoid plus a bias of each expert that gradients do not train (Wang et al. 2024);
                    // weighted by the sigmoid
};
/// The activation function of an MLP.
enum class Activation { Gelu, GeluTanh, Relu, Silu };
/// The order of the dimensions of a linear layer's weight.
enum class WeightLayout {
  OutIn, // [out, in], as in nn.Linear
  InOut, // [in, out], as in GPT-2's Conv1D
};

/// The names of modules in a checkpoint: full names for modules of the model, and names within the layer for modules of
/// a layer. A parameter is called MODULE.weight or MODULE.bias. "" stands for a module that the model does not have.
struct ModuleNames {
  std::string tokens, positions, tokenTypes, embeddingNorm;
  std::string layers; // prefix of layers: layer k is "LAYERS.k"
  std::string attention, fused, query, key, value, queryNorm, keyNorm, output, attentionNorm, mlpNorm;
  std::string queryLatent,
      keyValueLatent; // products to the latent vectors; `query` and `key` are the products after the norms
  std::string gate, up, down;
  std::string router, experts, sharedExpert,
      sharedGate; // without `sharedGate`, the result of the shared expert is added unweighted
  std::string expertGate, expertUp, expertDown; // names within an expert
  std::string crossNorm, crossAttention, crossQuery, crossKey, crossValue,
      crossOutput;          // attention on the encoder's result
  std::string relativeBias; // a module of the model, not of a layer
  std::string finalNorm, head;
  std::string headTransform, headNorm, headBias; // masked LM: a dense layer and a norm before the head, and its bias
  std::string patches, classToken;               // image models; `classToken` is a parameter
};

/// A transformer: structure, sizes and names.
struct TransformerModel {
  TrainingObjective objective = TrainingObjective::CausalLm;
  ModuleNames names;          // names of the model, or of its encoder
  ModuleNames decoder;        // names of the decoder's layers, relative bias and final norm
  std::string optionalPrefix; // prefix of all names that checkpoints of the model without its head lack

  int64_t layers = 0, decoderLayers = 0; // decoderLayers is 0 in a model without a decoder
  int64_t hidden = 0;                    // width of the residual stream
  int64_t heads = 0, groups = 0;         // query heads, and key/value heads
  int64_t headSize = 0, inner = 0;       // elements of a head; width of the MLP
  int64_t vocabulary = 0, maxPositions = 0;
  int64_t tokenTypes = 0;                                          // masked LM: rows of the table of token types
  int64_t imageSize = 0, patchSize = 0, channels = 0, classes = 0; // image models; sizes in pixels

  NormKind norm = NormKind::Layer;
  double epsilon = 0;
  /// Whether the configuration applies dropout to attention weights, to the results of attention and MLP, and to
  /// embeddings.
  bool dropsAttention = false, dropsResidual = false, dropsEmbedding = false;
  bool finalNorm = true, embeddingNorm = false;
  HeadNorm queryKeyNorm = HeadNorm::None;

  int64_t valueSize = 0;                   // elements of a head's value; headSize then is the size of its query and key
  int64_t queryRank = 0, keyValueRank = 0; // elements of the latent vectors; queryRank 0: queries have none

  PositionKind position = PositionKind::Learned;
  int64_t positionOffset = 0;            // rows of the position table before the row of position 0
  std::vector<double> rotaryFrequencies; // radians per position for each pair of rotated elements
  double rotaryScale = 1;                // factor of cosines and sines
  bool rotaryPairs = false;              // true: rotated pairs are adjacent; false: they are in two halves
  int64_t window = 0; // a token sees itself and the window - 1 tokens before it; 0: all tokens before it

  int64_t buckets = 0;  // relative bias: number of buckets
  int64_t farthest = 0; // relative bias: distance from which all pairs share the last bucket

  ResidualForm residual = ResidualForm::PreNorm;
  ProjectionForm projection = ProjectionForm::Separate;
  WeightLayout layout = WeightLayout::OutIn;
  bool queryKeyValueBias = false, outputBias = false, mlpBias = false, headBias = false;
  bool gated = false; // whether the activation's result is multiplied by a second product (gated MLP)
  Activation activation = Activation::Gelu;
  int64_t experts = 0;     // experts of a layer; 0: one MLP for all tokens
  int64_t choices = 0;     // experts to which each token is routed
  int64_t expertInner = 0; // width of an expert, which is a gated MLP
  int64_t slots = 0;       // capacity of an expert: tokens of each sample
  int64_t denseLayers = 0; // the first layers, which have an MLP of width `inner` instead of experts
  Router router = Router::Softmax;
  int64_t expertGroups = 1,
          chosenGroups = 1;     // number of expert groups, and of groups from which a token's experts are chosen
  double routedScale = 1;       // factor of the weights of a token's experts
  bool choicesAddToOne = false; // whether the weights of a token's experts are normalized to sum 1 before scaling
  int64_t sharedInner = 0;      // width of the shared expert, an MLP for all tokens; 0: none
  bool scaledEmbedding = false; // whether embeddings are multiplied by sqrt(hidden)
  bool tiedHead = false;        // whether the head's weight is the token table
  bool scaledHead = false;      // whether the head's input is multiplied by 1 / sqrt(hidden)
  bool scaledAttention = true;  // whether scores are multiplied by 1 / sqrt(headSize)
  double scoreScale = 1;        // additional factor of scores
  int64_t startToken = 0, paddingToken = 0; // tokens that the decoder reads at the start and for padding
};

/// The requested size of one step.
struct StepSize {
  int64_t batch = 0, sequence = 0;       // samples, and tokens of a sample; 0: the default
  double expertCapacity = kExactExperts; // capacity of experts (ImportOptions::expertCapacity)
};

/// Returns the capacity of an expert: the tokens of each sample for which it has slots.
int64_t slotsPerExpert(const TransformerModel &model, const StepSize &step);

/// Reads the model of a configuration and checks that its sizes are positive and consistent. Fills in the defaults of
/// `step`. Appends warnings on parts of the configuration that are ignored because they do not affect a training step.
/// Fails for unsupported families and values.
Result<TransformerModel> modelFromConfig(const ModelSource &source, StepSize &step, std::vector<std::string> &warnings);

} // namespace kerf::frontend
