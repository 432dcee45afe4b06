// SPDX-License-Identifier: Apache-2.0
// The optimizers: one record each, with its rule before it. docs/adding-an-optimizer.md adds one by example.
#include "Update.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kerf {

namespace {

constexpr double kPositive = std::numeric_limits<double>::min();

OptimizerSetting momentum(double usual) { return {"momentum", "share of the last velocity that is kept", usual, 0, 1}; }
OptimizerSetting nesterov(bool usual) {
  return {"nesterov", "look ahead along the velocity (Nesterov)", usual ? 1.0 : 0.0, 0, 2, SettingKind::Switch};
}
OptimizerSetting beta1(double usual) { return {"beta1", "decay of the mean of the gradients", usual, 0, 1}; }
OptimizerSetting beta2(double usual) {
  return {"beta2", "decay of the mean of their squares; lion: of the kept mean", usual, 0, 1};
}
OptimizerSetting eps(double usual) {
  return {"eps", "added to what the rule divides by, or its least value", usual, kPositive};
}
OptimizerSetting weightDecay(double usual) {
  return {"weight-decay", "share of the parameter that is taken off, per unit of learning rate", usual};
}

/// The gradient of a loss that has weight_decay / 2 * |p|^2 added.
Term withDecay(const Update &u) {
  return u["weight-decay"] == 0 ? u.gradient : u.gradient + u["weight-decay"] * u.parameter;
}
/// The parameter after a decay that no gradient sees (Loshchilov and Hutter 2019).
Term decayed(const Update &u) {
  return u["weight-decay"] == 0 ? u.parameter : (1 - u.rate * u["weight-decay"]) * u.parameter;
}

//===-- SGD: Sutskever et al., On the importance of initialization and momentum, 2013, as torch.optim.SGD has it
//-----===//

std::vector<OptimizerState> sgdStates(const SettingValues &settings, const Shape &shape) {
  // Without momentum the velocity is the gradient itself: there is nothing to keep.
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

//===-- Adam: Kingma and Ba, Adam: A Method for Stochastic Optimization, 2015; AdamW: Loshchilov and Hutter, Decoupled
//     Weight Decay Regularization, 2019, with the learning rate multiplied into the decay as PyTorch does
//     -------------===//

std::vector<OptimizerState> adamStates(const SettingValues &, const Shape &shape) {
  return {{"exp_avg", shape}, {"exp_avg_sq", shape}};
}

/// Brings both means up to date with the gradient. Returns their quotient, corrected for their start at 0, times
/// `factor`.
Term adamStep(Update &u, const Term &gradient, const Term &factor) {
  Term &mean = u.state("exp_avg"), &square = u.state("exp_avg_sq");
  mean = u["beta1"] * mean + (1 - u["beta1"]) * gradient;
  square = u["beta2"] * square + (1 - u["beta2"]) * gradient * gradient;
  Term correction = 1 / sqrt(1 - pow(u["beta2"], u.number.value()));
  return factor / (1 - pow(u["beta1"], u.number.value())) * mean / (sqrt(square) * correction + u["eps"]);
}

void adam(Update &u) { u.parameter = u.parameter - adamStep(u, withDecay(u), u.rate); }

void adamw(Update &u) { u.parameter = decayed(u) - adamStep(u, u.gradient, u.rate); }

//===-- Adagrad: Duchi et al., Adaptive Subgradient Methods, 2011
//------------------------------------------------------===//

std::vector<OptimizerState> adagradStates(const SettingValues &, const Shape &shape) { return {{"sum", shape}}; }

void adagrad(Update &u) {
  Term gradient = withDecay(u);
  Term &squares = u.state("sum");
  squares = squares + gradient * gradient;
  u.parameter = u.parameter - u.rate * gradient / (sqrt(squares) + u["eps"]);
}

//===-- Lion: Chen et al., Symbolic Discovery of Optimization Algorithms, 2023, algorithm 2
//----------------------------===//

std::vector<OptimizerState> lionStates(const SettingValues &, const Shape &shape) { return {{"exp_avg", shape}}; }

void lion(Update &u) {
  Term &mean = u.state("exp_avg");
  Term direction = sign(u["beta1"] * mean + (1 - u["beta1"]) * u.gradient);
  u.parameter = decayed(u) - u.rate * direction;
  mean = u["beta2"] * mean + (1 - u["beta2"]) * u.gradient;
}

//===-- LAMB: You et al., Large Batch Optimization for Deep Learning, 2020, algorithm 2
//--------------------------------===//

void lamb(Update &u) {
  Term step = adamStep(u, u.gradient, 1) + u["weight-decay"] * u.parameter;
  Term ofParameter = norm(u.parameter), ofStep = norm(step);
  Term trust = wherePositive(min(ofParameter, ofStep), ofParameter / ofStep, 1);
  u.parameter = u.parameter - u.rate * trust * step;
}

//===-- Adafactor: Shazeer and Stern, Adafactor: Adaptive Learning Rates with Sublinear Memory Cost, 2018, as
//     torch.optim.Adafactor has it: without momentum, steps relative to the parameter
//     ---------------------------------===//

bool isFactored(const Shape &shape) { return shape.size() > 1; }

std::vector<OptimizerState> adafactorStates(const SettingValues &, const Shape &shape) {
  if (!isFactored(shape))
    return {{"variance", shape}};
  Shape rows(shape.begin(), shape.end() - 1), columns = shape;
  columns.erase(columns.end() - 2);
  return {{"row_var", rows}, {"col_var", columns}};
}

/// The means of the gradient's squares. Those of a matrix are kept as means of its rows and columns.
Term adafactorVariance(Update &u, const Term &share) {
  Term square = u.gradient * u.gradient;
  auto follow = [&](Term &kept, const Term &now) { return kept = kept + share * (now - kept); };
  if (!isFactored(u.shape()))
    return follow(u.state("variance"), square);
  int64_t last = static_cast<int64_t>(u.shape().size()) - 1;
  Term rows = follow(u.state("row_var"), mean(square, {last}));
  Term columns = follow(u.state("col_var"), mean(square, {last - 1}));
  Term size = max(mean(rows, {last - 1}), u["eps"]); // of each matrix
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

//===-- Muon: Jordan et al., Muon: An optimizer for hidden layers in neural networks, 2024, as torch.optim.Muon has it,
//     but for the products' type: they are computed in the type of the update
//     ----------------------------------------===//

/// Coefficients of a Newton-Schulz step x -> a x + (b (x x') + c (x x')^2) x. Jordan et al. chose them for the steepest
/// slope at 0.
constexpr double kMuonA = 3.4445, kMuonB = -4.7750, kMuonC = 2.0315;
/// The root mean square of an update that is as large as AdamW's: Liu et al., Muon is Scalable for LLM Training, 2025.
constexpr double kMuonRms = 0.2;

bool isMatrix(const Shape &shape) { return shape.size() == 2; }

std::vector<OptimizerState> muonStates(const SettingValues &, const Shape &shape) {
  return {{"momentum_buffer", shape}};
}

/// The nearest matrix with orthogonal rows or columns, about.
Term orthogonal(Term x, double steps, double eps) {
  bool tall = x.shape()[0] > x.shape()[1]; // the products are of the short side
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
       .text = "stochastic gradient descent, with momentum if asked for",
       .settings = {momentum(0), nesterov(false), weightDecay(0)},
       .states = sgdStates,
       .rule = sgd},
      {.name = "adam",
       .text = "Adam, whose weight decay is part of the gradient",
       .settings = {beta1(0.9), beta2(0.999), eps(1e-8), weightDecay(0)},
       .states = adamStates,
       .rule = adam,
       .readsNumber = true},
      {.name = "adamw",
       .text = "Adam with decoupled weight decay",
       .settings = {beta1(0.9), beta2(0.999), eps(1e-8), weightDecay(0.01)},
       .states = adamStates,
       .rule = adamw,
       .readsNumber = true},
      {.name = "adagrad",
       .text = "steps divided by the root of the sum of all squares so far",
       .settings = {eps(1e-10), weightDecay(0)},
       .states = adagradStates,
       .rule = adagrad},
      {.name = "lion",
       .text = "steps by the sign of the gradients' mean",
       .settings = {beta1(0.9), beta2(0.99), weightDecay(0)},
       .states = lionStates,
       .rule = lion},
      {.name = "lamb",
       .text = "Adam's steps, as large as each parameter is",
       .settings = {beta1(0.9), beta2(0.999), eps(1e-6), weightDecay(0)},
       .states = adamStates,
       .rule = lamb,
       .readsNumber = true},
      {.name = "adafactor",
       .text = "squares kept by rows and columns alone, steps relative to the parameter",
       .settings = {{"beta2-decay", "exponent by which the share of new squares falls", -0.8, -10, 0},
                    eps(std::numeric_limits<float>::epsilon()),
                    {"eps2", "least root mean square that a parameter counts with", 1e-3, kPositive},
                    {"update-threshold", "root mean square beyond which an update is scaled down", 1, 1},
                    weightDecay(0)},
       .states = adafactorStates,
       .rule = adafactor,
       .readsNumber = true,
       .readsShape = true},
      {.name = "muon",
       .text = "orthogonalized momentum of matrices; other parameters get AdamW",
       .settings = {momentum(0.95),
                    nesterov(true),
                    {"ns-steps", "Newton-Schulz steps", 5, 1, 100, SettingKind::Whole},
                    {"match-rms", "steps as large as AdamW's, whose learning rates then suit", 0, 0, 2,
                     SettingKind::Switch},
                    eps(1e-7),
                    weightDecay(0.1)},
       .states = muonStates,
       .rule = muon,
       .readsShape = true,
       .takes = isMatrix,
       .otherwise = "adamw"},
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
  return record.takes && !record.takes(shape) ? *findOptimizer(record.otherwise) : record;
}

} // namespace kerf
