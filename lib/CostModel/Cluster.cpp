// SPDX-License-Identifier: Apache-2.0
// Reading, checking and writing of cluster files.
#include "kerf/CostModel/Cluster.h"
#include "kerf/Support/File.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <nlohmann/json.hpp>

using namespace kerf;
using Json = nlohmann::ordered_json;

namespace {

constexpr int64_t kMaxRanks = int64_t(1) << 31; // rank numbers must fit everywhere, MPI's int included

/// Reads members of one JSON object; the first thing that is wrong is kept as the message.
class Reader {
public:
  Reader(const Json &object, std::string path, std::string &message)
      : object(object), path(std::move(path)), message(message) {
    if (!object.is_object())
      fail("must be an object");
  }
  bool has(const char *key) const { return object.is_object() && object.contains(key); }

  std::string text(const char *key, const char *fallback) {
    const Json *value = find(key, fallback == nullptr);
    if (!value)
      return fallback ? fallback : "";
    if (!value->is_string()) {
      fail(fmt::format("{} must be a text, not {}", key, value->dump()));
      return "";
    }
    return value->get<std::string>();
  }
  /// Positive (`fallback` stands for an absent one), finite.
  double positive(const char *key, double fallback = std::numeric_limits<double>::quiet_NaN()) {
    const Json *value = find(key, std::isnan(fallback));
    return value ? positiveValue(*value, key) : fallback;
  }
  double notNegative(const char *key, double fallback) {
    const Json *value = find(key, std::isnan(fallback));
    if (!value)
      return fallback;
    double number = value->is_number() ? value->get<double>() : -1;
    if (!(number >= 0) || std::isinf(number))
      fail(fmt::format("{} is {}; must be a finite number, 0 or more", key, value->dump()));
    return number;
  }
  /// A whole number of 1 or more, written as 8 or as 8e1; `fallback` 0 or more stands for an absent one.
  int64_t count(const char *key, int64_t fallback = -1) {
    const Json *value = find(key, fallback < 0);
    if (!value)
      return fallback;
    double number = value->is_number() ? value->get<double>() : 0;
    if (!(number >= 1) || number > 9e18 || number != std::floor(number)) {
      fail(fmt::format("{} is {}; must be a whole number, 1 or more", key, value->dump()));
      return 1;
    }
    return value->is_number_integer() ? value->get<int64_t>() : static_cast<int64_t>(number);
  }
  double positiveValue(const Json &value, std::string_view key) {
    double number = value.is_number() ? value.get<double>() : 0;
    if (!(number > 0) || std::isinf(number))
      fail(fmt::format("{} is {}; must be a finite number above 0", key, value.dump()));
    return number;
  }
  const Json *find(const char *key, bool required) {
    if (has(key))
      return &object.at(key);
    if (required)
      fail(fmt::format("lacks \"{}\"", key));
    return nullptr;
  }
  void fail(const std::string &what) {
    if (message.empty())
      message = path.empty() ? what : path + ": " + what;
  }

private:
  const Json &object;
  std::string path;
  std::string &message;
};

/// Keys of device.curves; Share: above 0 and at most 1.
enum class CurveRange { Positive, NotNegative, Share };
struct CurveKey {
  const char *key;
  double DeviceCurves::*member;
  CurveRange range;
};
constexpr CurveKey kCurveKeys[] = {
    {"processors", &DeviceCurves::processors, CurveRange::Positive},
    {"product_efficiency", &DeviceCurves::productEfficiency, CurveRange::Share},
    {"product_overhead_k", &DeviceCurves::productOverheadK, CurveRange::NotNegative},
    {"product_quantization", &DeviceCurves::productQuantization, CurveRange::NotNegative},
    {"attention_efficiency", &DeviceCurves::attentionEfficiency, CurveRange::Share},
    {"attention_half_length", &DeviceCurves::attentionHalfLength, CurveRange::NotNegative},
    {"memory_efficiency", &DeviceCurves::memoryEfficiency, CurveRange::Share},
    {"launch_seconds", &DeviceCurves::launchSeconds, CurveRange::NotNegative},
    {"issue_seconds", &DeviceCurves::issueSeconds, CurveRange::NotNegative},
    {"collective_seconds", &DeviceCurves::collectiveSeconds, CurveRange::NotNegative},
    {"sustained", &DeviceCurves::sustained, CurveRange::Share},
    {"product_memory_efficiency", &DeviceCurves::productMemory, CurveRange::Share},
    {"reduction_memory_efficiency", &DeviceCurves::reductionMemory, CurveRange::Share},
    {"gather_memory_efficiency", &DeviceCurves::gatherMemory, CurveRange::Share},
    {"movement_memory_efficiency", &DeviceCurves::movementMemory, CurveRange::Share},
    {"pointwise_flops_efficiency", &DeviceCurves::pointwiseFlops, CurveRange::Share},
    {"reduction_flops_efficiency", &DeviceCurves::reductionFlops, CurveRange::Share},
    {"context_bytes", &DeviceCurves::contextBytes, CurveRange::NotNegative},
    {"product_overhead_m", &DeviceCurves::productOverheadM, CurveRange::NotNegative},
    {"product_overhead_n", &DeviceCurves::productOverheadN, CurveRange::NotNegative},
    {"product_call_seconds", &DeviceCurves::productCallSeconds, CurveRange::NotNegative},
    {"attention_half_width", &DeviceCurves::attentionHalfWidth, CurveRange::NotNegative},
    {"cache_bytes", &DeviceCurves::cacheBytes, CurveRange::NotNegative},
    {"cache_speedup", &DeviceCurves::cacheSpeedup, CurveRange::Positive},
    {"host_cores", &DeviceCurves::hostCores, CurveRange::NotNegative},
    {"host_memory_bandwidth", &DeviceCurves::hostMemoryBandwidth, CurveRange::NotNegative},
    {"reduce_share", &DeviceCurves::reduceShare, CurveRange::Share},
};

void readCurves(const Json &json, DeviceCurves &curves, std::string &message) {
  Reader reader(json, "device.curves", message);
  for (const CurveKey &key : kCurveKeys) {
    double &value = curves.*key.member;
    value = key.range == CurveRange::NotNegative ? reader.notNegative(key.key, value) : reader.positive(key.key, value);
    if (key.range == CurveRange::Share && value > 1)
      reader.fail(fmt::format("{} is {}; a share is at most 1", key.key, value));
  }
  if (curves.productQuantization > 1)
    reader.fail(fmt::format("product_quantization is {}; at most 1", curves.productQuantization));
}

Device readDevice(const Json &json, std::string &message) {
  Reader reader(json, "device", message);
  Device device;
  device.kind = reader.text("kind", nullptr);
  if (message.empty() && device.kind != "cpu" && device.kind != "cuda" && device.kind != "ascend")
    reader.fail(fmt::format("kind is \"{}\"; must be \"cpu\", \"cuda\" or \"ascend\"", device.kind));
  device.name = reader.text("name", "");
  device.memoryBytes = reader.count("memory_bytes");
  device.memoryBandwidth = reader.positive("memory_bandwidth");
  device.cores = static_cast<int>(std::min<int64_t>(reader.count("cores", 0), 1 << 20));
  device.profile = reader.text("profile", "");
  device.curves = defaultCurves(device.kind, device.name);
  if (const Json *curves = reader.find("curves", false))
    readCurves(*curves, device.curves, message);
  const Json *peaks = reader.find("peak_flops", true);
  if (peaks && (!peaks->is_object() || peaks->empty())) {
    reader.fail("peak_flops must be an object with at least one dtype, as {\"f32\": 1.95e13}");
    return device;
  }
  if (peaks)
    for (const auto &[dtype, value] : peaks->items())
      device.peakFlops[dtype] = reader.positiveValue(value, "peak_flops." + dtype);
  return device;
}

void readLevels(const Json &json, Cluster &cluster, std::string &message) {
  if (!json.is_array() || json.empty()) {
    if (message.empty())
      message = "levels must be a list, from the inside out, with at least one level";
    return;
  }
  int64_t unitDevices = 1; // of the level below
  for (size_t i = 0; i < json.size() && message.empty(); ++i) {
    Reader reader(json[i], fmt::format("levels[{}]", i), message);
    Level level;
    level.name = reader.text("name", nullptr);
    level.size = reader.count("size");
    level.bandwidth = reader.positive("bandwidth");
    level.latency = reader.notNegative("latency", std::numeric_limits<double>::quiet_NaN());
    level.nodeBandwidth = reader.positive("node_bandwidth", level.bandwidth * static_cast<double>(unitDevices));
    level.switchBandwidth = reader.notNegative("switch_bandwidth", 0);
    if (message.empty() && level.size > kMaxRanks / unitDevices)
      reader.fail(fmt::format("{} units of {} devices are more than {} ranks", level.size, unitDevices, kMaxRanks));
    if (message.empty() && !std::isfinite(level.nodeBandwidth))
      reader.fail("bandwidth times the devices below is not finite");
    unitDevices *= level.size;
    cluster.levels.push_back(std::move(level));
  }
  cluster.usedRanks = unitDevices;
}

std::string readInto(const Json &json, Cluster &cluster) {
  std::string message;
  Reader reader(json, "", message);
  if (!message.empty())
    return message;
  const Json *body = &json;
  if (const Json *groups = reader.find("groups", false)) {
    if (!groups->is_array() || groups->empty())
      return "groups must be a list of {\"device\", \"levels\"}";
    if (groups->size() > 1)
      return fmt::format(
          "has {} groups: plans for mixed clusters are not supported yet; give a file with one of the groups",
          groups->size());
    body = &groups->front();
  }
  Reader bodyReader(*body, body == &json ? "" : "groups[0]", message);
  cluster.name = reader.text("name", "");
  if (const Json *device = bodyReader.find("device", true))
    cluster.device = readDevice(*device, message);
  if (const Json *levels = bodyReader.find("levels", true))
    readLevels(*levels, cluster, message);
  cluster.pricePerHour = reader.notNegative("price_per_hour", 0);
  if (const Json *source = reader.find("source", false)) {
    if (!source->is_object())
      reader.fail("source must be an object {key: text}");
    else
      for (const auto &[key, text] : source->items())
        cluster.source[key] = text.is_string() ? text.get<std::string>() : text.dump();
  }
  if (!message.empty())
    return message;
  int64_t all = cluster.usedRanks;
  cluster.usedRanks = reader.count("ranks", all);
  if (message.empty() && cluster.usedRanks > all)
    return fmt::format("ranks is {}, but the levels hold {}", cluster.usedRanks, all);
  return message;
}

/// Whole numbers without an exponent or fraction, so that files read as people write them.
Json number(double value) {
  if (value == std::floor(value) && std::abs(value) < 9e15)
    return static_cast<int64_t>(value);
  return value;
}

} // namespace

int64_t Cluster::devicesPerUnit(size_t level) const {
  int64_t devices = 1;
  for (size_t l = 0; l <= level; ++l)
    devices *= levels[l].size;
  return devices;
}

Result<Cluster> kerf::parseCluster(std::string_view json, const std::string &where) {
  Json parsed;
  try {
    parsed = Json::parse(json);
  } catch (const Json::exception &error) {
    return Error{fmt::format("cluster file {}: not JSON: {}", where, error.what())};
  }
  Cluster cluster;
  std::string message = readInto(parsed, cluster);
  if (!message.empty())
    return Error{fmt::format("cluster file {}: {}", where, message)};
  return cluster;
}

Result<Cluster> kerf::readCluster(const std::string &path) {
  Result<std::string> text = readFile(path);
  if (!text)
    return text.error();
  return parseCluster(*text, path);
}

std::string kerf::toJson(const Cluster &cluster) {
  Json json;
  json["name"] = cluster.name;
  Json &device = json["device"];
  device["kind"] = cluster.device.kind;
  device["name"] = cluster.device.name;
  device["memory_bytes"] = cluster.device.memoryBytes;
  for (const auto &[dtype, flops] : cluster.device.peakFlops)
    device["peak_flops"][dtype] = number(flops);
  device["memory_bandwidth"] = number(cluster.device.memoryBandwidth);
  if (cluster.device.cores > 0)
    device["cores"] = cluster.device.cores;
  if (!cluster.device.profile.empty())
    device["profile"] = cluster.device.profile;
  DeviceCurves usual = defaultCurves(cluster.device.kind, cluster.device.name);
  for (const CurveKey &key : kCurveKeys)
    if (cluster.device.curves.*key.member != usual.*key.member)
      device["curves"][key.key] = number(cluster.device.curves.*key.member);
  json["levels"] = Json::array();
  int64_t all = 1;
  for (const Level &level : cluster.levels) {
    json["levels"].push_back({{"name", level.name},
                              {"size", level.size},
                              {"bandwidth", number(level.bandwidth)},
                              {"latency", number(level.latency)},
                              {"node_bandwidth", number(level.nodeBandwidth)}});
    if (level.switchBandwidth > 0)
      json["levels"].back()["switch_bandwidth"] = number(level.switchBandwidth);
    all *= level.size;
  }
  if (cluster.usedRanks != all)
    json["ranks"] = cluster.usedRanks;
  if (cluster.pricePerHour > 0)
    json["price_per_hour"] = number(cluster.pricePerHour);
  for (const auto &[key, text] : cluster.source)
    json["source"][key] = text;
  // Names come from files and may hold bytes that are no UTF-8: replaced, not thrown about.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Status kerf::writeCluster(const Cluster &cluster, const std::string &path) { return writeFile(path, toJson(cluster)); }

Result<Cluster> kerf::firstRanks(const Cluster &cluster, int64_t ranks) {
  if (ranks < 1 || ranks > cluster.usedRanks)
    return Error{fmt::format("cluster '{}' has {} ranks, {} are asked for; give --ranks from 1 to {}", cluster.name,
                             cluster.usedRanks, ranks, cluster.usedRanks)};
  Cluster first = cluster;
  first.usedRanks = ranks;
  int64_t units = ranks; // of the level below that are used
  for (Level &level : first.levels) {
    level.size = std::min(level.size, units);
    units = (units + level.size - 1) / level.size;
  }
  return first;
}
