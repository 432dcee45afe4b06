// SPDX-License-Identifier: Apache-2.0
// Reads measured training steps from a CSV file, with the columns of benchmarks/published/README.md.
#include "kerf/Compiler/Calibrate.h"
#include "kerf/Support/Csv.h"
#include "kerf/Support/File.h"

#include <cmath>
#include <filesystem>
#include <fmt/format.h>

namespace kerf {

namespace {

using Json = nlohmann::ordered_json;
using Cells = std::vector<std::string>;

/// One row of the file, with its columns by name.
class Row {
public:
  Row(const Cells &names, const Cells &cells) : names(names), cells(cells) {}

  std::string text(std::string_view column) const {
    for (size_t i = 0; i < names.size() && i < cells.size(); ++i)
      if (names[i] == column)
        return trimmed(cells[i]);
    return "";
  }
  bool has(std::string_view column, std::string_view word) const {
    return text(column).find(word) != std::string::npos;
  }
  /// Returns the number in a column; 0 if the cell is empty. A cell that is no number above 0 is a fault.
  double number(std::string_view column) {
    std::string cell = text(column);
    if (cell.empty() || cell == "0")
      return 0;
    std::optional<double> value = positiveNumber(cell);
    if (!value && fault.empty())
      fault = fmt::format("{} is '{}'; give a number above 0, or leave it empty", column, cell);
    return value.value_or(0);
  }
  int64_t whole(std::string_view column, int64_t usual = 0) {
    double value = number(column);
    if (value > kMost && fault.empty())
      fault = fmt::format("{} is {}; at most {}", column, value, kMost);
    return value == 0 ? usual : static_cast<int64_t>(std::llround(std::min(value, kMost)));
  }
  /// Returns the number in a column that must not be empty.
  int64_t needed(std::string_view column) {
    int64_t value = whole(column);
    if (value == 0 && fault.empty())
      fault = fmt::format("'{}' is missing; give it, or give files in the columns 'model' and 'plan'", column);
    return value;
  }

  std::string fault; // the first one

private:
  static constexpr double kMost = 1e12;
  const Cells &names, &cells;
};

/// Returns the config.json of the model that the columns describe.
Json configOf(Row &row) {
  std::string arch = row.text("arch");
  int64_t layers = row.needed("layers"), hidden = row.needed("hidden"), heads = row.needed("heads"),
          sequence = row.needed("seq"), inner = row.whole("ffn", 4 * hidden), vocabulary = row.whole("vocab", 51200),
          groups = row.whole("kv_heads", heads), experts = row.whole("experts");
  bool gated = false;
  for (const char *word : {"llama", "mistral", "mixtral", "qwen", "swiglu", "gated"})
    gated |= arch.find(word) != std::string::npos;
  Json config = {{"num_hidden_layers", layers},        {"hidden_size", hidden},      {"num_attention_heads", heads},
                 {"num_key_value_heads", groups},      {"intermediate_size", inner}, {"vocab_size", vocabulary},
                 {"max_position_embeddings", sequence}};
  if (experts > 1) {
    if (!gated)
      row.fault = "its experts have no gate, which no family of docs/models.md has; give files in the columns 'model' "
                  "and 'plan'";
    config["model_type"] = "mixtral";
    config["num_local_experts"] = experts;
    config["num_experts_per_tok"] = row.whole("topk", 2);
  } else if (gated || groups != heads) { // a gate and 2/3 of the width have the work and activations of an ungated MLP
    config["model_type"] = "llama";
    config["tie_word_embeddings"] = false;
    if (!gated)
      config["intermediate_size"] = 2 * inner / 3;
  } else if (arch.find("bert") != std::string::npos) {
    config["model_type"] = "bert";
  } else {
    double dropped = row.text("dropout") == "yes" ? 0.1 : 0;
    config = {{"model_type", "gpt2"},   {"n_layer", layers},        {"n_embd", hidden},        {"n_head", heads},
              {"n_inner", inner},       {"vocab_size", vocabulary}, {"n_positions", sequence}, {"attn_pdrop", dropped},
              {"resid_pdrop", dropped}, {"embd_pdrop", dropped}};
  }
  return config;
}

/// Returns the plan.json that the columns describe.
Json planOf(Row &row) {
  int64_t model = row.whole("tp", 1), stages = row.whole("pp", 1), context = row.whole("cp", 1),
          expert = row.whole("ep", 1), data = row.whole("dp"), chunks = row.whole("vp", 1);
  if (data == 0)
    data = std::max<int64_t>(1, row.needed("gpus") / (model * stages * context));
  int64_t micro = row.whole("mbs"), times = row.whole("grad_accum"), batch = row.whole("gbs");
  if (batch == 0 && micro && times)
    batch = micro * times * data;
  if (micro == 0 && batch && times)
    micro = std::max<int64_t>(1, batch / (times * data));
  if ((batch == 0 || micro == 0) && row.fault.empty())
    row.fault = "its batch is not known; give two of 'gbs', 'mbs' and 'grad_accum'";
  if (data % expert != 0 && row.fault.empty())
    row.fault = fmt::format("it has {} expert ranks among {} data ranks; give an 'ep' that divides 'dp'", expert, data);
  std::string recompute = row.text("recompute"), zero = row.text("zero"), schedule = row.text("schedule"),
              attention = row.text("attention"), gradients = row.text("gradient_dtype");
  std::string_view mode = toString(Recompute::None); // a cell may say more, such as "full 8 layers"
  for (Recompute one : {Recompute::Full, Recompute::ExceptAttention, Recompute::Pointwise, Recompute::Selective})
    if (recompute.find(toString(one)) != std::string::npos)
      mode = toString(one);
  Json plan = {
      {"kerf", 1},
      {"mesh",
       {{"stage", stages}, {"data", data / expert}, {"context", context}, {"expert", expert}, {"model", model}}},
      {"global_batch", batch},
      {"microbatch", micro},
      {"recompute", mode},
      {"sequence_parallel", (row.text("sp") == "yes" || row.text("sp") == "1") && model > 1},
      {"optimizer_sharding", zero.find("distributed") != std::string::npos ? 1
                             : zero == "none"                              ? 0
                                                                           : row.whole("zero")}};
  if (!attention.empty())
    plan["attention"] = attention;
  if (!gradients.empty())
    plan["gradient_dtype"] = gradients;
  if (stages > 1 && schedule.find("ZB") != std::string::npos)
    plan["schedule"] = {{"name", "zero-bubble"}, {"variant", "h1"}};
  else if (stages > 1 && chunks > 1)
    plan["schedule"] = {{"name", "interleaved"}, {"chunks", chunks}};
  else if (stages > 1)
    plan["schedule"] = {{"name", "1f1b"}};
  return plan;
}

std::string dtypeOf(const Row &row) {
  for (const auto &[word, dtype] : {std::pair("fp8", "f8"), std::pair("f8", "f8"), std::pair("bf16", "bf16"),
                                    std::pair("fp32", "f32"), std::pair("f32", "f32"), std::pair("16", "f16")})
    if (row.has("dtype", word))
      return dtype;
  return "bf16";
}

/// Reads the profile of one rank that the columns name, if they do.
Status readProfile(MeasuredRun &run, Row &row, const std::string &folder) {
  std::string file = row.text("profile");
  if (file.empty())
    return ok();
  std::string path = (std::filesystem::path(folder) / file).string();
  auto text = readFile(path);
  if (!text)
    return text.error();
  auto profile = parseKernelProfile(*text, path);
  if (!profile)
    return profile.error();
  int64_t steps = row.whole("profile_steps"), stage = row.text("profile_stage") == "0" ? 0 : row.whole("profile_stage");
  if (!row.fault.empty())
    return Error{row.fault};
  if (steps == 0 && profile->steps == 0)
    return Error{
        fmt::format("{} does not say how many steps it has; give their number in the column 'profile_steps'", path)};
  if (steps > 0)
    profile->steps = steps;
  auto axis = run.plan.meshSizes.find("stage");
  int64_t stages = axis == run.plan.meshSizes.end() ? 1 : axis->second;
  if (stage >= stages)
    return Error{fmt::format("profile_stage is {}, but the plan has {} pipeline stages, counted from 0; give 0 to {}",
                             stage, stages, stages - 1)};
  run.profileStage = stage;
  run.profile = *profile;
  return ok();
}

Result<MeasuredRun> runOf(Row &row, const std::string &name, const std::string &folder) {
  MeasuredRun run{.name = name, .model = ModelSource(""), .plan = Plan()};
  run.dtype = dtypeOf(row);
  run.sequence = row.whole("seq");
  if (std::string file = row.text("model"), plan = row.text("plan"); !file.empty() && !plan.empty()) {
    run.model = ModelSource((std::filesystem::path(folder) / file).string());
    auto read = readPlan((std::filesystem::path(folder) / plan).string());
    if (!read)
      return read.error();
    run.plan = std::move(*read);
  } else {
    Json config = configOf(row), described = planOf(row);
    if (!row.fault.empty())
      return Error{row.fault};
    run.model = ModelSource::inMemory(ModelFormat::Config, config.dump(), name);
    auto parsed = parsePlan(described.dump(), name);
    if (!parsed)
      return parsed.error();
    run.plan = std::move(*parsed);
  }
  auto gpus = static_cast<double>(run.plan.mesh().ranks());
  double tokens = static_cast<double>(run.plan.globalBatch) * static_cast<double>(run.sequence);
  run.seconds = row.number("iter_time_s");
  if (double rate = row.number("tokens_s_total"); run.seconds == 0 && rate > 0)
    run.seconds = tokens / rate;
  if (double rate = row.number("tokens_s_gpu"); run.seconds == 0 && rate > 0)
    run.seconds = tokens / rate / gpus;
  if (double rate = row.number("samples_s"); run.seconds == 0 && rate > 0)
    run.seconds = static_cast<double>(run.plan.globalBatch) / rate;
  if (Status read = readProfile(run, row, folder); !read)
    return read.error();
  if (!row.fault.empty())
    return Error{row.fault};
  return run;
}

} // namespace

Result<std::vector<MeasuredRun>> parseRuns(std::string_view csv, const std::string &where, const std::string &folder) {
  std::vector<Cells> records = csvRecords(csv);
  if (records.size() < 2)
    return Error{
        fmt::format("{} has no rows; its first line names the columns (benchmarks/published/README.md), and each "
                    "further line is a run",
                    where)};
  std::vector<MeasuredRun> runs;
  for (size_t i = 1; i < records.size(); ++i) {
    Row row(records.front(), records[i]);
    std::string name = row.text("id");
    auto run = runOf(row, name.empty() ? fmt::format("run {}", i) : name, folder);
    if (!run)
      return Error{
          fmt::format("{}, run {}{}: {}", where, i, name.empty() ? "" : " (" + name + ")", run.error().message)};
    runs.push_back(std::move(*run));
  }
  return runs;
}

} // namespace kerf
