// SPDX-License-Identifier: Apache-2.0
// Profiles of kernels. A trace of PyTorch's profiler is read event by event, because traces of real steps have
// hundreds of megabytes.
#include "kerf/Compiler/KernelProfile.h"
#include "kerf/Support/Csv.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

namespace kerf {

namespace {

struct NameWord {
  std::string_view word; // a part of a kernel's name, in lower case
  ProfiledKernel kind;
};
/// The first word that a kernel's name contains says what the kernel is. Libraries of attention are built from products
/// (fmha_cutlassF), and collectives may do sums, so the order matters.
constexpr NameWord kWords[] = {
    {"triton_poi",
     ProfiledKernel::Memory}, // PyTorch's compiler names a kernel after all ops around it: triton_poi_fused_add_mm_3
    {"triton_red", ProfiledKernel::Memory},
    {"triton_per", ProfiledKernel::Memory},
    {"nccl", ProfiledKernel::Collective},     // ncclDevKernel_AllReduce_Sum_bf16_RING_LL
    {"rccl", ProfiledKernel::Collective},     // AMD's NCCL
    {"nvshmem", ProfiledKernel::Collective},  // expert exchanges (DeepEP)
    {"multimem", ProfiledKernel::Collective}, // PyTorch's symmetric memory
    {"one_shot_all", ProfiledKernel::Collective},
    {"two_shot_all", ProfiledKernel::Collective},
    {"userbuffers", ProfiledKernel::Collective}, // Transformer Engine's overlap of products and collectives
    {"flash", ProfiledKernel::Attention},        // flash_fwd_kernel, flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel
    {"fmha", ProfiledKernel::Attention},         // fmha_cutlassF, Transformer Engine
    {"sdpa", ProfiledKernel::Attention},         // cudnn_generated_fort_native_sdpa_sm90_flash_fprop
    {"attention", ProfiledKernel::Attention},    // triton_tem_fused_flex_attention
    {"gemm", ProfiledKernel::Product}, // ampere_bf16_s16816gemm_bf16_128x128, sm80_xmma_gemm, cutlass::Kernel gemm
    {"gemv", ProfiledKernel::Product},
    {"nvjet", ProfiledKernel::Product}, // cuBLAS on Hopper and Blackwell: nvjet_hsh_128x256
    {"splitkreduce", ProfiledKernel::Product},
    {"cutlass", ProfiledKernel::Product},
    {"cijk_", ProfiledKernel::Product}, // rocBLAS, hipBLASLt
    {"wgrad", ProfiledKernel::Product},
    {"dgrad", ProfiledKernel::Product},
    {"convolve", ProfiledKernel::Product},
    {"conv2d", ProfiledKernel::Product},
    {"matmul", ProfiledKernel::Product},
    {"_mm_", ProfiledKernel::Product},       // triton_tem_fused_mm_0
    {"triton_tem", ProfiledKernel::Product}, // other templates of PyTorch's compiler
    {"memcpy", ProfiledKernel::Copy},        // "Memcpy HtoD (Pinned -> Device)"
    {"memset", ProfiledKernel::Copy},
};

constexpr double kSecondsOfMicrosecond = 1e-6;
constexpr std::string_view kStepPrefix = "ProfilerStep#";

void addKernel(KernelProfile &profile, std::string_view name, double seconds, int64_t kernels) {
  profile.seconds[static_cast<size_t>(classOfKernel(name))] += seconds;
  profile.kernels += kernels;
}

/// Takes the events of a trace one by one, without building the whole document.
class TraceReader : public nlohmann::json::json_sax_t {
public:
  KernelProfile profile;
  std::string fault;      // what is wrong with the trace
  int64_t events = 0;     // number of events of the trace
  bool hasEvents = false; // whether the document has a list of events

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(int64_t value) override { return number(static_cast<double>(value)); }
  bool number_unsigned(uint64_t value) override { return number(static_cast<double>(value)); }
  bool number_float(double value, const std::string &) override { return number(value); }
  bool binary(nlohmann::json::binary_t &) override { return true; }
  bool string(std::string &value) override {
    if (!inEvent())
      return true;
    if (lastKey == "name")
      name = value;
    else if (lastKey == "cat")
      category = value;
    else if (lastKey == "ph")
      phase = value;
    return true;
  }
  bool key(std::string &value) override {
    lastKey = value;
    return true;
  }
  bool start_array(size_t) override {
    if (eventsAt == 0 && (depth == 0 || (depth == 1 && lastKey == "traceEvents"))) {
      eventsAt = depth + 1;
      hasEvents = true;
    }
    ++depth;
    return true;
  }
  bool end_array() override {
    if (--depth < eventsAt)
      eventsAt = kDone;
    return true;
  }
  bool start_object(size_t) override {
    ++depth;
    if (inEvent()) {
      name.clear();
      category.clear();
      phase.clear();
      duration.reset();
    }
    return true;
  }
  bool end_object() override {
    bool good = !inEvent() || event();
    --depth;
    return good;
  }
  bool parse_error(size_t position, const std::string &, const nlohmann::json::exception &) override {
    if (fault.empty())
      fault = fmt::format("it is no JSON after byte {}; is the file complete?", position);
    return false;
  }

private:
  static constexpr size_t kDone = 1 << 30;
  /// Whether the parser is directly inside of an event, not inside of its arguments.
  bool inEvent() const { return eventsAt > 0 && depth == eventsAt + 1; }
  bool number(double value) {
    if (inEvent() && lastKey == "dur")
      duration = value;
    return true;
  }
  bool event() {
    ++events;
    if (name.starts_with(kStepPrefix) && steps.insert(name).second)
      profile.steps = static_cast<int64_t>(steps.size());
    std::string kind = lowerCase(category);
    if (phase != "X" || (kind != "kernel" && kind != "gpu_memcpy" && kind != "gpu_memset"))
      return true;
    if (!duration || !(*duration >= 0) || !std::isfinite(*duration)) {
      fault = fmt::format("event {} ('{}') has no duration 'dur' of 0 or more microseconds", events, name);
      return false;
    }
    addKernel(profile, kind == "kernel" ? name : "memcpy", *duration * kSecondsOfMicrosecond, 1);
    return true;
  }

  size_t depth = 0, eventsAt = 0; // eventsAt: the depth inside of the list of events; 0: not reached yet
  std::string lastKey, name, category, phase;
  std::optional<double> duration; // microseconds
  std::set<std::string> steps;
};

Result<KernelProfile> parseTrace(std::string_view text, const std::string &where) {
  TraceReader reader;
  nlohmann::json::sax_parse(text.begin(), text.end(), &reader);
  if (!reader.fault.empty())
    return Error{
        fmt::format("{}: {}; give the trace as torch.profiler wrote it (export_chrome_trace)", where, reader.fault)};
  if (!reader.hasEvents)
    return Error{fmt::format("{}: it is JSON without a list 'traceEvents'; give a trace that torch.profiler wrote "
                             "(export_chrome_trace)",
                             where)};
  if (reader.profile.kernels == 0)
    return Error{fmt::format("{}: none of its {} events is a kernel of a GPU; profile with ProfilerActivity.CUDA",
                             where, reader.events)};
  return reader.profile;
}

/// Returns the seconds of the unit in a heading such as "Total Time (ns)"; 0 if there is none.
double unitOf(std::string_view heading) {
  for (const auto &[unit, seconds] : {std::pair("(ns)", 1e-9), std::pair("(us)", 1e-6), std::pair("(\xC2\xB5s)", 1e-6),
                                      std::pair("(ms)", 1e-3), std::pair("(s)", 1.0), std::pair("(sec)", 1.0)})
    if (heading.find(unit) != std::string_view::npos)
      return seconds;
  return 0;
}

Result<KernelProfile> parseSummary(std::string_view text, const std::string &where) {
  KernelProfile profile;
  size_t time = 0, name = 0, count = 0, columns = 0;
  double unit = 0;
  std::vector<std::vector<std::string>> records = csvRecords(text);
  for (size_t i = 0; i < records.size(); ++i) {
    const std::vector<std::string> &cells = records[i];
    if (columns == 0) { // nsys prints lines about its work before the table
      for (size_t c = 0; c < cells.size(); ++c) {
        std::string heading = trimmed(cells[c]);
        if (heading.starts_with("Total Time")) {
          time = c;
          unit = unitOf(heading);
        } else if (heading == "Name" || heading == "Kernel Name") {
          name = c;
          columns = cells.size();
        } else if (heading == "Instances") {
          count = c;
        }
      }
      columns = unit > 0 ? columns : 0;
      continue;
    }
    if (cells.size() != columns)
      return Error{fmt::format("{}: record {} has {} cells, and the heading {}; give the CSV as nsys wrote it", where,
                               i + 1, cells.size(), columns)};
    auto seconds = positiveNumber(trimmed(cells[time]));
    if (!seconds)
      return Error{fmt::format("{}: record {} has the total time '{}', which is no number above 0; give the CSV as "
                               "nsys wrote it",
                               where, i + 1, cells[time])};
    auto kernels = count ? positiveNumber(trimmed(cells[count])) : std::nullopt;
    addKernel(profile, cells[name], *seconds * unit, static_cast<int64_t>(std::min(kernels.value_or(1), 1e15)));
  }
  if (columns == 0)
    return Error{fmt::format("{}: it is neither a trace of PyTorch's profiler (JSON with 'traceEvents') nor a CSV with "
                             "the columns 'Total Time (ns)' and 'Name'; make one by nsys stats --report "
                             "cuda_gpu_kern_sum --format csv",
                             where)};
  if (profile.kernels == 0)
    return Error{fmt::format("{}: its table has no kernel; profile with nsys profile --trace cuda", where)};
  return profile;
}

} // namespace

ProfiledKernel classOfKernel(std::string_view name) {
  std::string text = lowerCase(name);
  for (const NameWord &word : kWords)
    if (text.find(word.word) != std::string::npos)
      return word.kind;
  return ProfiledKernel::Memory;
}

Result<KernelProfile> parseKernelProfile(std::string_view text, const std::string &where) {
  if (text.starts_with("\x1f\x8b"))
    return Error{fmt::format("{}: it is compressed by gzip; unpack it first: gunzip {}", where, where)};
  if (text.starts_with("SQLite format"))
    return Error{fmt::format("{}: it is a database of Nsight Systems; make a table of its kernels first: nsys stats "
                             "--report cuda_gpu_kern_sum --format csv {}",
                             where, where)};
  size_t begin = text.find_first_not_of(" \t\r\n");
  bool json = begin != std::string_view::npos && (text[begin] == '{' || text[begin] == '[');
  return json ? parseTrace(text, where) : parseSummary(text, where);
}

} // namespace kerf
