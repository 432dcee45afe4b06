// SPDX-License-Identifier: Apache-2.0
// The optimizers: each is a record with its rule before it. docs/adding-an-optimizer.md shows how to add one.
#include "kerf/Optimizer/CodedMean.h"
#include "kerf/Optimizer/Update.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kerf {

namespace {

constexpr double kPositive = std::numeric_limits<double>::min();

OptimizerSetting momentum(double defaultValue) {
  return {"momentum", "momentum factor: the fraction of the previous velocity in the new one", defaultValue, 0, 1};
}
OptimizerSetting nesterov(bool defaultValue) {
  return {"nesterov", "use Nesterov momentum", defaultValue ? 1.0 : 0.0, 0, 2, SettingKind::Switch};
}
OptimizerSetting beta1(double defaultValue) {
  return {"beta1", "decay rate of the running mean of the gradients", defaultValue, 0, 1};
}
OptimizerSetting beta2(double defaultValue) {
  return {"beta2", "decay rate of the running mean of the squared gradients; lion: of the stored mean of the gradients",
          defaultValue, 0, 1};
}
OptimizerSetting eps(double defaultValue) {
  return {"eps", "small number that keeps the divisor of an update above 0", defaultValue, kPositive};
}
OptimizerSetting weightDecay(double defaultValue) {
  return {"weight-decay", "fraction of the parameter that a step subtracts, per unit of learning rate", defaultValue};
}

/// Returns the gradient of the loss with weight_decay / 2 * |p|^2 added to the loss.
Term withDecay(const Update &u) {
  return u["weight-decay"] == 0 ? u.gradient : u.gradient + u["weight-decay"] * u.parameter;
}
/// Returns the parameter after decoupled weight decay (Loshchilov and Hutter 2019).
Term decayed(const Update &u) {
  return u["weight-decay"] == 0 ? u.parameter : (1 - u.rate * u["weight-decay"]) * u.parameter;
}

//===-- SGD: Sutskever et al., On the importance of initialization and momentum, 2013, as torch.optim.SGD has it --===//

std::vector<OptimizerState> sgdStates(const SettingValues &settings, const Shape &shape) {
  // Without momentum, the velocity equals the gradient, so there is no state.
  return settings.find("momentum")->second == 0 ? std::vector<OptimizerState>{}
                                                : std::vector<OptimizerState>{{"momentum", shape}};
}

void sgd(Update &u) {
  Term step = withDecay(u);
  if (!u.states.empty()) {
    Term &velocity = u.state("momentum");
    velocity = u["momentum"] * velocity + step;
    step = u["nesterov"] ? step + u["momentum"] * velocity : velocity;
  }
  u.parameter = u.parameter - u.rate * step;
}

//===-- Adam and AdamW --------------------------------------------------------------------------------------------===//
// Adam: Kingma and Ba, Adam: A Method for Stochastic Optimization, 2015. AdamW: Loshchilov and Hutter, Decoupled Weight
// Decay Regularization, 2019, where the learning rate multiplies the decay, as in PyTorch.

std::vector<OptimizerState> adamStates(const SettingValues &, const Shape &shape) {
  return {{"exp_avg", shape}, {"exp_avg_sq", shape}};
}

/// Updates both means with the gradient. Returns their quotient, corrected for their start at 0,
/// multiplied by `factor`.
Term adamStep(Update &u, const Term &gradient, const Term &factor) {
  Term &mean = u.state("exp_avg"), &square = u.state("exp_avg_sq");
  mean = u["beta1"] * mean + (1 - u["beta1"]) * gradient;
  square = u["beta2"] * square + (1 - u["beta2"]) * gradient * gradient;
  Term correction = 1 / sqrt(1 - pow(u["beta2"], u.number.value()));
  return factor / (1 - pow(u["beta1"], u.number.value())) * mean / (sqrt(square) * correction + u["eps"]);
}

void adam(Update &u) { u.parameter = u.parameter - adamStep(u, withDecay(u), u.rate); }

void adamw(Update &u) { u.parameter = decayed(u) - adamStep(u, u.gradient, u.rate); }

//===-- 1-bit Adam and 0/1 Adam -----------------------------------------------------------------------------------===//
// 1-bit Adam: Tang et al., 1-bit Adam: Communication Efficient Large-Scale Training with Adam's Convergence Speed,
// 2021: AdamW in the first steps. 0/1 Adam: Lu et al., Maximizing Communication Efficiency for Large-scale Training via
// 0/1 Adam, 2022, algorithm 1, with the distances of DeepSpeed's ZeroOneAdam. In steps that do not sum gradients
// plainly, the mean of the squares stays as it is, so that the update is linear in the mean of the gradients. Elements
// without any gradient in the plain steps do not move, as with the mask of the published code.

/// Returns what the parameter loses by `rate * mean`. `squares`: the batches that have followed the squares.
Term heldAdamChange(Update &u, const BatchSet &squares, const Term &rate, const Term &mean) {
  const Term &number = u.number.value(), &square = u.state("exp_avg_sq");
  Term correction = 1 / sqrt(1 - pow(u["beta2"], countBefore(squares, number)));
  return wherePositive(square, rate / (1 - pow(u["beta1"], number)) * mean / (sqrt(square) * correction + u["eps"]), 0);
}

void heldAdam(Update &u, const BatchSet &squares) {
  const Term &number = u.number.value();
  Term &mean = u.state("exp_avg"), &square = u.state("exp_avg_sq");
  Term follows = countBefore(squares, number) - countBefore(squares, number - 1); // 1 in these batches, else 0
  square = square + follows * (1 - u["beta2"]) * (u.gradient * u.gradient - square);
  mean = wherePositive(square, u["beta1"] * mean + (1 - u["beta1"]) * u.gradient, 0);
  u.parameter = decayed(u) - heldAdamChange(u, squares, u.rate, mean);
}

OptimizerSetting freezeStep(double defaultValue) {
  return {
      "freeze-step",
      "number of steps after which the divisor stays fixed: onebit-adam may compress from there on, and ranks under "
      "zero-one-adam take steps of their own between two sums",
      defaultValue,
      1,
      1e15,
      SettingKind::Integer};
}

int64_t wholeNumber(const SettingValues &settings, std::string_view name) {
  return int64_t(settings.find(name)->second);
}

SumBatches onebitBatches(const SettingValues &settings, int64_t first) {
  return codedFrom(std::max(first, wholeNumber(settings, "freeze-step")));
}

void onebitAdam(Update &u) { heldAdam(u, onebitBatches(u.settings, 0).plain); }

SumBatches zeroOneBatches(const SettingValues &settings, int64_t) {
  return sumsAt({.freeze = wholeNumber(settings, "freeze-step"),
                 .plainSums = wholeNumber(settings, "var-update-scaler"),
                 .localSteps = wholeNumber(settings, "local-step-scaler"),
                 .longest = wholeNumber(settings, "local-step-clipper")});
}

void zeroOneAdam(Update &u) { heldAdam(u, zeroOneBatches(u.settings, 0).plain); }

Term zeroOneChange(Update &u, const Term &rate, const Term &mean) {
  return heldAdamChange(u, zeroOneBatches(u.settings, 0).plain, rate, mean);
}

constexpr CodedMean kOnebitMean = {.state = "exp_avg", .decay = "beta1", .batches = onebitBatches};
constexpr CodedMean kZeroOneMean = {.state = "exp_avg",
                                    .decay = "beta1",
                                    .batches = zeroOneBatches,
                                    .longest = "local-step-clipper",
                                    .change = zeroOneChange};

//===-- Adagrad: Duchi et al., Adaptive Subgradient Methods, 2011 -------------------------------------------------===//

std::vector<OptimizerState> adagradStates(const SettingValues &, const Shape &shape) { return {{"sum", shape}}; }

void adagrad(Update &u) {
  Term gradient = withDecay(u);
  Term &squares = u.state("sum");
  squares = squares + gradient * gradient;
  u.parameter = u.parameter - u.rate * gradient / (sqrt(squares) + u["eps"]);
}

//===-- Lion: Chen et al., Symbolic Discovery of Optimization Algorithms, 2023, algorithm 2 -----------------------===//

std::vector<OptimizerState> lionStates(const SettingValues &, const Shape &shape) { return {{"exp_avg", shape}}; }

void lion(Update &u) {
  Term &mean = u.state("exp_avg");
  Term direction = sign(u["beta1"] * mean + (1 - u["beta1"]) * u.gradient);
  u.parameter = decayed(u) - u.rate * direction;
  mean = u["beta2"] * mean + (1 - u["beta2"]) * u.gradient;
}

//===-- LAMB: You et al., Large Batch Optimization for Deep Learning, 2020, algorithm 2 ---------------------------===//

void lamb(Update &u) {
  Term step = adamStep(u, u.gradient, 1) + u["weight-decay"] * u.parameter;
  Term ofParameter = norm(u.parameter), ofStep = norm(step);
  Term trust = wherePositive(min(ofParameter, ofStep), ofParameter / ofStep, 1);
  u.parameter = u.parameter - u.rate * trust * step;
}

//===-- Adafactor -------------------------------------------------------------------------------------------------===//
// Shazeer and Stern, Adafactor: Adaptive Learning Rates with Sublinear Memory Cost, 2018, in the form of
// torch.optim.Adafactor: without momentum, and with steps relative to the parameter.

bool isFactored(const Shape &shape) { return shape.size() > 1; }

std::vector<OptimizerState> adafactorStates(const SettingValues &, const Shape &shape) {
  if (!isFactored(shape))
    return {{"variance", shape}};
  Shape rows(shape.begin(), shape.end() - 1), columns = shape;
  columns.erase(columns.end() - 2);
  return {{"row_var", rows}, {"col_var", columns}};
}

/// Returns the running mean of the gradient's squares. For a matrix, only means over its rows and columns are kept.
Term adafactorVariance(Update &u, const Term &share) {
  Term square = u.gradient * u.gradient;
  auto follow = [&](Term &kept, const Term &now) { return kept = kept + share * (now - kept); };
  if (!isFactored(u.shape()))
    return follow(u.state("variance"), square);
  int64_t last = static_cast<int64_t>(u.shape().size()) - 1;
  Term rows = follow(u.state("row_var"), mean(square, {last}));
  Term columns = follow(u.state("col_var"), mean(square, {last - 1}));
  Term size = max(mean(rows, {last - 1}), u["eps"]); // for each matrix
  Term shares = last == 1 ? rows / size : rows / along(size, rows, last - 1);
  return along(shares, square, last) * along(columns, square, last - 1);
}

void adafactor(Update &u) {
  Term share = pow(u.number.value(), u["beta2-decay"]);
  Term variance = adafactorVariance(u, share);
  Term step = u.gradient / sqrt(max(variance, u["eps"] * u["eps"]));
  double count = std::sqrt(u.elements());
  Term ofParameter = max(norm(u.parameter) / count, u["eps2"]);
  Term rate = ofParameter * min(u.rate, 1 / sqrt(u.number.value()));
  Term tooLarge = max(norm(step) / (count * u["update-threshold"]), 1);
  u.parameter = decayed(u) - rate / tooLarge * step;
}

//===-- Muon ------------------------------------------------------------------------------------------------------===//
// Jordan et al., Muon: An optimizer for hidden layers in neural networks, 2024, in the form of torch.optim.Muon, except
// that products are computed in the type of the update.

/// The coefficients of a Newton-Schulz step x -> a x + (b (x x') + c (x x')^2) x. Jordan et al. chose them for the
/// steepest slope at 0.
constexpr double kMuonA = 3.4445, kMuonB = -4.7750, kMuonC = 2.0315;
/// The root mean square of an update as large as AdamW's (Liu et al., Muon is Scalable for LLM Training, 2025).
constexpr double kMuonRms = 0.2;

bool isMatrix(const Shape &shape) { return shape.size() == 2; }

std::vector<OptimizerState> muonStates(const SettingValues &, const Shape &shape) {
  return {{"momentum_buffer", shape}};
}

/// Returns an approximation of the nearest matrix with orthogonal rows or columns.
Term orthogonal(Term x, double steps, double eps) {
  bool tall = x.shape()[0] > x.shape()[1]; // the products have the size of the shorter side
  x = x / max(norm(x), eps);
  for (int step = 0; step < steps; ++step) {
    int64_t summed = tall ? 0 : 1;
    Term gram = product(x, summed, x, summed);
    Term change = kMuonB * gram + kMuonC * product(gram, 1, gram, 0);
    x = kMuonA * x + (tall ? product(x, 1, change, 0) : product(change, 1, x, 0));
  }
  return x;
}

void muon(Update &u) {
  Term &velocity = u.state("momentum_buffer");
  double share = 1 - u["momentum"];
  velocity = velocity + share * (u.gradient - velocity);
  Term step = u["nesterov"] ? u.gradient + u["momentum"] * (velocity - u.gradient) : velocity;
  double rows = static_cast<double>(u.shape()[0]), columns = static_cast<double>(u.shape()[1]);
  double factor =
      u["match-rms"] ? kMuonRms * std::sqrt(std::max(rows, columns)) : std::sqrt(std::max(1.0, rows / columns));
  u.parameter = decayed(u) - u.rate * factor * orthogonal(step, u["ns-steps"], u["eps"]);
}

std::vector<OptimizerRecord> records() {
  return {
      {.name = "sgd",
       .helpText = "stochastic gradient descent, with optional momentum",
       .settings = {momentum(0), nesterov(false), weightDecay(0)},
       .states = sgdStates,
       .rule = sgd,
       .earlyMomentum = "momentum"},
      {.name = "adam",
       .helpText = "Adam, with weight decay as a part of the gradient",
       .settings = {beta1(0.9), beta2(0.999), eps(1e-8), weightDecay(0)},
       .states = adamStates,
       .rule = adam,
       .readsUpdateNumber = true,
       .dividesBySquares = true},
      {.name = "adamw",
       .helpText = "Adam with decoupled weight decay",
       .settings = {beta1(0.9), beta2(0.999), eps(1e-8), weightDecay(0.01)},
       .states = adamStates,
       .rule = adamw,
       .readsUpdateNumber = true,
       .dividesBySquares = true},
      {.name = "onebit-adam",
       .helpText =
           "AdamW whose divisor stays fixed after the first steps, so that ranks may exchange its mean in codes",
       .settings = {beta1(0.9), beta2(0.999), eps(1e-8), weightDecay(0), freezeStep(1000)},
       .states = adamStates,
       .rule = onebitAdam,
       .readsUpdateNumber = true,
       .codedMean = &kOnebitMean},
      {.name = "zero-one-adam",
       .helpText = "AdamW whose divisor follows at growing distances and whose ranks take steps of their own between "
                   "two exchanges of its mean in codes",
       .settings = {beta1(0.9),
                    beta2(0.999),
                    eps(1e-8),
                    weightDecay(0),
                    freezeStep(100000),
                    {"var-update-scaler",
                     "zero-one-adam: number of updates of the divisor after which their distance doubles", 16, 1, 1e15,
                     SettingKind::Integer},
                    {"local-step-scaler",
                     "zero-one-adam: number of steps after which the distance of two sums doubles, once the divisor is "
                     "fixed",
                     32678, 1, 1e15, SettingKind::Integer},
                    {"local-step-clipper", "zero-one-adam: longest distance of two sums", 16, 1, 1e6,
                     SettingKind::Integer}},
       .states = adamStates,
       .rule = zeroOneAdam,
       .readsUpdateNumber = true,
       .codedMean = &kZeroOneMean},
      {.name = "adagrad",
       .helpText = "steps divided by the root of the sum of all squared gradients so far",
       .settings = {eps(1e-10), weightDecay(0)},
       .states = adagradStates,
       .rule = adagrad,
       .dividesBySquares = true},
      {.name = "lion",
       .helpText = "steps by the sign of the running mean of the gradients",
       .settings = {beta1(0.9), beta2(0.99), weightDecay(0)},
       .states = lionStates,
       .rule = lion},
      {.name = "lamb",
       .helpText = "Adam's steps, scaled to the norm of each parameter",
       .settings = {beta1(0.9), beta2(0.999), eps(1e-6), weightDecay(0)},
       .states = adamStates,
       .rule = lamb,
       .readsUpdateNumber = true,
       .dividesBySquares = true},
      {.name = "adafactor",
       .helpText = "Adam's steps with squares averaged over rows and columns, scaled to the size of the parameter",
       .settings = {{"beta2-decay", "exponent e of the weight t^e that the squared gradients have in update t", -0.8,
                     -10, 0},
                    eps(std::numeric_limits<float>::epsilon()),
                    {"eps2", "lower bound of a parameter's root mean square, to which steps are scaled", 1e-3,
                     kPositive},
                    {"update-threshold", "root mean square above which an update is scaled down", 1, 1},
                    weightDecay(0)},
       .states = adafactorStates,
       .rule = adafactor,
       .readsUpdateNumber = true,
       .readsParameterShape = true,
       .dividesBySquares = true},
      {.name = "muon",
       .helpText = "orthogonalized momentum of matrices; other parameters get AdamW",
       .settings = {momentum(0.95),
                    nesterov(true),
                    {"ns-steps", "number of Newton-Schulz steps", 5, 1, 100, SettingKind::Integer},
                    {"match-rms", "scale steps to the size of AdamW's, so that the learning rates of AdamW can be used",
                     0, 0, 2, SettingKind::Switch},
                    eps(1e-7),
                    weightDecay(0.1)},
       .states = muonStates,
       .rule = muon,
       .readsParameterShape = true,
       .acceptsShape = isMatrix,
       .fallback = "adamw"},
  };
}

} // namespace

const std::vector<OptimizerRecord> &optimizers() {
  static const std::vector<OptimizerRecord> all = records();
  return all;
}

const OptimizerRecord *findOptimizer(std::string_view name) {
  auto found = std::find_if(optimizers().begin(), optimizers().end(),
                            [&](const OptimizerRecord &record) { return record.name == name; });
  return found == optimizers().end() ? nullptr : &*found;
}

std::vector<OptimizerSetting> allSettings() {
  std::vector<OptimizerSetting> all;
  for (const OptimizerRecord &record : optimizers())
    for (const OptimizerSetting &setting : record.settings)
      if (std::none_of(all.begin(), all.end(),
                       [&](const OptimizerSetting &known) { return std::string_view(known.name) == setting.name; }))
        all.push_back(setting);
  return all;
}

std::string optimizerNames() {
  std::vector<std::string_view> names;
  for (const OptimizerRecord &record : optimizers())
    names.push_back(record.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

const OptimizerRecord &optimizerOf(const OptimizerRecord &record, const Shape &shape) {
  return record.acceptsShape && !record.acceptsShape(shape) ? *findOptimizer(record.fallback) : record;
}

} // namespace kerf
