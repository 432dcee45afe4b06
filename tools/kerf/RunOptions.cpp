// SPDX-License-Identifier: Apache-2.0
#include "RunOptions.h"
#include "Checks.h"
#include "kerf/Runtime/Device.h"

#include <charconv>
#include <cmath>
#include <fmt/format.h>

namespace kerf::tool {

/// Reads the value of --emulate-link: bytes per second and, after a comma, seconds of latency.
static runtime::EmulatedLink linkFrom(const std::string &text) {
  constexpr double kLeastBytesPerSecond = 1e3, kMostSeconds = 60;
  runtime::EmulatedLink link;
  const char *at = text.data(), *end = at + text.size();
  auto number = [&](double &value) {
    auto [next, code] = std::from_chars(at, end, value);
    at = next;
    return code == std::errc() && std::isfinite(value);
  };
  bool read = number(link.bytesPerSecond) && link.bytesPerSecond >= kLeastBytesPerSecond;
  if (read && at != end)
    read =
        *at++ == ',' && number(link.latencySeconds) && link.latencySeconds >= 0 && link.latencySeconds <= kMostSeconds;
  if (!read || at != end)
    throw CLI::ValidationError("--emulate-link",
                               fmt::format("'{}' is not BYTES_PER_SECOND (at least {}) or BYTES_PER_SECOND,SECONDS (of "
                                           "latency, 0 to {}), such as 1e9,5e-5",
                                           text, kLeastBytesPerSecond, kMostSeconds));
  return link;
}

/// Returns the kinds of devices with their descriptions: "cpu (...), check (...)".
static std::string devicesText() {
  std::string text;
  for (const runtime::DeviceKind *kind : runtime::deviceKinds())
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", kind->kind, kind->what);
  return text;
}

void RunFlags::addStoredSettingsTo(CLI::App &command) {
  command.add_option("--lr", lr, "learning rate, 0 or more (default: 1e-3)")->check([](const std::string &text) {
    double rate = 0;
    const bool isRate = CLI::detail::lexical_cast(text, rate) && std::isfinite(rate) && rate >= 0;
    return isRate ? std::string() : fmt::format("'{}' is not a finite number of 0 or more", text);
  });
  command
      .add_option("--lr-schedule", schedule,
                  "shape of the learning rate after the warm-up: constant (default), or linear or cosine, which fall "
                  "to 0 at --total")
      ->check(CLI::IsMember({"constant", "linear", "cosine"}));
  command
      .add_option(
          "--warmup", warmup,
          "number N of first steps in which the learning rate rises linearly from 0 to --lr: step s has the rate lr * "
          "s / N (default: 0)")
      ->check(wholeNumber(0));
  command
      .add_option("--total", total,
                  "number of steps after which the learning-rate schedule ends, 1 or more (default: --steps)")
      ->check(wholeNumber(1));
  command
      .add_option(
          "--seed", seed,
          "seed of the random numbers of dropout, and of the initial weights of a model that has none, 0 to 2^64 - 1 "
          "(default: 0; docs/runtime.md)")
      ->check(unsignedNumber());
}

void RunFlags::addTo(CLI::App &command) {
  command
      .add_option(
          "--data", data,
          "training data: a .npz file, a folder of .npy files, or a folder of .npz or .npy shards, with one array for "
          "each input of the model, whose first axis counts steps (docs/training.md)")
      ->required();
  command.add_flag(
      "--samples", samples,
      "the first axis of the arrays of --data counts samples instead of steps; each batch takes the next samples");
  command.add_flag(
      "--shuffle", shuffle,
      "take the batches (with --samples: the samples) in a random order that --seed determines and that differs in "
      "each pass over the data");
  command.add_option(
      "--eval-data", evalData,
      "evaluation data in the form of --data: the mean loss on them is reported, and they do not train the model");
  command
      .add_option("--eval-every", evalEvery,
                  "number of steps between evaluations, 1 or more (default: one evaluation, after the last step)")
      ->check(wholeNumber(1));
  command
      .add_option("--eval-steps", evalSteps,
                  "number of batches of --eval-data in each evaluation, 1 or more (default: all)")
      ->check(wholeNumber(1));
  command
      .add_option("--steps", steps,
                  "total number of training steps, 1 or more; with --resume the steps before the checkpoint count too "
                  "(default: "
                  "as many as the data have)")
      ->check(wholeNumber(1));
  addStoredSettingsTo(command);
  command
      .add_option(
          "--threads", threads,
          "number of CPU threads of each rank, 1 to 1024 (default: 1); the results do not depend on this number")
      ->check(wholeNumber(1, 1024));
  command.add_option("--device", device, fmt::format("device on which each rank runs: {}", devicesText()));
  command.add_flag(
      "--deterministic", deterministic,
      "sum in the order of the ranks in every collective and use the same algorithm for a product in every run, so "
      "that every run gives bitwise equal results; a device that cannot do so is refused");
  command.add_flag("--tf32", tf32,
                   "round the factors of float32 products to TF32 (10 bits of mantissa), which GPUs multiply several "
                   "times as fast; a device without TF32 is refused");
  command.add_option("--save", save, "file for the trained weights: OUT.safetensors");
  command.add_option(
      "--save-hf", saveHf,
      "folder for the trained weights in the form of a Hugging Face checkpoint: config.json and model.safetensors");
  command.add_option("--hf-config", hfConfig,
                     "config.json to copy into the folder of --save-hf (default: MODEL, where it is a config.json)");
  command.add_option("--checkpoint", checkpoint,
                     "folder in which checkpoints are written during training (docs/checkpoints.md)");
  command
      .add_option("--every", every,
                  "number of steps between checkpoints, 1 or more (default: 100); a checkpoint is also written after "
                  "the last step")
      ->check(wholeNumber(1));
  command
      .add_option("--keep", keep,
                  "number of newest checkpoints to keep, 1 or more; older ones are deleted (default: 2)")
      ->check(wholeNumber(1));
  command.add_option(
      "--resume", resume,
      "continue from the newest checkpoint in this folder, which any plan of the same model may have written; "
      "learning-rate schedule and seed are those of the checkpoint unless they are given here");
  command
      .add_option(
          "--on-nan", onNan,
          "action after a step whose loss is infinite or NaN: stop ends the run and keeps the last checkpoint; skip "
          "undoes the update of this step; continue ignores it")
      ->check(CLI::IsMember({"stop", "skip", "continue"}))
      ->capture_default_str();
  command.add_option(
      "--log", log,
      "file to which one JSON object is appended after each step, with its loss and seconds: losses.jsonl");
  command.add_option("--trace", trace,
                     "file for the timeline of the last step, for chrome://tracing or Perfetto: T.json");
  command.add_option_function<std::string>(
      "--emulate-link", [this](const std::string &text) { link = linkFrom(text); },
      "delay the messages between ranks as a network link would that has this bandwidth in bytes per second (1000 or "
      "more) and this latency in seconds (0 to 60; default: 0); only for ranks that are threads of one process");
  command.add_option("--gradient-norms", gradientNorms,
                     "file for the L2 norm of each parameter's gradient at the first step: F.json");
}

} // namespace kerf::tool
