// SPDX-License-Identifier: Apache-2.0
// Reads the settings of a job from JSON: "job.options" of plan.json, and the keyword arguments of the Python module.
#include "kerf/Compiler/JobSettings.h"
#include "kerf/CostModel/Trainer.h"
#include "kerf/Support/ByteCount.h"
#include "kerf/Support/Suggest.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kerf {

namespace {

using Json = nlohmann::ordered_json;
using Words = std::vector<std::string>;
using Read = std::function<Status(const Json &value, const std::string &name)>;

/// The largest number of ranks that a setting may ask for.
constexpr int64_t kMostRanks = int64_t{1} << 24;

/// Returns the value as messages show it: a text without its quotes.
std::string shown(const Json &value) {
  return value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Error wrong(const std::string &name, const Json &value, const std::string &expected) {
  return Error{fmt::format("<{}>: '{}' is not {}", name, shown(value), expected)};
}

/// Returns a reader of a text that is one of `words`; no words: any text.
Read text(std::string &field, Words words = {}) {
  return [&field, words](const Json &value, const std::string &name) -> Status {
    bool known = value.is_string() && (words.empty() || std::find(words.begin(), words.end(), value) != words.end());
    if (!known)
      return words.empty() ? wrong(name, value, "a text")
                           : Error{fmt::format("<{}> is '{}'; it has to be one of {}", name, shown(value),
                                               fmt::join(words, ", "))};
    field = value.get<std::string>();
    return ok();
  };
}

/// Returns a reader of a list of texts; a single text is a list of one.
Read texts(Words &field) {
  return [&field](const Json &value, const std::string &name) -> Status {
    field.clear();
    for (const Json &one : value.is_array() ? value : Json::array({value})) {
      if (!one.is_string())
        return wrong(name, value, "a text or a list of texts");
      field.push_back(one.get<std::string>());
    }
    return ok();
  };
}

template <typename Field> Read whole(Field &field, int64_t least, int64_t most = std::numeric_limits<int64_t>::max()) {
  return [&field, least, most](const Json &value, const std::string &name) -> Status {
    const bool tooLarge = value.is_number_unsigned() && value.get<uint64_t>() > uint64_t(most);
    if (!value.is_number_integer() || tooLarge || value.get<int64_t>() < least || value.get<int64_t>() > most)
      return wrong(name, value,
                   most == std::numeric_limits<int64_t>::max()
                       ? fmt::format("a whole number of {} or more", least)
                       : fmt::format("a whole number from {} to {}", least, most));
    field = value.get<int64_t>();
    return ok();
  };
}

template <typename Field> Read number(Field &field, double least, double most = std::numeric_limits<double>::max()) {
  return [&field, least, most](const Json &value, const std::string &name) -> Status {
    const double read = value.is_number() ? value.get<double>() : NAN;
    if (!(read >= least && read <= most))
      return wrong(name, value,
                   most == std::numeric_limits<double>::max() ? fmt::format("a finite number of {} or more", least)
                                                              : fmt::format("a number from {} to {}", least, most));
    field = read;
    return ok();
  };
}

Read flag(bool &field) {
  return [&field](const Json &value, const std::string &name) -> Status {
    if (!value.is_boolean())
      return wrong(name, value, "true or false");
    field = value.get<bool>();
    return ok();
  };
}

/// Returns the words of the setting compress.
Words compressWords() {
  Words words = compression::codecNames();
  words.insert(words.begin(), {"plan", "none"});
  return words;
}

/// Returns the readers of all settings, by their names.
std::map<std::string, Read, std::less<>> readersOf(JobSettings &settings) {
  ModelSettings &m = settings.model;
  PrecisionSettings &p = settings.precision;
  SearchSettings &s = settings.search;
  Words optimizerWords;
  for (const OptimizerRecord &record : optimizers())
    optimizerWords.emplace_back(record.name);
  std::map<std::string, Read, std::less<>> readers = {
      {"loss", text(m.loss)},
      {"metric", texts(m.metrics)},
      {"weights", text(m.weights)},
      {"trainable", texts(m.trainable)},
      {"frozen", texts(m.frozen)},
      {"optimizer", text(m.optimizer, optimizerWords)},
      {"no-decay", texts(m.noDecay)},
      {"clip-norm", number(m.clipNorm, std::numeric_limits<double>::lowest())},
      {"accumulate", whole(m.accumulate, 1, int64_t{1} << 30)},
      {"dtype", text(m.dtype, {"f32", "f64", "bf16", "f16", "f8"})},
      {"global-batch", whole(m.globalBatch, 1)},
      {"sequence", whole(m.sequence, 1)},
      {"allow-biased", flag(m.compression.allowBiased)},
      {"compress-gathers", text(m.compression.gathers)},
      {"no-recognition", flag(m.noRecognition)},
      {"accept-folded", flag(m.acceptFolded)},
      {"reduce-dtype", text(p.reduceDtype, {"f32", "compute"})},
      {"initial-loss-scale", number(p.initialLossScale, 0)},
      {"loss-scale-window", whole(p.lossScaleWindow, 1)},
      {"for", text(s.trainer, trainerNames())},
      {"ranks", whole(s.ranks, 1, kMostRanks)},
      {"margin", number(s.margin, 0, 0.99)},
      {"all-ranks", flag(s.allRanks)},
      {"mode", text(s.mode, {"auto", "semi", "data", "stand-alone"})},
      {"search", text(s.search, {"placement", "whole"})},
      {"budget", number(s.budgetSeconds, 0)},
      {"top", whole(s.top, 0, 1000)},
      {"compress-ratio", number(s.compressRatio, 1)},
      {"compress-first-step", whole(s.compressFirstStep, 0)},
      {"lr", number(settings.learningRate.peak, 0)},
      {"lr-schedule", text(settings.learningRate.schedule, {"constant", "linear", "cosine"})},
      {"warmup", whole(settings.learningRate.warmup, 0)},
      {"total", whole(settings.learningRate.total, 1)},
  };
  readers["group"] = [&m](const Json &value, const std::string &name) -> Status {
    Words words;
    if (Status status = texts(words)(value, name); !status)
      return status;
    m.groups.clear();
    for (const std::string &word : words) {
      auto group = parameterGroupFrom(word);
      if (!group)
        return Error{fmt::format("<{}>: {}", name, group.error().message)};
      m.groups.push_back(std::move(*group));
    }
    return ok();
  };
  readers["compress-codecs"] = [&s](const Json &value, const std::string &name) -> Status {
    if (Status status = texts(s.compressCodecs)(value, name); !status)
      return status;
    for (const std::string &codec : s.compressCodecs)
      if (!compression::findCodec(codec))
        return Error{
            fmt::format("<{}>: there is no codec '{}'; {}", name, codec, suggestion(codec, compression::codecNames()))};
    return ok();
  };
  // A word is for the planner, which writes its choices into the plan; a list has the rules of a training.
  readers["compress"] = [&m, &s](const Json &value, const std::string &name) -> Status {
    if (value.is_string())
      return text(s.compress, compressWords())(value, name);
    Words words;
    if (Status status = texts(words)(value, name); !status)
      return status;
    m.compression.rules.clear();
    for (const std::string &word : words) {
      auto rule = compressionRuleFrom(word);
      if (!rule)
        return Error{fmt::format("<{}>: {}", name, rule.error().message)};
      m.compression.rules.push_back(std::move(*rule));
    }
    return ok();
  };
  readers["codec"] = [&m](const Json &value, const std::string &name) -> Status {
    Words paths;
    if (Status status = texts(paths)(value, name); !status)
      return status;
    for (const std::string &path : paths) {
      auto codec = readCodecFile(path);
      if (!codec)
        return Error{fmt::format("<{}>: {}", name, codec.error().message)};
      m.compression.texts.insert(std::move(*codec));
    }
    return ok();
  };
  readers["expert-capacity"] = [&m](const Json &value, const std::string &name) -> Status {
    m.expertCapacity = value.is_string()                              ? expertCapacityFrom(value.get<std::string>())
                       : value.is_number() && value.get<double>() > 0 ? std::optional(value.get<double>())
                                                                      : std::nullopt;
    return m.expertCapacity ? ok() : Status(wrong(name, value, "'exact' or a number above 0"));
  };
  readers["loss-scale"] = [&p](const Json &value, const std::string &name) -> Status {
    if (!value.is_string() && !value.is_number())
      return wrong(name, value, "'dynamic' or a number above 0 that f32 holds");
    p.lossScale = value.is_string() ? value.get<std::string>() : value.dump();
    return ok();
  };
  readers["memory"] = [&s](const Json &value, const std::string &name) -> Status {
    auto bytes = value.is_string() || value.is_number() ? byteCountFrom(shown(value)) : std::nullopt;
    if (!bytes)
      return wrong(name, value, "a number of bytes such as 85899345920, 80GiB or 80GB");
    s.memory = *bytes;
    return ok();
  };
  readers["seed"] = [&settings](const Json &value, const std::string &name) -> Status {
    if (!value.is_number_unsigned())
      return wrong(name, value, "a whole number from 0 to 2^64 - 1");
    settings.seed = value.get<uint64_t>();
    return ok();
  };
  for (const OptimizerSetting &setting : allSettings())
    readers[setting.name] = [&m, setting](const Json &value, const std::string &name) -> Status {
      const bool isSwitch = setting.kind == SettingKind::Switch;
      if (isSwitch ? !value.is_boolean() : !value.is_number())
        return wrong(name, value, isSwitch ? "true or false" : "a number");
      m.settings[setting.name] = isSwitch ? double(value.get<bool>()) : value.get<double>();
      return ok();
    };
  return readers;
}

/// Fails when a setting was given that no optimizer of the job has.
Status checkOptimizerSettings(const ModelSettings &model) {
  OptimizerOptions all = model.toStepOptions().optimizer;
  all.settings = model.settings;
  return checkSettings(all);
}

} // namespace

Result<JobSettings> readSettings(const Json &options, bool strict) {
  JobSettings settings;
  auto readers = readersOf(settings);
  if (!options.is_object())
    return Error{fmt::format("the settings of a job are {}; they have to be an object of names and values",
                             options.dump(-1, ' ', false, Json::error_handler_t::replace))};
  for (const auto &[key, value] : options.items()) {
    std::string name = key;
    std::replace(name.begin(), name.end(), '_', '-');
    auto reader = readers.find(name);
    if (reader == readers.end()) {
      Words known;
      for (const auto &[one, read] : readers)
        known.push_back(one);
      return Error{fmt::format("there is no setting '{}'; {}", key, suggestion(name, known))};
    }
    if (Status status = reader->second(value, name); !status)
      return status.error();
  }
  if (strict)
    if (Status status = checkOptimizerSettings(settings.model); !status)
      return status.error();
  return settings;
}

} // namespace kerf
