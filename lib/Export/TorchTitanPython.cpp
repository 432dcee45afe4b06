// SPDX-License-Identifier: Apache-2.0
// Export to TorchTitan 0.3, which is configured in Python: a module with a function that returns the configuration of a
// job, model included. The keys that 0.3 treats as 0.2 does are those of TorchTitan.cpp.
#include "TorchTitanModel.h"

#include <algorithm>

namespace kerf::exporting {

namespace {

/// Puts `now` in the place of `then` in the texts of the decisions from `first` on.
void rename(Draft &out, size_t first, const std::string &then, const std::string &now) {
  for (size_t i = first; i < out.decisions.size(); ++i)
    if (size_t at = out.decisions[i].text.find(then); at != std::string::npos)
      out.decisions[i].text.replace(at, then.size(), now);
}

void writeFamily(const View &view, Draft &out) {
  if (const TitanFlavor *flavor = titanFlavorOf(view.model))
    return out.expressed(fmt::format("model_registry(\"{}\") of {}", flavor->name, flavor->module));
  if (std::string lacking = titanLacks(view.model); !lacking.empty())
    return out.differs(fmt::format("TorchTitan has no {}", lacking));
  out.expressed("model_spec() describes the model size by size");
}

void writeStageAxis(const View &view, Draft &out) {
  out.file("parallelism.pipeline_parallel_degree", view.pipeline);
  if (view.pipeline > 1)
    out.file("training.disable_cuda_graphs", true); // TorchTitan refuses graphs of pipelines and of exchanged tokens
}

void writeExpert(const View &view, Draft &out) {
  if (view.expert == 1)
    return out.idle("1");
  if (!view.experts())
    return out.expressed("the model has no experts: part of data_parallel_shard_degree");
  out.file("training.disable_cuda_graphs", true);
  out.file("parallelism.expert_parallel_degree", view.expert);
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

void writeSchedule(const View &view, Draft &out) {
  if (view.pipeline == 1)
    return out.idle("one stage");
  out.file("parallelism.pipeline_parallel_schedule", titanSchedule(view));
  if (!titanReadsOrder(view))
    return;
  out.readsOrder = true;
  out.file("parallelism.pipeline_parallel_schedule_csv", "");
  out.decisions.back().text =
      "parallelism.pipeline_parallel_schedule_csv: a file with the plan's order of every stage's tasks";
}

/// Writes the overlap. PyTorch's runtime for orders from a file waits for messages only before a task needs them.
void writeOverlap(const View &view, Draft &out) {
  size_t first = out.decisions.size();
  writeTitanOverlap(view, out,
                    titanReadsOrder(view) || view.schedule == ScheduleKind::GPipe ||
                        view.schedule == ScheduleKind::Interleaved);
  rename(out, first, "parallelism.enable_async_tensor_parallel", "compile.enable_async_tensor_parallel");
}

void writeDtype(const View &view, Draft &out) {
  const std::string &dtype = view.in.job.dtype;
  out.file("training.mixed_precision_param", dtype == "f32" ? "float32" : "bfloat16");
  if (dtype != "f8")
    return;
  out.file("converters", Json::array({"float8"}));
  out.file("compile.enable", true); // TorchTitan's float8 products are fast only in compiled models
}

/// Returns the row of TorchTitan 0.2 for `key`, whose texts have `now` in the place of `then`.
Row renamed(const char *key, std::string then, std::string now) {
  return {key, [=](const View &view, Draft &out) {
            size_t first = out.decisions.size();
            for (const Row &row : torchTitanTable())
              if (std::string(row.key) == key)
                row.write(view, out);
            rename(out, first, then, now);
          }};
}

/// Returns the fields of a section as arguments of its Python class, one a line.
std::string fieldsText(const Json &section) {
  std::string text;
  for (const auto &[key, value] : section.items()) {
    if (key == "pipeline_parallel_schedule_csv") {
      text += fmt::format("            {}=SCHEDULE,\n", key);
      continue;
    }
    if (key != "module_fqns_per_model_part") {
      text += fmt::format("            {}={},\n", key, pythonValue(value));
      continue;
    }
    text += fmt::format("            {}=[\n", key);
    for (const Json &part : value)
      text += fmt::format("                {},\n", pythonValue(part));
    text += "            ],\n";
  }
  return text;
}

constexpr const char *kVariables = R"(
# Set these for your run, here or as variables of the environment.
TOKENIZER = os.environ.get("TOKENIZER", "./assets/tokenizer")  # folder with the tokenizer's files
DATASET = os.environ.get("DATASET", "c4")  # a name of torchtitan.hf_datasets.text_datasets.DATASETS
DATASET_PATH = os.environ.get("DATASET_PATH") or None  # where its files are; None: its own address
LEARNING_RATE = float(os.environ.get("LEARNING_RATE", "3e-4"))
WARMUP_STEPS = int(os.environ.get("WARMUP_STEPS", "200"))
STEPS = int(os.environ.get("STEPS", "10000"))
OUTPUT = os.environ.get("OUTPUT", "./outputs")
MOCK_DATA = os.environ.get("MOCK_DATA") == "1"  # ten steps on random tokens, without a tokenizer and without data
)";

constexpr const char *kMock = R"(

class RandomTokens(BaseTokenizer):
    """A tokenizer that makes random tokens of any text, for MOCK_DATA=1."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseTokenizer.Config):
        pass

    def __init__(self, config, *, tokenizer_path):
        super().__init__()
        self.eos_id = 0

    def encode(self, text, **options):
        return random.Random(text).choices(range({vocabulary}), k=1024)

    def decode(self, tokens, **options):
        return " ".join(map(str, tokens))

    def get_vocab_size(self):
        return {vocabulary}


if MOCK_DATA:
    STEPS, WARMUP_STEPS, DATASET, DATASET_PATH = 10, 2, "mock", ""
    DATASETS["mock"] = DatasetConfig(
        path="", loader=lambda path: Dataset.from_list([{{"text": str(line)}} for line in range(65536)]),
        sample_processor=lambda sample: sample["text"])
)";

constexpr const char *kJob = R"(

def job():
    spec = model_spec()
    return Trainer.Config(
        model_spec=spec,
        loss=ChunkedLossWrapper.Config(loss_fn=CrossEntropyLoss.Config(global_vocab_size=decoder_vocab_size(spec))),
        optimizer=default_adamw(lr=LEARNING_RATE{optimizer}),
        lr_scheduler=LRSchedulersContainer.Config(warmup_steps=WARMUP_STEPS),
        training=TrainingConfig(
            steps=STEPS,
{training}        ),
        parallelism=ParallelismConfig(
{parallelism}        ),
        compile=CompileConfig({compile}),
        activation_checkpoint={recompute},
        tokenizer=RandomTokens.Config() if MOCK_DATA else HuggingFaceTokenizer.Config(),
        dataloader=HuggingFaceTextDataLoader.Config(dataset=DATASET, dataset_path=DATASET_PATH),
        metrics=MetricsProcessor.Config(log_freq=1 if MOCK_DATA else 10),
        checkpoint=CheckpointManager.Config(enable=not MOCK_DATA, interval=500),
        hf_assets_path=TOKENIZER,
        dump_folder=OUTPUT,
    )
)";

} // namespace

const Table &torchTitanPythonTable() {
  static const Table table = [] {
    Table rows = {
        {"model.family", writeFamily},
        {"mesh.stage", writeStageAxis},
        {"mesh.expert", writeExpert},
        {"recompute", writeRecompute},
        {"sequence_parallel", writeSequenceParallel},
        {"dtype", writeDtype},
        {"overlap", writeOverlap},
        {"schedule.name", writeSchedule},
        {"schedule.variant",
         [](const View &v, Draft &out) {
           v.pipeline == 1 ? out.idle("one stage") : out.expressed("the order in the file of the schedule");
         }},
        {"schedule.in_flight",
         [](const View &v, Draft &out) {
           v.pipeline == 1 ? out.idle("one stage") : out.expressed("the order in the file of the schedule");
         }},
        renamed("stages", "\"output\"]", "\"lm_head\"]"),
        renamed("model.sizes", "and without a model's name TorchTitan trains llama3/debugmodel",
                "so the model cannot be written in Python"),
        {"context_style",
         [](const View &v, Draft &out) {
           if (v.context == 1)
             return out.idle("mesh.context is 1");
           out.file("parallelism.context_parallel_load_balancer", "ptrr"); // for the masks of FlexAttention
           out.runs.plan.contextStyle = ContextStyle::Ring;
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
           out.runs.optimizer = "adamw";
           if (v.in.optimizer.kind == "sgd")
             out.differs("AdamW runs instead, whose states take memory that the plan does not count");
           out.expressed("default_adamw");
         }},
    };
    rows.insert(rows.end(), torchTitanTable().begin(), torchTitanTable().end());
    return rows;
  }();
  return table;
}

bool titanReadsOrder(const View &view) {
  if (view.pipeline == 1 || view.schedule == ScheduleKind::GPipe)
    return false;
  if (view.schedule == ScheduleKind::Interleaved) // PyTorch's has the same order, but wants rounds of the same size
    return view.microbatches % std::max<int64_t>(1, view.microbatches / view.pipeline) != 0;
  return view.schedule != ScheduleKind::OneFOneB || view.overlaps("stage") || view.microbatches < view.pipeline;
}

std::string pytorchOrderText(const Schedule &schedule) {
  std::string text;
  for (int64_t stage = 0; stage < schedule.stages; ++stage) {
    std::vector<std::string> tasks;
    for (const Task &task : schedule.order[stage])
      tasks.push_back(fmt::format("{}{}{}", task.chunk * schedule.stages + stage, "FBIW"[static_cast<int>(task.kind)],
                                  task.microbatch));
    text += fmt::format("{}\n", fmt::join(tasks, ","));
  }
  return text;
}

std::string torchTitanPythonText(const std::vector<std::string> &head, Json config, const ModelSizes &model,
                                 const OrderFile *order) {
  using namespace fmt::literals;
  std::string recompute = config.value("activation_checkpoint", "none");
  if (bool async = config["parallelism"].erase("enable_async_tensor_parallel"); async)
    config["compile"]["enable_async_tensor_parallel"] = true;
  if (auto &parallelism = config["parallelism"]; parallelism.contains("module_fqns_per_model_part"))
    parallelism["module_fqns_per_model_part"].back().back() = "lm_head"; // 0.2 calls this module output
  bool float8 = config.contains("converters");
  std::string text;
  for (const std::string &line : head)
    text += line.empty() ? "#\n" : "# " + line + "\n";
  text += "import os\nimport random\nfrom dataclasses import dataclass\n\n";
  if (order && order->splitBackward)
    text += "import torch._functorch.config\n";
  text += "from datasets import Dataset\n"
          "from torchtitan.components.checkpoint import CheckpointManager\n"
          "from torchtitan.components.loss import ChunkedLossWrapper, CrossEntropyLoss\n"
          "from torchtitan.components.metrics import MetricsProcessor\n"
          "from torchtitan.components.optimizer import LRSchedulersContainer, default_adamw\n";
  if (float8)
    text += "from torchtitan.components.quantization import Float8LinearConverter\n";
  text += "from torchtitan.components.tokenizer import BaseTokenizer, HuggingFaceTokenizer\n"
          "from torchtitan.config import CompileConfig, ParallelismConfig, TrainingConfig\n";
  const char *policy = recompute == "full" ? "FullAC" : recompute == "selective" ? "SelectiveAC" : nullptr;
  if (policy)
    text += fmt::format("from torchtitan.distributed.activation_checkpoint import {}\n", policy);
  text += "from torchtitan.hf_datasets import DatasetConfig\n"
          "from torchtitan.hf_datasets.text_datasets import DATASETS, HuggingFaceTextDataLoader\n"
          "from torchtitan.models.common.config_utils import decoder_vocab_size\n"
          "from torchtitan.trainer import Trainer\n";
  text += titanModelText(
      model,
      float8 ? "[Float8LinearConverter.Config(recipe_name=FLOAT8_RECIPE, filter_fqns=[\"lm_head\", \"router.gate\"], "
               "model_compile_enabled=True)]"
             : "");
  text += kVariables;
  if (float8)
    text += "# A scale for each row; with rowwise_with_gw_hp products of weight gradients stay in bfloat16.\n"
            "FLOAT8_RECIPE = os.environ.get(\"FLOAT8_RECIPE\", \"rowwise\")\n";
  if (order)
    text += fmt::format("# The order in which every stage runs its tasks.\n"
                        "SCHEDULE = os.path.join(os.path.dirname(os.path.abspath(__file__)), {})\n",
                        pythonValue(order->name));
  if (order && order->splitBackward)
    text += "# Both halves of a backward read what compiled attention keeps.\n"
            "torch._functorch.config.donated_buffer = False\n";
  text += fmt::format(fmt::runtime(kMock), "vocabulary"_a = model.vocabulary);
  std::string optimizer, compile;
  const Json settings = config.value("optimizer", Json::object());
  for (const auto &[key, value] : settings.items())
    if (key != "name")
      optimizer +=
          fmt::format(", {}={}", key,
                      key == "betas" ? fmt::format("({}, {})", value[0].dump(), value[1].dump()) : pythonValue(value));
  const Json compiled = config.value("compile", Json::object());
  for (const auto &[key, value] : compiled.items())
    compile += fmt::format("{}{}={}", compile.empty() ? "" : ", ", key, pythonValue(value));
  return text + fmt::format(fmt::runtime(kJob), "optimizer"_a = optimizer,
                            "training"_a = fieldsText(config.value("training", Json::object())),
                            "parallelism"_a = fieldsText(config["parallelism"]), "compile"_a = compile,
                            "recompute"_a = policy ? fmt::format("{}.Config()", policy) : "None");
}

} // namespace kerf::exporting
