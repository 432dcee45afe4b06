// SPDX-License-Identifier: Apache-2.0
// A transformer as plain data: its sizes, its choices among the forms that are in use, and the names of its parameters
// in Hugging Face's checkpoints. A family of models (TransformerFamilies.cpp) is one such record with the keys that
// fill it; TransformerImport.cpp and TransformerLayer.cpp write every record as IR.
#pragma once

#include "Config/ConfigReader.h"
#include "kerf/Frontend/Import.h"

namespace kerf::frontend {

enum class Task {
  CausalLm,            // each token's label is the next one; the loss shifts the labels, as Hugging Face's models do
  MaskedLm,            // labels are -100 but at the masked positions
  ImageClassification, // one label a picture, from the first (class) token
  SequenceToSequence,  // encoder and decoder; the decoder reads the labels, one token late
};
enum class NormKind {
  Layer,
  Rms,
  RmsPlusOne, // the scale is 1 + weight
};
enum class PositionKind {
  Learned,
  Rotary,
  Alibi,
  RelativeBias, // a trained number for each head and bucket of distances is added to the scores
};
/// How attention a and MLP f stand in the residual stream x; n, m are norms.
enum class ResidualForm {
  PreNorm,            // y = x + a(n(x)); y + f(m(y))
  PostNorm,           // y = n(x + a(x)); m(y + f(y))
  Parallel,           // x + a(n(x)) + f(m(x))
  ParallelSharedNorm, // x + a(n(x)) + f(n(x))
};
/// How the weights of queries, keys and values lie. H heads, G key/value heads, D elements each.
enum class ProjectionForm {
  Separate, // [H, D], [G, D], [G, D]
  Stacked,  // one of [3, H, D]; G = H
  Grouped,  // one of [G, H / G + 2, D]: after the queries of each group, its key and its value
  Latent,   // two products, with a norm of the latent between them: one for keys and values of all heads, beside which
            // lies the rotated part of the key, one for all heads; and one for queries, or [H, D]
};
/// What the norms of queries and keys are over.
enum class HeadNorm { None, EachHead, AllHeads };
/// What a token's experts are chosen by, and the weights of their results.
enum class Router {
  Softmax,
  CorrectedSigmoid, // chosen by the sigmoid and a number of each expert that is not trained by gradients (Wang et al.
                    // 2024); weighted by the sigmoid
};
enum class Activation { Gelu, GeluTanh, Relu, Silu };
enum class WeightLayout {
  OutIn, // nn.Linear
  InOut, // GPT-2's Conv1D
};

/// Names of modules: of the model from its root, of a layer within it. A parameter is MODULE.weight or MODULE.bias.
struct ModuleNames {
  std::string tokens, positions, tokenTypes, embeddingNorm;
  std::string layers; // layer k is "LAYERS.k"
  std::string attention, fused, query, key, value, queryNorm, keyNorm, output, attentionNorm, mlpNorm;
  std::string queryLatent, keyValueLatent; // the products before the norms; `query` and `key` come after them
  std::string gate, up, down;
  std::string router, experts, sharedExpert, sharedGate; // no name of the gate: what the shared expert makes is added
  std::string expertGate, expertUp, expertDown; // in a checkpoint, after the expert's number or the shared expert
  std::string crossNorm, crossAttention, crossQuery, crossKey, crossValue, crossOutput; // on the encoder's result
  std::string relativeBias;                                                             // of the model, not of a layer
  std::string finalNorm, head;
  std::string headTransform, headNorm, headBias; // masked LM: a dense layer, a norm, and a parameter of its own
  std::string patches, classToken;               // images; the class token is a parameter
};

struct TransformerModel {
  Task task = Task::CausalLm;
  ModuleNames names;          // of the encoder, where there is a decoder after it
  ModuleNames decoder;        // its layers, bias and final norm
  std::string optionalPrefix; // checkpoints of the model without its head leave this out of every name

  int64_t layers = 0, decoderLayers = 0, hidden = 0, heads = 0, groups = 0, headSize = 0, inner = 0, vocabulary = 0,
          maxPositions = 0;
  int64_t tokenTypes = 0;                                          // masked LM: rows of that table
  int64_t imageSize = 0, patchSize = 0, channels = 0, classes = 0; // images

  NormKind norm = NormKind::Layer;
  double epsilon = 0;
  bool dropsAttention = false, dropsResidual = false, dropsEmbedding = false; // in training, with some probability
  bool finalNorm = true, embeddingNorm = false;
  HeadNorm queryKeyNorm = HeadNorm::None;

  int64_t valueSize = 0;                   // elements of a head's value; headSize: of its query and its key
  int64_t queryRank = 0, keyValueRank = 0; // elements of the latents; 0: queries have none

  PositionKind position = PositionKind::Learned;
  int64_t positionOffset = 0;            // rows of the table of positions before the first
  std::vector<double> rotaryFrequencies; // radians a position, for each pair of rotated elements
  double rotaryScale = 1;                // of cosines and sines
  bool rotaryPairs = false;              // pairs lie side by side, not in two halves
  int64_t window = 0;                    // a token sees itself and the window - 1 before it; 0: all before it

  int64_t buckets = 0, farthest = 0; // relative bias: buckets, and the distance from which on all are in the last

  ResidualForm residual = ResidualForm::PreNorm;
  ProjectionForm projection = ProjectionForm::Separate;
  WeightLayout layout = WeightLayout::OutIn;
  bool queryKeyValueBias = false, outputBias = false, mlpBias = false, headBias = false;
  bool gated = false; // the activation's result times a second product
  Activation activation = Activation::Gelu;
  /// 0: one MLP for all tokens. Else each token takes `choices` of the experts, gated MLPs of width `expertInner`, and
  /// an expert has `slots` for each sample.
  int64_t experts = 0, choices = 0, expertInner = 0, slots = 0;
  int64_t denseLayers = 0; // the first ones, which have an MLP of width `inner` in the place of experts
  Router router = Router::Softmax;
  int64_t expertGroups = 1, chosenGroups = 1; // a token's experts are of so many groups
  double routedScale = 1;                     // of the weights of a token's choices
  bool choicesAddToOne = false;               // before they are scaled
  int64_t sharedInner = 0;                    // 0: none. The width of an MLP for all tokens beside the experts
  bool scaledEmbedding = false;               // by the square root of the hidden size
  bool tiedHead = false;                      // the head's weight is the table of tokens
  bool scaledHead = false;                    // what the head takes, by 1 / the square root of the hidden size
  bool scaledAttention = true;                // scores, by 1 / the square root of a head's size
  double scoreScale = 1;                      // of scores besides
  int64_t startToken = 0, paddingToken = 0;   // of what the decoder reads
};

/// The size of one step, as asked for.
struct StepSize {
  int64_t batch = 0, sequence = 0;       // 0: the default
  double expertCapacity = kExactExperts; // as in ImportOptions
};

/// Slots that an expert has for each sample of the step.
int64_t slotsOf(const TransformerModel &model, const StepSize &step);

/// The model of a configuration, checked: sizes are positive and fit each other, and so does `step`, whose defaults are
/// filled in. Warnings say where the configuration asks for something that is left out without changing the training
/// step.
Result<TransformerModel> modelFromConfig(const ModelSource &source, StepSize &step, std::vector<std::string> &warnings);

} // namespace kerf::frontend
