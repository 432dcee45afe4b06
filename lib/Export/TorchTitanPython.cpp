// SPDX-License-Identifier: Apache-2.0
// Export to TorchTitan 0.3, which is configured in Python: a module with a function that returns the configuration of a
// job. The keys that 0.3 treats as 0.2 does are those of TorchTitan.cpp.
#include "View.h"

namespace kerf::exporting {

namespace {

void writeExpert(const View &view, Draft &out) {
  if (view.expert == 1)
    return out.idle("1");
  if (!view.experts())
    return out.expressed("the model has no experts: part of data_parallel_shard_degree");
  out.file("parallelism.expert_parallel_degree", view.expert);
  if (view.context > 1 || view.tensor > 1)
    out.differs("groups of experts take neighbouring ranks of model and context first: they use other links than "
                "planned");
}

void writeRecompute(const View &view, Draft &out) {
  noteMixedRecompute(view, out);
  out.file("activation_checkpoint", view.recompute);
  if (view.recompute == "selective")
    out.differs("attention's core is what is kept: results of attention and of every second product stay, all else is "
                "recomputed");
}

void writeSequenceParallel(const View &view, Draft &out) {
  if (view.tensor == 1)
    return out.idle("mesh.model is 1");
  out.file("parallelism.enable_sequence_parallel", view.sequenceParallel);
}

void writeDtype(const View &view, Draft &out) {
  const std::string &dtype = view.in.job.dtype;
  bool whole = dtype == "f32" || dtype == "f64";
  out.file("training.mixed_precision_param", whole ? "float32" : "bfloat16");
  if (dtype == "f8")
    out.differs("float8 is a converter of the model: give it to the model_registry of the module; bfloat16 until then");
  if (dtype == "f16" || dtype == "f64")
    out.differs(fmt::format("there is no {}: {}", dtype, whole ? "float32" : "bfloat16"));
}

/// Returns the row of TorchTitan 0.2 for `key`, whose texts have `now` in the place of `then`.
Row renamed(const char *key, std::string then, std::string now) {
  return {key, [=](const View &view, Draft &out) {
            size_t first = out.decisions.size();
            for (const Row &row : torchTitanTable())
              if (std::string(row.key) == key)
                row.write(view, out);
            for (size_t i = first; i < out.decisions.size(); ++i)
              if (size_t at = out.decisions[i].text.find(then); at != std::string::npos)
                out.decisions[i].text.replace(at, then.size(), now);
          }};
}

/// Writes a value as Python has it.
std::string pythonValue(const Json &value) {
  if (value.is_null())
    return "None";
  if (value.is_boolean())
    return value.get<bool>() ? "True" : "False";
  if (!value.is_array())
    return value.dump();
  std::vector<std::string> items;
  for (const Json &item : value)
    items.push_back(pythonValue(item));
  return fmt::format("[{}]", fmt::join(items, ", "));
}

/// Returns the function of TorchTitan's registry for the model, and its module.
std::pair<std::string, std::string> baseOf(const Json &config) {
  if (!config.contains("model") || !config["model"].contains("flavor"))
    return {"your_model.config_registry", "your_model"};
  std::string name = config["model"]["name"], flavor = config["model"]["flavor"];
  for (char &c : flavor)
    c = char(std::tolower(c));
  return {fmt::format("torchtitan.models.{}.config_registry", name), fmt::format("{}_{}", name, flavor)};
}

} // namespace

const Table &torchTitanPythonTable() {
  static const Table table = [] {
    Table rows = {
        {"mesh.expert", writeExpert},
        {"recompute", writeRecompute},
        {"sequence_parallel", writeSequenceParallel},
        {"dtype", writeDtype},
        renamed("overlap", "parallelism.enable_async_tensor_parallel", "compile.enable_async_tensor_parallel"),
        renamed("stages", "\"output\"]", "\"lm_head\"]"),
        renamed("model.family", "and name it in model.name and model.flavor",
                "and import its function of config_registry"),
        renamed("model.sizes", "model.name, model.flavor and training.seq_len are left out",
                "the module and the function of the model are placeholders, and training.seq_len is left out"),
        {"context_style",
         [](const View &v, Draft &out) {
           if (v.context == 1)
             return out.idle("mesh.context is 1");
           if (v.plan.contextStyle == ContextStyle::Ulysses)
             return out.differs("ring attention runs instead: keys and values pass round");
           out.expressed("ring attention, the only one");
         }},
        {"optimizer.beta1",
         [](const View &v, Draft &out) {
           out.file("optimizer.betas", Json::array({v.in.optimizer["beta1"], v.in.optimizer["beta2"]}));
         }},
        {"optimizer.beta2", [](const View &, Draft &out) { out.expressed("optimizer.betas"); }},
        {"optimizer.kind",
         [](const View &v, Draft &out) {
           noteOptimizer(v, out);
           if (v.in.optimizer.kind == "sgd")
             out.differs("the registry's functions have AdamW, whose states take memory that the plan does not count");
           out.expressed("AdamW, that of the registry's functions");
         }},
    };
    rows.insert(rows.end(), torchTitanTable().begin(), torchTitanTable().end());
    return rows;
  }();
  return table;
}

std::string torchTitanPythonText(const std::vector<std::string> &head, Json config) {
  auto [module, function] = baseOf(config);
  std::string recompute = config.value("activation_checkpoint", "none");
  if (bool async = config["parallelism"].erase("enable_async_tensor_parallel"); async)
    config["compile"]["enable_async_tensor_parallel"] = true;
  if (auto &parallelism = config["parallelism"]; parallelism.contains("module_fqns_per_model_part"))
    parallelism["module_fqns_per_model_part"].back().back() = "lm_head"; // 0.2 calls this module output
  std::string text;
  for (const std::string &line : head)
    text += line.empty() ? "#\n" : "# " + line + "\n";
  const char *policy = recompute == "full" ? "FullAC" : recompute == "selective" ? "SelectiveAC" : nullptr;
  if (policy)
    text += fmt::format("from torchtitan.distributed.activation_checkpoint import {}\n", policy);
  text += fmt::format("from {} import {}\n\n\ndef job():\n    config = {}()\n", module, function, function);
  for (const char *section : {"training", "parallelism", "compile"})
    if (config.contains(section))
      for (const auto &[key, value] : config[section].items())
        text += fmt::format("    config.{}.{} = {}\n", section, key, pythonValue(value));
  text += fmt::format("    config.activation_checkpoint = {}\n", policy ? fmt::format("{}.Config()", policy) : "None");
  std::vector<std::string> kept;
  const Json optimizer = config.value("optimizer", Json::object());
  for (const auto &[key, value] : optimizer.items()) {
    std::string theirs = pythonValue(value);
    if (key != "name")
      kept.push_back(fmt::format("\"{}\": {}", key, key == "betas" ? fmt::format("tuple({})", theirs) : theirs));
  }
  if (!kept.empty())
    text += fmt::format("    for group in config.optimizer.param_groups:\n"
                        "        group.optimizer_kwargs.update({{{}}})\n",
                        fmt::join(kept, ", "));
  return text + "    return config\n";
}

} // namespace kerf::exporting
