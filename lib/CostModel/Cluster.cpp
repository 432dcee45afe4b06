// SPDX-License-Identifier: Apache-2.0
// Reads, checks and writes cluster files.
#include "kerf/CostModel/Cluster.h"
#include "CodecCurves.h"
#include "Plausible.h"
#include "kerf/Support/File.h"
#include "kerf/Support/JsonText.h"
#include "kerf/Support/Suggest.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
#include <nlohmann/json.hpp>

using namespace kerf;
using Json = nlohmann::ordered_json;

namespace {

// Rank numbers must fit into every type that holds them, MPI's int included.
constexpr int64_t kMaxRanks = int64_t(1) << 31;

/// The first error in a cluster file.
struct Fault {
  std::string message;
  std::string unknownKey = {}; // unknown key that the message is about; "": the message is about something else
  bool empty() const { return message.empty(); }
};

/// Reads the members of one JSON object and records the first error as the fault.
class Reader {
public:
  /// `known` lists the keys that the object may have; empty: any key. `path` names the object in messages.
  Reader(const Json &object, std::string path, Fault &fault, const std::vector<std::string> &known)
      : object(object), path(std::move(path)), fault(fault) {
    if (!object.is_object())
      fail(fmt::format("is of type {}; must be an object {{\"key\": value}}", object.type_name()));
    for (const auto &[key, value] : object.items())
      if (object.is_object() && fault.empty() && !known.empty() &&
          std::find(known.begin(), known.end(), key) == known.end()) {
        fail(fmt::format("has the unknown key \"{}\"; {}", key, suggestion(key, known)));
        fault.unknownKey = key;
      }
  }
  bool has(const char *key) const { return object.is_object() && object.contains(key); }

  std::string text(const char *key, const char *fallback) {
    const Json *value = find(key, fallback == nullptr);
    if (!value)
      return fallback ? fallback : "";
    if (!value->is_string()) {
      fail(fmt::format("{} is {}; must be a string", key, value->dump()));
      return "";
    }
    return value->get<std::string>();
  }
  /// As `positive`, and plausible for a device or a network link.
  double quantity(const char *key, Quantity what, double fallback = std::numeric_limits<double>::quiet_NaN()) {
    double value = positive(key, fallback);
    return has(key) ? plausible(key, what, value) : value;
  }
  /// As `notNegative`, and plausible for a device or a network link.
  double quantityOrZero(const char *key, Quantity what, double fallback) {
    double value = notNegative(key, fallback);
    return has(key) && value > 0 ? plausible(key, what, value) : value;
  }
  double plausible(const std::string &key, Quantity what, double value) {
    if (fault.empty())
      if (std::string fault = implausible(what, key, value); !fault.empty())
        fail(fault);
    return value;
  }
  /// Returns a finite number above 0; `fallback` is the value of an absent key, NaN if the key is required.
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
  /// Returns a whole number of 1 or more, written as 8 or as 8e1; `fallback` (0 or more) is the value of an absent key.
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
      fail(fmt::format("lacks \"{}\"; add it", key));
    return nullptr;
  }
  void fail(const std::string &what) {
    if (fault.empty())
      fault.message = path.empty() ? what : path + ": " + what;
  }

private:
  const Json &object;
  std::string path;
  Fault &fault;
};

/// One key of device.curves, the member that it sets, and the numbers it permits; Share: above 0 and at most 1.
enum class CurveRange { Positive, NotNegative, Share };
struct CurveKey {
  const char *key;
  double DeviceCurves::*member;
  CurveRange range;
  bool describes = false; // whether the key is required for a device that Kerf has no curves of
};
constexpr CurveKey kCurveKeys[] = {
    {"processors", &DeviceCurves::processors, CurveRange::Positive, true},
    {"product_efficiency", &DeviceCurves::productEfficiency, CurveRange::Share, true},
    {"product_overhead_k", &DeviceCurves::productOverheadK, CurveRange::NotNegative, true},
    {"product_quantization", &DeviceCurves::productQuantization, CurveRange::NotNegative, true},
    {"attention_efficiency", &DeviceCurves::attentionEfficiency, CurveRange::Share, true},
    {"attention_half_length", &DeviceCurves::attentionHalfLength, CurveRange::NotNegative, true},
    {"vendor_attention_efficiency", &DeviceCurves::vendorAttention, CurveRange::NotNegative},
    {"unaligned_product_share", &DeviceCurves::unalignedProducts, CurveRange::Share},
    {"issue_scale", &DeviceCurves::issueScale, CurveRange::Positive},
    {"memory_efficiency", &DeviceCurves::memoryEfficiency, CurveRange::Share, true},
    {"launch_seconds", &DeviceCurves::launchSeconds, CurveRange::NotNegative, true},
    {"collective_seconds", &DeviceCurves::collectiveSeconds, CurveRange::NotNegative, true},
    {"sustained", &DeviceCurves::sustained, CurveRange::Share, true},
    {"product_memory_efficiency", &DeviceCurves::productMemory, CurveRange::Share},
    {"reduction_memory_efficiency", &DeviceCurves::reductionMemory, CurveRange::Share},
    {"gather_memory_efficiency", &DeviceCurves::gatherMemory, CurveRange::Share},
    {"movement_memory_efficiency", &DeviceCurves::movementMemory, CurveRange::Share},
    {"pointwise_flops_efficiency", &DeviceCurves::pointwiseFlops, CurveRange::Share},
    {"reduction_flops_efficiency", &DeviceCurves::reductionFlops, CurveRange::Share},
    {"context_bytes", &DeviceCurves::contextBytes, CurveRange::NotNegative, true},
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

/// Returns the keys that are required for a device without known curves and that are missing in `json`; null: no curves
/// at all.
std::vector<std::string> missingCurves(const Json *json) {
  std::vector<std::string> missing;
  for (const CurveKey &key : kCurveKeys)
    if (key.describes && !(json && json->is_object() && json->contains(key.key)))
      missing.push_back(key.key);
  return missing;
}

void readCurves(const Json &json, const std::string &prefix, DeviceCurves &curves, Fault &fault) {
  std::vector<std::string> known;
  for (const CurveKey &key : kCurveKeys)
    known.push_back(key.key);
  Reader reader(json, prefix + "device.curves", fault, known);
  for (const CurveKey &key : kCurveKeys) {
    double &value = curves.*key.member;
    value = key.range == CurveRange::NotNegative ? reader.notNegative(key.key, value) : reader.positive(key.key, value);
    if (std::string_view(key.key).ends_with("_seconds"))
      reader.plausible(key.key, Quantity::Seconds, value);
    if (key.range == CurveRange::Share && value > 1)
      reader.fail(fmt::format("{} is {}; a share is at most 1", key.key, value));
  }
  if (curves.productQuantization > 1)
    reader.fail(fmt::format("product_quantization is {}; at most 1", curves.productQuantization));
}

const std::vector<std::string> kDtypes = {"f64", "f32", "tf32", "f16", "bf16", "f8"}; // the keys of peak_flops

/// `prefix` precedes the key in messages: "" or "groups[1]."
DeviceSpec readDevice(const Json &json, const std::string &prefix, Fault &fault) {
  static const std::vector<std::string> known = {
      "kind",           "name",  "memory_bytes", "peak_flops", "memory_bandwidth",
      "host_bandwidth", "cores", "profile",      "curves",     "codecs"};
  Reader reader(json, prefix + "device", fault, known);
  DeviceSpec device;
  device.kind = reader.text("kind", nullptr);
  device.name = reader.text("name", "");
  device.memoryBytes = reader.count("memory_bytes");
  reader.plausible("memory_bytes", Quantity::Bytes, static_cast<double>(device.memoryBytes));
  device.memoryBandwidth = reader.quantity("memory_bandwidth", Quantity::BytesPerSecond);
  reader.count("cores", 0); // checked, but only informative
  reader.text("profile", "");
  if (reader.has("host_bandwidth"))
    device.hostBandwidth = reader.quantity("host_bandwidth", Quantity::BytesPerSecond);
  const Json *curves = reader.find("curves", false);
  const auto usual = knownCurves(device.kind, device.name);
  if (auto missing = missingCurves(curves); !usual && !missing.empty())
    reader.fail(fmt::format("Kerf has no efficiency curves for kind \"{}\" with name \"{}\"; it has curves for {} "
                            "(compared with the beginning of the name): change kind or name, or describe the device by "
                            "device.curves (docs/clusters.md), where {} missing",
                            device.kind, device.name, knownDevices(),
                            missing.size() == 1 ? fmt::format("{} is", missing.front())
                                                : fmt::format("{} are", fmt::join(missing, ", "))));
  device.curves = usual.value_or(DeviceCurves());
  if (curves)
    readCurves(*curves, prefix, device.curves, fault);
  if (const Json *codecs = reader.find("codecs", false))
    if (std::string wrong = readCodecCurves(*codecs, device); !wrong.empty())
      reader.fail(wrong);
  const Json *peaks = reader.find("peak_flops", true);
  if (peaks && (!peaks->is_object() || peaks->empty())) {
    reader.fail(fmt::format("peak_flops is {}; must be an object with at least one dtype, as {{\"f32\": 1.95e13}}",
                            peaks->dump()));
    return device;
  }
  if (peaks)
    for (const auto &[dtype, value] : peaks->items()) {
      if (std::find(kDtypes.begin(), kDtypes.end(), dtype) == kDtypes.end())
        reader.fail(fmt::format("peak_flops has the unknown dtype \"{}\"; {}", dtype, suggestion(dtype, kDtypes)));
      std::string key = "peak_flops." + dtype;
      device.peakFlops[dtype] = reader.plausible(key, Quantity::FlopPerSecond, reader.positiveValue(value, key));
    }
  return device;
}

void readLevels(const Json &json, const std::string &prefix, Cluster &cluster, Fault &fault) {
  if (!json.is_array() || json.empty()) {
    if (fault.empty())
      fault.message = prefix + "levels must be a list, from the inside out, with at least one level";
    return;
  }
  int64_t unitDevices = 1; // devices of one unit of the level below
  for (size_t i = 0; i < json.size() && fault.empty(); ++i) {
    static const std::vector<std::string> known = {"name",    "size",           "bandwidth",
                                                   "latency", "node_bandwidth", "switch_bandwidth"};
    Reader reader(json[i], fmt::format("{}levels[{}]", prefix, i), fault, known);
    Level level;
    level.name = reader.text("name", nullptr);
    level.size = reader.count("size");
    level.bandwidth = reader.quantity("bandwidth", Quantity::BytesPerSecond);
    level.latency = reader.quantityOrZero("latency", Quantity::Seconds, std::numeric_limits<double>::quiet_NaN());
    level.nodeBandwidth =
        reader.quantity("node_bandwidth", Quantity::BytesPerSecond, level.bandwidth * static_cast<double>(unitDevices));
    level.switchBandwidth = reader.quantityOrZero("switch_bandwidth", Quantity::BytesPerSecond, 0);
    if (fault.empty() && level.size > kMaxRanks / unitDevices)
      reader.fail(fmt::format("{} units of {} devices are more than {} ranks; give a smaller size", level.size,
                              unitDevices, kMaxRanks));
    if (fault.empty() && !std::isfinite(level.nodeBandwidth))
      reader.fail("bandwidth times the devices below is not finite; give node_bandwidth");
    unitDevices *= level.size;
    cluster.levels.push_back(std::move(level));
  }
  cluster.usedRanks = unitDevices;
}

/// Reads one group: the complete file, or an entry of `groups`.
void readGroup(const Json &json, const std::string &path, Cluster &cluster, Fault &fault) {
  static const std::vector<std::string> known = {"name",  "device", "levels", "price_per_hour",
                                                 "ranks", "source", "notes"};
  Reader reader(json, path, fault, known);
  std::string prefix = path.empty() ? "" : path + ".";
  cluster.name = reader.text("name", "");
  if (const Json *device = reader.find("device", true))
    cluster.device = readDevice(*device, prefix, fault);
  if (const Json *levels = reader.find("levels", true))
    readLevels(*levels, prefix, cluster, fault);
  cluster.pricePerHour = reader.notNegative("price_per_hour", cluster.pricePerHour);
  int64_t all = cluster.usedRanks;
  cluster.usedRanks = reader.count("ranks", all);
  if (cluster.usedRanks > all)
    reader.fail(fmt::format("ranks is {}, but the levels hold {}; give {} or fewer", cluster.usedRanks, all, all));
}

void readBetween(const Json &json, Cluster &cluster, Fault &fault) {
  size_t pairs = cluster.groups.size() - 1;
  if (!json.is_array() || (json.size() != 1 && json.size() != pairs)) {
    fault.message = fmt::format(
        "between {} for {} groups; give one for all pairs, or {}: one for each pair of neighbours",
        json.is_array() ? fmt::format("has {} entries", json.size()) : "must be a list", cluster.groups.size(), pairs);
    return;
  }
  for (size_t i = 0; i < json.size(); ++i) {
    Reader reader(json[i], fmt::format("between[{}]", i), fault, {"bandwidth", "latency", "node_bandwidth"});
    GroupLink between;
    between.bandwidth = reader.quantity("bandwidth", Quantity::BytesPerSecond);
    between.latency = reader.quantityOrZero("latency", Quantity::Seconds, std::numeric_limits<double>::quiet_NaN());
    if (reader.has("node_bandwidth"))
      between.nodeBandwidth = reader.quantity("node_bandwidth", Quantity::BytesPerSecond);
    cluster.groupLinks.push_back(between);
  }
}

/// Reads the groups of a mixed cluster. A single group becomes a cluster that is not mixed.
void readGroups(const Json &json, const Json &groups, Cluster &cluster, Fault &fault) {
  if (!groups.is_array() || groups.empty()) {
    fault.message = "groups must be a list of {\"device\", \"levels\"}";
    return;
  }
  Reader reader(json, "", fault,
                {"name", "groups", "between", "device", "levels", "price_per_hour", "ranks", "source", "notes"});
  for (const char *key : {"device", "levels"})
    if (reader.has(key))
      return reader.fail(fmt::format("has {} groups and a \"{}\" of its own; put it into the groups or drop the groups",
                                     groups.size(), key));
  Cluster usual; // values of keys that a group does not have
  usual.pricePerHour = reader.notNegative("price_per_hour", 0);
  int64_t all = 0;
  for (size_t g = 0; g < groups.size() && fault.empty(); ++g) {
    Cluster group = usual;
    readGroup(groups[g], fmt::format("groups[{}]", g), group, fault);
    all += group.usedRanks;
    cluster.groups.push_back(std::move(group));
  }
  if (fault.empty() && all > kMaxRanks)
    fault.message = fmt::format("its {} groups have {} ranks, more than {}; give fewer", groups.size(), all, kMaxRanks);
  const Json *between = reader.find("between", groups.size() > 1);
  if (!fault.empty())
    return;
  if (groups.size() == 1) {
    if (between && !(between->is_array() && between->empty()))
      return reader.fail("has \"between\" but only one group; add a group or drop \"between\"");
    Cluster only = std::move(cluster.groups.front());
    cluster = std::move(only);
  } else {
    cluster.usedRanks = all;
    readBetween(*between, cluster, fault);
  }
  cluster.name = reader.text("name", "");
  int64_t used = reader.count("ranks", cluster.usedRanks);
  if (used > cluster.usedRanks)
    reader.fail(fmt::format("ranks is {}, but the groups hold {}; give {} or fewer", used, cluster.usedRanks,
                            cluster.usedRanks));
  if (fault.empty() && used < cluster.usedRanks)
    cluster = *firstRanks(cluster, used);
}

Fault readInto(const Json &json, Cluster &cluster) {
  Fault fault;
  Reader reader(json, "", fault, {});
  if (!fault.empty())
    return fault;
  if (const Json *groups = reader.find("groups", false))
    readGroups(json, *groups, cluster, fault);
  else
    readGroup(json, "", cluster, fault);
  if (const Json *source = reader.find("source", false)) {
    if (!source->is_object())
      reader.fail(fmt::format("source is {}; must be an object {{\"key\": \"text\"}}", source->dump()));
    else
      for (const auto &[key, text] : source->items())
        cluster.source[key] = text.is_string() ? text.get<std::string>() : text.dump();
  }
  return fault;
}

/// Returns whole numbers without exponent or fraction, as people write them.
Json number(double value) {
  if (value == std::floor(value) && std::abs(value) < 9e15)
    return static_cast<int64_t>(value);
  return value;
}

void writeGroup(const Cluster &cluster, Json &json) {
  Json &device = json["device"];
  device["kind"] = cluster.device.kind;
  device["name"] = cluster.device.name;
  device["memory_bytes"] = cluster.device.memoryBytes;
  for (const auto &[dtype, flops] : cluster.device.peakFlops)
    device["peak_flops"][dtype] = number(flops);
  device["memory_bandwidth"] = number(cluster.device.memoryBandwidth);
  if (cluster.device.hostBandwidth > 0)
    device["host_bandwidth"] = number(cluster.device.hostBandwidth);
  const auto known = knownCurves(cluster.device.kind, cluster.device.name);
  const DeviceCurves usual = known.value_or(DeviceCurves());
  for (const CurveKey &key : kCurveKeys)
    if ((!known && key.describes) || cluster.device.curves.*key.member != usual.*key.member)
      device["curves"][key.key] = number(cluster.device.curves.*key.member);
  if (!cluster.device.codecs.empty())
    device["codecs"] = codecCurvesJson(cluster.device);
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
}

} // namespace

int64_t Cluster::devicesPerUnit(size_t level) const {
  int64_t devices = 1;
  for (size_t l = 0; l <= level; ++l)
    devices *= levels[l].size;
  return devices;
}

Result<Cluster> kerf::parseCluster(std::string_view json, const std::string &where) {
  if (Status status = checkJson(json, fmt::format("cluster file {}", where)); !status)
    return status.error();
  Json parsed = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  Cluster cluster;
  Fault fault = readInto(parsed, cluster);
  if (!fault.unknownKey.empty())
    return Error{fmt::format("cluster file {}, {}: {}", where, locateKey(json, fault.unknownKey), fault.message)};
  if (!fault.empty())
    return Error{fmt::format("cluster file {}: {}", where, fault.message)};
  return cluster;
}

Result<Cluster> kerf::readCluster(const std::string &path) {
  Result<std::string> text = readFile(path);
  if (!text)
    return Error{fmt::format("cluster file: {}; ready ones are in clusters/, such as clusters/dgx-a100.json",
                             text.error().message)};
  return parseCluster(*text, path);
}

std::string kerf::toJson(const Cluster &cluster) {
  Json json;
  json["name"] = cluster.name;
  if (!cluster.mixed())
    writeGroup(cluster, json);
  for (const Cluster &group : cluster.groups) {
    Json written;
    if (!group.name.empty())
      written["name"] = group.name;
    writeGroup(group, written);
    json["groups"].push_back(std::move(written));
  }
  for (const GroupLink &between : cluster.groupLinks) {
    json["between"].push_back({{"bandwidth", number(between.bandwidth)}, {"latency", number(between.latency)}});
    if (between.nodeBandwidth > 0)
      json["between"].back()["node_bandwidth"] = number(between.nodeBandwidth);
  }
  for (const auto &[key, text] : cluster.source)
    json["source"][key] = text;
  // Names from files may contain invalid UTF-8, which is replaced instead of raising an error.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Status kerf::writeCluster(const Cluster &cluster, const std::string &path) { return writeFile(path, toJson(cluster)); }

Result<Cluster> kerf::firstRanks(const Cluster &cluster, int64_t ranks) {
  if (ranks < 1 || ranks > cluster.usedRanks)
    return Error{fmt::format("cluster '{}' has {} ranks, but {} are requested; give <ranks> from 1 to {}", cluster.name,
                             cluster.usedRanks, ranks, cluster.usedRanks)};
  Cluster first = cluster;
  first.usedRanks = ranks;
  if (cluster.mixed()) {
    first.groups.clear();
    for (size_t g = 0; ranks > 0; ++g) {
      int64_t used = std::min(ranks, cluster.groups[g].usedRanks);
      first.groups.push_back(*firstRanks(cluster.groups[g], used));
      ranks -= used;
    }
    if (first.groupLinks.size() > 1)
      first.groupLinks.resize(first.groups.size() - 1);
    if (first.groups.size() > 1)
      return first;
    Cluster only = std::move(first.groups.front());
    only.name = cluster.name;
    only.source = cluster.source;
    return only;
  }
  int64_t units = ranks; // units of the level below that are in use
  for (Level &level : first.levels) {
    level.size = std::min(level.size, units);
    units = (units + level.size - 1) / level.size;
  }
  return first;
}

std::string kerf::groupsText(const Cluster &cluster) {
  std::string text;
  for (const Cluster &group : cluster.groups)
    text += fmt::format("{}{} {}", text.empty() ? "" : " + ", group.usedRanks,
                        group.device.name.empty() ? group.device.kind : group.device.name);
  return text;
}

Status kerf::checkOneGroup(const Cluster &cluster, std::string_view command) {
  if (!cluster.mixed())
    return ok();
  return Error{fmt::format("cluster '{}' has {} groups ({}), but {} needs identical devices (kerf simulate "
                           "accepts mixed clusters); give <ranks> {} or fewer, or a file with one of the groups",
                           cluster.name, cluster.groups.size(), groupsText(cluster), command,
                           cluster.groups.front().usedRanks)};
}
